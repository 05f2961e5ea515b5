// Where the calling thread's time goes, op by op, and the arithmetic the ops need. Always on: a clock read where an op begins and
// one where it ends cost nothing beside it.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>

enum class Op { embed, norm, dequantise, linear, lora, rope, attention, activation, head, loss, optimizer, other, none };

constexpr std::array<const char *, 12> op_names = {"embed", "norm", "dequantise", "linear", "lora", "rope", "attention", "activation", "head", "loss", "optimizer", "other"};

class Profile {
public:
    struct Figures {
        double seconds = 0;
        double flops = 0; // that the op cannot do without: 2 a multiplication and addition; what is hidden by a mask or done again is not in it
    };
    using All = std::array<Figures, op_names.size()>;

    const All & all() const { return figures_; }

    /** From now on time counts for this op; returns the one before. */
    Op enter(Op op) {
        const auto now = std::chrono::steady_clock::now();
        if (op_ != Op::none) figures_[static_cast<size_t>(op_)].seconds += std::chrono::duration<double>(now - since_).count();
        since_ = now;
        const Op before = op_;
        op_ = op;
        return before;
    }
    void add_flops(Op op, double flops) { figures_[static_cast<size_t>(op)].flops += flops; }

private:
    All figures_;
    Op op_ = Op::none;
    std::chrono::steady_clock::time_point since_;
};

/** For as long as it lives time counts for its op, not for the one around it. Only the thread that calls the ops may have one. */
class Timed {
public:
    Timed(Profile & profile, Op op, double flops = 0) : profile_(profile), before_(profile.enter(op)) { profile.add_flops(op, flops); }
    ~Timed() { profile_.enter(before_); }
    Timed(const Timed &) = delete;
    Timed & operator=(const Timed &) = delete;

private:
    Profile & profile_;
    Op before_;
};
