// Compares every CUDA kernel with its counterpart on the CPU in double precision. The device is a template parameter: the emulator runs
// these tests without a GPU, and a GPU runs the same lines.
#pragma once
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "check.h"
#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/cuda/adamw.h"
#include "kernels/cuda/attention_flash.h"
#include "kernels/cuda/attention_plain.h"
#include "kernels/cuda/dequantise.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/rmsnorm.h"
#include "kernels/cuda/token_loss.h"
#include "kernels/rmsnorm.h"
#include "kernels/token_loss.h"

using namespace gpu;

/** Rounds the tests' inputs on the host. */
template <class T> std::vector<T> rounded(const std::vector<double> & values) {
    std::vector<T> result(values.size());
    for (size_t i = 0; i < values.size(); i++) put(result[i], static_cast<float>(values[i]));
    return result;
}
template <class T> std::vector<double> values_of(const std::vector<T> & numbers) {
    std::vector<double> result(numbers.size());
    for (size_t i = 0; i < numbers.size(); i++) result[i] = static_cast<double>(get(numbers[i]));
    return result;
}
inline std::vector<double> random_doubles(size_t count, uint64_t key, double spread) {
    std::vector<double> values(count);
    for (size_t i = 0; i < count; i++) values[i] = static_cast<double>(static_cast<float>((2 * random_uniform(key, i) - 1) * spread));
    return values;
}

