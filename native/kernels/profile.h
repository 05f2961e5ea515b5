// Time that the calling thread spends in each op, and the arithmetic that the ops need. It is always on: reading the clock at the start and
// at the end of an op costs almost nothing.
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
        double flops = 0; // arithmetic that the op needs, 2 for a multiplication with an addition; without masked values and without recomputation
    };
    using All = std::array<Figures, op_names.size()>;

    const All & all() const { return figures_; }

    /** Counts the time from now on for this op. Returns the previous op. */
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

/** While this lives, time counts for its op instead of the surrounding one. Only the thread that calls the ops may create one. */
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