template <class Device> class KernelTests {
public:
    explicit KernelTests(Device & device) : device_(device) {}

    int run() {
        test_dequantise();
        test_norms<float>("f32", 1e-6);
        test_norms<Bf16>("bf16", 5e-3);
        test_elementwise<float>("f32", 2e-6);
        test_elementwise<Bf16>("bf16", 5e-3);
        test_token_loss<float>("f32", 5e-6);
        test_token_loss<Bf16>("bf16", 5e-3);
        test_adamw();
        test_plain_attention();
        test_flash<16>();
        test_flash<64>();
        test_flash<80>();
        test_flash<96>();
        test_flash<128>();
        test_flash<256>();
        return kernels_;
    }

private:
    template <class T> T * up(const std::vector<T> & values) {
        auto * memory = static_cast<T *>(device_.allocate(static_cast<int64_t>(std::max<size_t>(1, values.size()) * sizeof(T))));
        if (!values.empty()) device_.write(memory, values.data(), static_cast<int64_t>(values.size() * sizeof(T)));
        return memory;
    }
    template <class T> T * room(size_t count) { return static_cast<T *>(device_.allocate(static_cast<int64_t>(count * sizeof(T)))); }
    template <class T> std::vector<T> down(const T * memory, size_t count) {
        std::vector<T> values(count);
        device_.read(values.data(), memory, static_cast<int64_t>(count * sizeof(T)));
        return values;
    }
    template <class T> void close(const std::string & what, const T * memory, const std::vector<double> & expected, double tolerance) {
        const std::vector<double> values = values_of(down(memory, expected.size()));
        const double error = relative_l2(values.data(), expected.data(), expected.size());
        CHECK(error <= tolerance, "%s: %g", what.c_str(), error);
        kernels_++;
    }

    /** Compared with ggml's own dequantisation, for quantised random values and for random bytes. */
    void test_dequantise() {
        const ggml_type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1,
                                   GGML_TYPE_Q8_0, GGML_TYPE_Q2_K, GGML_TYPE_Q3_K, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};
        const int64_t columns = 512, rows = 5, count = columns * rows;
        for (ggml_type type : types) {
            const std::vector<double> values = random_doubles(static_cast<size_t>(count), 3 + type, 2);
            const std::vector<float> floats(values.begin(), values.end());
            std::vector<uint8_t> bytes(ggml_row_size(type, columns) * static_cast<size_t>(rows));
            if (type == GGML_TYPE_F32)
                std::memcpy(bytes.data(), floats.data(), bytes.size());
            else
                ggml_quantize_chunk(type, floats.data(), bytes.data(), 0, rows, columns, nullptr);
            for (bool noise : {false, true}) {
                // Random bytes below 0x3c, so that no scale is a NaN or an infinity.
                if (noise && ggml_is_quantized(type))
                    for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<uint8_t>(random_uniform(99, i) * 0x3c);
                std::vector<float> expected(static_cast<size_t>(count));
                if (type == GGML_TYPE_F32)
                    expected = floats;
                else
                    ggml_get_type_traits(type)->to_float(bytes.data(), expected.data(), count);
                const uint8_t * from = up(bytes);
                auto * to = room<float>(static_cast<size_t>(count));
                auto * narrow = room<Bf16>(static_cast<size_t>(count));
                const std::vector<int32_t> tokens = {4, 0, 2, 2};
                auto * x = room<float>(tokens.size() * static_cast<size_t>(columns));
                const bool known = with_type(type, [&](auto constant) {
                    constexpr ggml_type known_type = decltype(constant)::value;
                    // Four rows are dequantised eight values at a time, the last one value by value.
                    const int64_t most = columns * (rows - 1);
                    device_.launch(Dequantise<known_type, float, 8>{from, most, to}, (most / 8 + 127) / 128, 1, 128);
                    device_.launch(Dequantise<known_type, Bf16, 8>{from, most, narrow}, (most / 8 + 127) / 128, 1, 128);
                    const uint8_t * rest = from + most / Quantised<known_type>::values * Quantised<known_type>::bytes;
                    device_.launch(Dequantise<known_type, float, 1>{rest, count - most, to + most}, (count - most + 127) / 128, 1, 128);
                    device_.launch(Dequantise<known_type, Bf16, 1>{rest, count - most, narrow + most}, (count - most + 127) / 128, 1, 128);
                    device_.launch(Embed<known_type>{from, up(tokens), columns, 3.0f, x}, columns / 128, static_cast<int64_t>(tokens.size()), 128);
                });
                CHECK(known, "type %s", ggml_type_name(type));
                const std::vector<double> reference(expected.begin(), expected.end());
                close(std::string("dequantise ") + ggml_type_name(type), to, reference, 1e-7);
                close(std::string("dequantise to bf16 ") + ggml_type_name(type), narrow, reference, 4e-3);
                std::vector<double> embedded;
                for (int32_t token : tokens)
                    for (int64_t i = 0; i < columns; i++) embedded.push_back(3 * reference[static_cast<size_t>(token * columns + i)]);
                close(std::string("embed ") + ggml_type_name(type), x, embedded, 1e-7);
            }
        }
    }

    template <class T> void test_norms(const std::string & type, double tolerance) {
        const int64_t rows = 5, d = 200;
        const float eps = 1e-5f;
        const auto n = static_cast<size_t>(rows * d);
        const std::vector<double> x = values_of(rounded<T>(random_doubles(n, 1, 3))), w = random_doubles(static_cast<size_t>(d), 2, 2), dy = random_doubles(n, 3, 1), before = random_doubles(n, 4, 1);
        const std::vector<int32_t> picked = {3, -1, 0, 4, 1};
        std::vector<double> y(n), dx = before, picked_dx = before, again(n), inv(static_cast<size_t>(rows)), post = before, dpost(n), own(n);
        for (int64_t r = 0; r < rows; r++) {
            const auto at = static_cast<size_t>(r * d);
            inv[static_cast<size_t>(r)] = reference::rmsnorm(&x[at], w.data(), static_cast<double>(eps), d, &y[at]);
            reference::rmsnorm_backward(&x[at], w.data(), inv[static_cast<size_t>(r)], &dy[at], d, &dx[at]);
            reference::rmsnorm_backward(&x[at], w.data(), inv[static_cast<size_t>(r)], &dy[at], d, &own[at]);
            for (int64_t i = 0; i < d; i++) post[at + static_cast<size_t>(i)] += y[at + static_cast<size_t>(i)];
        }
        const std::vector<float> xf(x.begin(), x.end()), wf(w.begin(), w.end()), dyf(dy.begin(), dy.end()), beforef(before.begin(), before.end());
        const float *xd = up(xf), *wd = up(wf), *dyd = up(dyf);
        const T * xt = up(rounded<T>(x));
        T *yd = room<T>(n), *kept = room<T>(n), *out = room<T>(n);
        float *invd = room<float>(static_cast<size_t>(rows)), *dxd = up(beforef);
        device_.launch(RmsNorm<T>{xd, nullptr, wd, eps, d, yd, kept, invd}, rows, 1, 128);
        close("rmsnorm " + type, yd, y, tolerance);
        close("rmsnorm kept " + type, kept, x, tolerance);
        close("rmsnorm inv " + type, invd, inv, 1e-6);
        device_.launch(RmsNormAgain<T>{xt, wd, invd, d, out}, rows, 1, 128);
        close("rmsnorm again " + type, out, y, tolerance);
        device_.launch(RmsNormBackward<T, T>{xt, nullptr, wd, invd, dyd, d, dxd, out}, rows, 1, 128);
        close("rmsnorm backward " + type, dxd, dx, 2e-6);
        close("rmsnorm backward copy " + type, out, dx, tolerance);

        // Picked rows: y and dy are indexed by ask, x and dx by token.
        std::vector<double> picked_y(n);
        std::vector<double> picked_inv(static_cast<size_t>(rows));
        for (int64_t r = 0; r < rows; r++)
            if (picked[static_cast<size_t>(r)] >= 0) {
                const auto from = static_cast<size_t>(picked[static_cast<size_t>(r)] * d), to = static_cast<size_t>(r * d);
                picked_inv[static_cast<size_t>(r)] = inv[static_cast<size_t>(picked[static_cast<size_t>(r)])];
                std::copy_n(&y[from], d, &picked_y[to]);
                reference::rmsnorm_backward(&x[from], w.data(), picked_inv[static_cast<size_t>(r)], &dy[to], d, &picked_dx[from]);
            }
        const int32_t * rowsd = up(picked);
        device_.launch(RmsNorm<T>{xd, rowsd, wd, eps, d, yd, nullptr, invd}, rows, 1, 128);
        close("rmsnorm of picked rows " + type, yd, picked_y, tolerance);
        dxd = up(beforef);
        device_.launch(RmsNormBackward<float, T>{xd, rowsd, wd, invd, dyd, d, dxd, nullptr}, rows, 1, 128);
        close("rmsnorm backward of picked rows " + type, dxd, picked_dx, 2e-6);

        float * sum = up(beforef);
        device_.launch(PostNorm<T>{xd, wd, eps, d, kept, invd, sum}, rows, 1, 128);
        close("post-norm " + type, sum, post, 2e-6);
        device_.launch(PostNormBackward<T>{kept, wd, invd, dyd, d, out}, rows, 1, 128);
        close("post-norm backward " + type, out, own, tolerance);
        test_head_norm<T>(type, tolerance);
    }

    template <class T> void test_head_norm(const std::string & type, double tolerance) {
        const int64_t tokens = 3, heads = 3, of_q = 2, d = 40, from_stride = 140, to_stride = 124;
        const std::vector<double> x = values_of(rounded<T>(random_doubles(static_cast<size_t>(tokens * from_stride), 5, 2))), w = random_doubles(static_cast<size_t>(2 * d), 6, 1.5);
        const std::vector<double> dy = values_of(rounded<T>(random_doubles(static_cast<size_t>(tokens * to_stride), 7, 1)));
        std::vector<double> y = dy, dx = dy; // what lies between the heads must not change
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t h = 0; h < heads; h++) {
                const auto from = static_cast<size_t>(t * from_stride + h * d), to = static_cast<size_t>(t * to_stride + h * d);
                const double * of = w.data() + (h < of_q ? 0 : d);
                const double inv = reference::rmsnorm(&x[from], of, static_cast<double>(1e-6f), d, &y[to]);
                std::fill_n(&dx[to], d, 0);
                reference::rmsnorm_backward(&x[from], of, inv, &dy[to], d, &dx[to]);
            }
        const T * xd = up(rounded<T>(x));
        T *yd = up(rounded<T>(dy)), *gd = up(rounded<T>(dy));
        const std::vector<float> wf(w.begin(), w.end());
        const float * wd = up(wf);
        const HeadWeights weights{wd, wd + d, of_q};
        auto * inv = room<float>(static_cast<size_t>(tokens * heads));
        device_.launch(HeadNorm<T>{xd, from_stride, weights, 1e-6f, d, heads, yd, to_stride, inv}, tokens, heads, 32);
        close("head norm " + type, yd, y, tolerance);
        device_.launch(HeadNormBackward<T>{xd, from_stride, weights, inv, d, heads, gd, to_stride}, tokens, heads, 32);
        close("head norm backward " + type, gd, dx, tolerance);
    }

    template <class T> void test_glu(const std::string & type, double tolerance, int64_t tokens, int64_t width) {
        const auto n = static_cast<size_t>(tokens * width);
        const std::vector<double> gate_up = values_of(rounded<T>(random_doubles(2 * n, 9, 5))), dy = values_of(rounded<T>(random_doubles(n, 10, 1)));
        for (gpu::Activation kind : {gpu::Activation::silu, gpu::Activation::gelu_tanh}) {
            std::vector<double> product(n), gradient(2 * n);
            for (int64_t t = 0; t < tokens; t++)
                for (int64_t i = 0; i < width; i++) {
                    const auto at = static_cast<size_t>(t * width + i), g = static_cast<size_t>(2 * t * width + i), u = g + static_cast<size_t>(width);
                    const auto act = [&](double v) {
                        return kind == gpu::Activation::silu ? v / (1 + std::exp(-v)) : 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
                    };
                    product[at] = act(gate_up[g]) * gate_up[u];
                    gradient[u] = dy[at] * act(gate_up[g]);
                    gradient[g] = dy[at] * gate_up[u] * (act(gate_up[g] + 1e-6) - act(gate_up[g] - 1e-6)) / 2e-6; // central difference
                }
            with_chunk<T>(width, [&](auto chunk) {
                constexpr int each = decltype(chunk)::value;
                T *gud = up(rounded<T>(gate_up)), *out = room<T>(n);
                device_.launch(Glu<T, each>{gud, width, kind, out}, (width + 32 * each - 1) / (32 * each), tokens, 32);
                close("glu " + type, out, product, tolerance);
                device_.launch(GluBackward<T, each>{gud, up(rounded<T>(dy)), width, kind}, (width + 32 * each - 1) / (32 * each), tokens, 32);
                close("glu backward " + type, gud, gradient, tolerance);
            });
        }
    }

    template <class T> void test_elementwise(const std::string & type, double tolerance) {
        const int64_t tokens = 4, heads = 3, d = 16, stride = 60;
        const std::vector<int32_t> positions = {7, 0, 3, 30};
        std::vector<float> table;
        for (int64_t p = 0; p <= 30; p++)
            for (int64_t pair = 0; pair < d / 2; pair++) {
                const double angle = static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(d));
                table.push_back(static_cast<float>(std::cos(angle)));
                table.push_back(static_cast<float>(std::sin(angle)));
            }
        const float * tabled = up(table);
        const int32_t * positionsd = up(positions);
        const std::vector<double> x = values_of(rounded<T>(random_doubles(static_cast<size_t>(tokens * stride), 8, 2)));
        for (bool neox : {false, true})
            for (int direction : {1, -1}) {
                std::vector<double> expected = x;
                for (int64_t t = 0; t < tokens; t++)
                    for (int64_t h = 0; h < heads; h++)
                        for (int64_t i = 0; i < d / 2; i++) {
                            const double angle = positions[static_cast<size_t>(t)] * std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(d));
                            double * head = &expected[static_cast<size_t>(t * stride + h * d)];
                            double &a = head[neox ? i : 2 * i], &b = head[neox ? i + d / 2 : 2 * i + 1];
                            const double c = std::cos(angle), s = std::sin(angle) * direction, first = a * c - b * s;
                            b = a * s + b * c;
                            a = first;
                        }
                T * xd = up(rounded<T>(x));
                device_.launch(gpu::Rope<T>{xd, stride, static_cast<int32_t>(heads), static_cast<int32_t>(d), positionsd, tabled, neox, static_cast<float>(direction)}, tokens, 1, 32);
                close("rope " + type, xd, expected, tolerance);
            }

        for (const int64_t width : {70, 576}) test_glu<T>(type, tolerance, tokens, width); // one width that is no multiple of 16 bytes, and one that is

        std::vector<double> biased = x;
        const std::vector<double> bias = random_doubles(50, 11, 1);
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t i = 0; i < 50; i++) biased[static_cast<size_t>(t * stride + i)] += bias[static_cast<size_t>(i)];
        T * xd = up(rounded<T>(x));
        const std::vector<float> biasf(bias.begin(), bias.end());
        device_.launch(AddBias<T>{xd, stride, 50, up(biasf)}, 2, tokens, 32);
        close("bias " + type, xd, biased, tolerance);

        const std::vector<float> xf(x.begin(), x.end());
        T * cast = room<T>(x.size());
        const auto count = static_cast<int64_t>(x.size());
        with_chunk<T>(count, [&](auto chunk) { device_.launch(Cast<T, decltype(chunk)::value>{up(xf), count, cast}, (count + 31) / 32, 1, 32); });
        close("cast " + type, cast, x, tolerance);
        device_.launch(Cast<T, 1>{up(xf), count, cast}, (count + 31) / 32, 1, 32);
        close("cast one by one " + type, cast, x, tolerance);

        const std::vector<int32_t> places = {5, -1, 2, 0};
        std::vector<double> keys(6 * 20), values(6 * 20);
        for (size_t t = 0; t < 4; t++)
            for (size_t i = 0; i < 20 && places[t] >= 0; i++) {
                keys[static_cast<size_t>(places[t]) * 20 + i] = x[t * 60 + 3 + i];
                values[static_cast<size_t>(places[t]) * 20 + i] = x[t * 60 + 30 + i];
            }
        const T * from = up(rounded<T>(x));
        T *kd = up(std::vector<T>(120)), *vd = up(std::vector<T>(120));
        device_.launch(StoreCache<T>{from + 3, from + 30, stride, stride, 20, up(places), kd, vd}, 1, 4, 32);
        close("cache keys " + type, kd, keys, 1e-9);
        close("cache values " + type, vd, values, 1e-9);
    }

    template <class T> void test_token_loss(const std::string & type, double tolerance) {
        const int64_t rows = 5, vocabulary = 1003;
        const std::vector<double> logits = random_doubles(static_cast<size_t>(rows * vocabulary), 12, 12);
        const std::vector<int32_t> targets = {77, 0, -1, 1002, 5}, soft_begin = {0, 0, 2, 2, 5, 9}, soft_tokens = {9, 1001, 1002, 4, 4, 8, -1, 5, 0};
        const std::vector<float> coefficients = {-0.7f, 0, 0, 1, 0.3f, 0, 0, 0, 0, 0.5f, 0.2f, 0.1f, 0, 0.4f, 0.05f}, soft_weights = {0.25f, 0.5f, 0.1f, 0.2f, 0.3f, 0.2f, 0.6f, 0.1f, 0};
        std::vector<double> gradient = logits, losses, soft;
        for (int64_t r = 0; r < rows; r++) {
            const auto i = static_cast<size_t>(r);
            double * row = &gradient[static_cast<size_t>(r * vocabulary)];
            if (targets[i] < 0) {
                std::fill_n(row, vocabulary, 0);
                losses.insert(losses.end(), {0, 0, 0});
                continue;
            }
            const LossCoefficients c{coefficients[3 * i], coefficients[3 * i + 1], coefficients[3 * i + 2]};
            const SoftTargets targets_of{&soft_tokens[static_cast<size_t>(soft_begin[i])], &soft_weights[static_cast<size_t>(soft_begin[i])], soft_begin[i + 1] - soft_begin[i]};
            const TokenLoss loss = reference::token_loss(row, vocabulary, targets[i], c, targets_of);
            losses.insert(losses.end(), {loss.logprob, loss.entropy, loss.log_sum});
            soft.insert(soft.end(), loss.soft_logprobs.begin(), loss.soft_logprobs.end());
        }
        const std::vector<float> lf(logits.begin(), logits.end());
        float * logitsd = up(lf);
        auto * lossesd = room<RowLoss>(static_cast<size_t>(rows));
        auto * softd = room<float>(soft.size());
        // In single precision the gradient overwrites the logits.
        T * out = type == "f32" ? reinterpret_cast<T *>(logitsd) : room<T>(logits.size());
        TokenLossRows<T> kernel{logitsd, vocabulary, up(targets), up(coefficients), up(soft_begin), up(soft_tokens), up(soft_weights), lossesd, softd, nullptr};
        device_.launch(kernel, rows, 1, 128);
        close("token loss forward " + type, reinterpret_cast<float *>(lossesd), losses, 1e-6);
        kernel.gradient = out;
        device_.launch(kernel, rows, 1, 128);
        close("token loss " + type, reinterpret_cast<float *>(lossesd), losses, 1e-6);
        close("token loss soft " + type, softd, soft, 1e-6);
        close("token loss gradient " + type, out, gradient, tolerance);
    }

    void test_adamw() {
        const size_t n = 1001;
        const AdamW o{0.01, 0.9, 0.95, 1e-8, 0.1, 0};
        std::vector<double> w = random_doubles(n, 13, 1), m(n), v(n);
        const std::vector<float> wf(w.begin(), w.end());
        float *wd = up(wf), *md = up(std::vector<float>(n)), *vd = up(std::vector<float>(n));
        auto * narrow = room<Bf16>(n);
        for (int step = 1; step <= 3; step++) {
            const std::vector<double> g = random_doubles(n, 50 + static_cast<uint64_t>(step), 1);
            const std::vector<float> gf(g.begin(), g.end());
            float * gd = up(gf);
            reference::adamw(o, step, 0.5, static_cast<int64_t>(n), w.data(), g.data(), m.data(), v.data());
            const auto f = [](double value) { return static_cast<float>(value); };
            device_.launch(AdamwStep<Bf16>{wd, gd, md, vd, narrow, static_cast<int64_t>(n), f(o.beta1), f(o.beta2), f(1 - o.beta1), f(1 - o.beta2), f(1 / (1 - std::pow(o.beta1, step))),
                                     f(1 / (1 - std::pow(o.beta2, step))), f(o.learning_rate), f(o.eps), f(1 - o.learning_rate * o.weight_decay), 0.5f},
                           (static_cast<int64_t>(n) + 127) / 128, 1, 128);
            close("adamw clears the gradient", gd, std::vector<double>(n), 0);
        }
        close("adamw weights", wd, w, 1e-6);
        close("adamw weights as products read them", narrow, w, 5e-3);
        close("adamw first moments", md, m, 1e-6);
        close("adamw second moments", vd, v, 1e-6);
        const std::vector<double> values = random_doubles(40000, 14, 1);
        const std::vector<float> vf(values.begin(), values.end());
        auto * partial = room<float>(3);
        device_.launch(SquaredNorm{up(vf), 40000, partial}, 3, 1, 128);
        double norm = 0;
        for (float part : down(partial, 3)) norm += static_cast<double>(part);
        const double expected = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
        CHECK(std::abs(norm - expected) <= 1e-5 * expected, "%g and %g", norm, expected);
    }

    struct AttentionCase {
        AttentionShape shape;
        std::vector<int64_t> lengths;
        int64_t window;
    };
    /** The results of the reference. q, k and v stand side by side in a token's row. */
    struct AttentionExpected {
        std::vector<double> qkv, dout, out, lse, dqkv;
    };

    template <class T> AttentionExpected expect(const AttentionCase & c) {
        const int64_t stride = c.shape.q_width() + 2 * c.shape.kv_width(), qw = c.shape.q_width(), kw = c.shape.kv_width(), heads = c.shape.heads, d = c.shape.d;
        const int64_t tokens = std::accumulate(c.lengths.begin(), c.lengths.end(), int64_t{0});
        AttentionExpected e;
        e.qkv = values_of(rounded<T>(random_doubles(static_cast<size_t>(tokens * stride), 20, 2)));
        e.dout = values_of(rounded<T>(random_doubles(static_cast<size_t>(tokens * qw), 21, 1)));
        e.out.resize(static_cast<size_t>(tokens * qw));
        e.lse.resize(static_cast<size_t>(tokens * heads));
        e.dqkv.resize(e.qkv.size());
        const double scale = 1 / std::sqrt(static_cast<double>(d));
        int64_t begin = 0;
        // Plain loops over queries, keys and values: the softmax of scaled products over the keys that a query may see, and its derivative.
        for (int64_t length : c.lengths) {
            for (int64_t h = 0; h < heads; h++)
                for (int64_t i = begin; i < begin + length; i++) {
                    const int64_t first = c.window > 0 ? std::max(begin, i - c.window + 1) : begin, kv = h / c.shape.group() * d;
                    const double * q = &e.qkv[static_cast<size_t>(i * stride + h * d)];
                    const double * dout = &e.dout[static_cast<size_t>(i * qw + h * d)];
                    double * out = &e.out[static_cast<size_t>(i * qw + h * d)];
                    std::vector<double> p, dp;
                    double sum = 0, mean = 0;
                    for (int64_t j = first; j <= i; j++) {
                        double dot = 0, value = 0;
                        for (int64_t x = 0; x < d; x++) {
                            dot += q[x] * e.qkv[static_cast<size_t>(j * stride + qw + kv + x)];
                            value += dout[x] * e.qkv[static_cast<size_t>(j * stride + qw + kw + kv + x)];
                        }
                        p.push_back(std::exp(dot * scale));
                        dp.push_back(value);
                        sum += p.back();
                    }
                    e.lse[static_cast<size_t>(i * heads + h)] = std::log(sum);
                    for (size_t j = 0; j < p.size(); j++) mean += (p[j] /= sum) * dp[j];
                    for (int64_t j = first; j <= i; j++) {
                        const double probability = p[static_cast<size_t>(j - first)], ds = probability * (dp[static_cast<size_t>(j - first)] - mean) * scale;
                        for (int64_t x = 0; x < d; x++) {
                            const auto k = static_cast<size_t>(j * stride + qw + kv + x), v = k + static_cast<size_t>(kw);
                            out[x] += probability * e.qkv[v];
                            e.dqkv[v] += probability * dout[x];
                            e.dqkv[k] += ds * q[x];
                            e.dqkv[static_cast<size_t>(i * stride + h * d + x)] += ds * e.qkv[k];
                        }
                    }
                }
            begin += length;
        }
        return e;
    }

    template <class T> struct OnDevice {
        AttentionInputs<T> in;
        AttentionGradients<T> g;
        T *out, *dqkv;
        float * lse;
        int64_t tokens;
    };
    template <class T> OnDevice<T> upload(const AttentionCase & c, const AttentionExpected & e) {
        const int64_t stride = c.shape.q_width() + 2 * c.shape.kv_width(), tokens = static_cast<int64_t>(e.qkv.size()) / stride;
        const T * qkv = up(rounded<T>(e.qkv));
        OnDevice<T> o{};
        o.tokens = tokens;
        o.in = {qkv, qkv + c.shape.q_width(), qkv + c.shape.q_width() + c.shape.kv_width(), stride, stride, stride, c.shape.heads, c.shape.group(), c.shape.d,
                1 / std::sqrt(static_cast<float>(c.shape.d)), c.window};
        o.out = room<T>(e.out.size());
        o.lse = room<float>(e.lse.size());
        o.dqkv = room<T>(e.qkv.size());
        const T * dout = up(rounded<T>(e.dout));
        auto * delta = room<float>(e.lse.size());
        o.g = {dout, o.lse, delta, o.dqkv, o.dqkv + c.shape.q_width(), o.dqkv + c.shape.q_width() + c.shape.kv_width(), stride, stride, stride};
        return o;
    }
    template <class T> void check_attention(const std::string & what, const AttentionExpected & e, const OnDevice<T> & o, double tolerance) {
        close(what + " out", o.out, e.out, tolerance);
        close(what + " lse", o.lse, e.lse, tolerance);
        close(what + " gradients", o.dqkv, e.dqkv, 2 * tolerance);
    }
    template <class T> void delta_of(const OnDevice<T> & o) {
        device_.launch(AttentionDelta<T>{o.g.dout, o.out, o.in.heads, o.in.d, const_cast<float *>(o.g.delta)}, o.tokens, o.in.heads, 32);
    }

    template <class T> void plain_attention(const AttentionCase & c, const std::string & what, double tolerance) {
        const AttentionExpected e = expect<T>(c);
        const OnDevice<T> o = upload<T>(c, e);
        std::vector<int32_t> first, last, row_end;
        int32_t begin = 0;
        for (int64_t length : c.lengths) {
            for (int32_t i = 0; i < length; i++) {
                first.push_back(begin);
                last.push_back(begin + i);
                row_end.push_back(begin + static_cast<int32_t>(length));
            }
            begin += static_cast<int32_t>(length);
        }
        const int64_t d = c.shape.d;
        const int threads = 32;
        device_.launch(AttentionPlain<T>{o.in, up(first), up(last), o.out, o.lse}, o.tokens, c.shape.heads, threads, (2 * d + threads) * 4);
        delta_of(o);
        device_.launch(AttentionPlainDq<T>{o.in, up(first), up(last), o.g}, o.tokens, c.shape.heads, threads, (3 * d + threads) * 4);
        device_.launch(AttentionPlainDkv<T>{o.in, up(row_end), o.g}, o.tokens, c.shape.kv_heads, threads, (4 * d + 2 * threads) * 4);
        check_attention(what, e, o, tolerance);
    }
    void test_plain_attention() {
        for (int64_t window : {0, 1, 20}) {
            const AttentionCase c{{4, 2, 24}, {5, 1, 70, 33}, window};
            plain_attention<float>(c, "plain attention f32 window " + std::to_string(window), 2e-6);
            plain_attention<Bf16>(c, "plain attention bf16 window " + std::to_string(window), 1e-2);
        }
    }

    template <int d> void test_flash() {
        for (int64_t window : {int64_t{0}, int64_t{34}, int64_t{INT32_MAX}}) {
            const AttentionCase c{{4, 2, d}, d == 16 ? std::vector<int64_t>{70, 1, 5, 131} : std::vector<int64_t>{3, 67}, window};
            const AttentionExpected e = expect<Bf16>(c);
            const OnDevice<Bf16> o = upload<Bf16>(c, e);
            std::vector<Tile> tiles;
            int32_t begin = 0;
            for (int64_t length : c.lengths) {
                for (int32_t at = 0; at < length; at += flash_rows) tiles.push_back({begin, begin + at, begin + static_cast<int32_t>(length)});
                begin += static_cast<int32_t>(length);
            }
            tiles.push_back({0, 0, 0}); // no tile: nothing may be written for it
            const auto count = static_cast<int64_t>(tiles.size());
            const Tile * tilesd = up(tiles);
            device_.launch(FlashForward<d>{o.in, tilesd + count - 1, o.out, o.lse}, count, c.shape.heads, flash_threads, Flash<d>::forward_bytes);
            delta_of(o);
            device_.launch(FlashDq<d>{o.in, tilesd + count - 1, o.g}, count, c.shape.heads, flash_threads, Flash<d>::backward_bytes);
            device_.launch(FlashDkv<d>{o.in, tilesd, o.g}, count, c.shape.kv_heads, flash_threads, Flash<d>::backward_bytes);
            check_attention("flash attention " + std::to_string(d) + " window " + std::to_string(window), e, o, 1e-2);
        }
    }

    Device & device_;
    int kernels_ = 0;
};
