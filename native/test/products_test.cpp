// The products of training, frozen and LoRA's, must be right, cut by their shapes alone, and the same to the bit with any number of
// threads. On a processor that does not multiply bf16, the part `bf16` says so and counts as skipped.
// Usage: products_test fp32 | bf16
#include <cstring>
#include <numeric>

#include "base/random.h"
#include "check.h"
#include "gates.h"
#include "kernels/bf16_gemm.h"
#include "kernels/gemm.h"
#include "kernels/matrix.h"
#include "model/random_model.h"
#include "model/transformer.h"

namespace {

std::vector<float> random_values(size_t count, uint64_t key) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; i++) values[i] = static_cast<float>(2 * random_uniform(key, i) - 1);
    return values;
}

/** Rounds to the nearest bf16, ties to even. */
float rounded(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    std::memcpy(&value, &bits, sizeof bits);
    return value;
}

/** The values as they are multiplied. */
std::vector<double> widened(const std::vector<float> & values, Number number) {
    std::vector<double> wide;
    for (float value : values) wide.push_back(static_cast<double>(number == Number::bf16 ? rounded(value) : value));
    return wide;
}

struct Weight {
    std::vector<uint8_t> bytes;
    Matrix matrix;
    std::vector<double> values; // [rows, columns] as they are multiplied
};

Weight random_weight(Number number, ggml_type type, int64_t rows, int64_t columns, uint64_t key) {
    const std::vector<float> floats = random_values(static_cast<size_t>(rows * columns), key);
    Weight w{std::vector<uint8_t>(ggml_row_size(type, columns) * static_cast<size_t>(rows)), {nullptr, type, rows, columns}, {}};
    if (type == GGML_TYPE_F32)
        std::memcpy(w.bytes.data(), floats.data(), w.bytes.size());
    else
        ggml_quantize_chunk(type, floats.data(), w.bytes.data(), 0, rows, columns, nullptr);
    w.matrix.data = w.bytes.data();
    std::vector<float> dense(floats.size());
    for (int64_t r = 0; r < rows; r++) w.matrix.read(r, 0, columns, dense.data() + r * columns);
    w.values = widened(dense, number);
    return w;
}

/** Several weights that share an input. Compares both products with double precision, and the bits for different numbers of threads. */
void check_products(Number number, ggml_type type, const std::vector<int64_t> & rows, int64_t columns, int64_t tokens) {
    const std::string name = std::string(ggml_type_name(type)) + " " + std::to_string(tokens) + " × " + std::to_string(rows[0]) + " × " + std::to_string(columns);
    std::vector<Weight> weights;
    for (size_t i = 0; i < rows.size(); i++) weights.push_back(random_weight(number, type, rows[i], columns, 10 + i));
    const std::vector<float> x = random_values(static_cast<size_t>(tokens * columns), 1), before = random_values(static_cast<size_t>(tokens * columns), 2);
    std::vector<std::vector<float>> dys;
    for (size_t i = 0; i < rows.size(); i++) dys.push_back(random_values(static_cast<size_t>(tokens * rows[i]), 30 + i));
    constexpr int64_t rank = 5;
    const std::vector<float> u = random_values(static_cast<size_t>(tokens * (rank + 2)), 3), a = random_values(static_cast<size_t>(rank * columns), 4);
    std::vector<std::vector<float>> bs;
    for (size_t i = 0; i < rows.size(); i++) bs.push_back(random_values(static_cast<size_t>(rows[i] * rank), 50 + i));
    // The factor of 0.5 below is a power of two and does not change the rounding.
    const auto at = [number](const std::vector<float> & values, int64_t i) {
        const float value = values[static_cast<size_t>(i)];
        return static_cast<double>(number == Number::bf16 ? rounded(value) : value);
    };

    for (const bool add : {false, true}) {
        std::vector<std::vector<double>> forward;
        std::vector<double> backward(add ? std::vector<double>(before.begin(), before.end()) : std::vector<double>(before.size()));
        for (size_t i = 0; i < rows.size(); i++) {
            forward.emplace_back(add ? std::vector<double>(dys[i].begin(), dys[i].end()) : std::vector<double>(dys[i].size()));
            reference::linear(weights[i].values.data(), rows[i], columns, widened(x, number).data(), tokens, forward[i].data());
            reference::linear_backward(weights[i].values.data(), rows[i], columns, widened(dys[i], number).data(), tokens, backward.data());
            for (int64_t t = 0; t < tokens && i + 1 < rows.size(); t++)
                for (int64_t r = 0; r < rows[i]; r++)
                    for (int64_t p = 0; p < rank; p++) forward[i][static_cast<size_t>(t * rows[i] + r)] += 0.5 * at(u, t * (rank + 2) + p) * at(bs[i], r * rank + p);
        }
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t c = 0; c < columns; c++)
                for (int64_t p = 0; p < rank; p++) backward[static_cast<size_t>(t * columns + c)] += 0.5 * at(u, t * (rank + 2) + p) * at(a, p * columns + c);
        std::vector<std::vector<float>> first;
        for (const int threads : {1, 2, 4, 16}) {
            Pool pool(threads);
            Profile profile;
            Panels panels(profile);
            panels.number = number;
            std::vector<std::vector<float>> seen = dys; // the outputs, which are added to or overwritten
            std::vector<Product> products, gradients;
            // All but the last product have a LoRA's part, as with an adapter that leaves out a target.
            for (size_t i = 0; i < rows.size(); i++) {
                products.push_back({&weights[i].matrix, seen[i].data()});
                if (i + 1 < rows.size()) products.back().low = {rank, u.data(), rank + 2, bs[i].data(), 0.5f};
                gradients.push_back({&weights[i].matrix, dys[i].data()});
            }
            std::vector<float> dx = before;
            linear(pool, panels, products, x.data(), tokens, add);
            linear_backward(pool, panels, gradients, {rank, u.data(), rank + 2, a.data(), 0.5f}, dx.data(), tokens, add);
            const int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0});
            const auto most = static_cast<size_t>(tokens * std::max(rounded_pairs(columns), rounded_pairs_backward(all, columns, rank)));
            CHECK(panels.rounded.capacity() <= most, "%s: %zu pairs are rounded at a time, %zu are estimated", name.c_str(), panels.rounded.capacity(), most);
            seen.push_back(dx);
            if (threads > 1) {
                CHECK(seen == first, "%s: %d threads give other bits", name.c_str(), threads);
                continue;
            }
            first = seen;
            for (size_t i = 0; i < rows.size(); i++) {
                const double error = relative_l2(seen[i].data(), forward[i].data(), seen[i].size());
                CHECK(error < 2e-6, "%s, product %zu: %g", name.c_str(), i, error);
            }
            const double error = relative_l2(dx.data(), backward.data(), dx.size());
            CHECK(error < 2e-6, "%s backward: %g", name.c_str(), error);
        }
    }
}

void test_products(Number number) {
    const ggml_type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0,   GGML_TYPE_Q5_1,  GGML_TYPE_Q8_0,
                               GGML_TYPE_Q2_K, GGML_TYPE_Q3_K, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_XS};
    for (const ggml_type type : types) {
        const int64_t block = ggml_blck_size(type);
        check_products(number, type, {65, 33, 1}, 5 * block, 7);
        check_products(number, type, {192}, block == 1 ? 300 : 9 * block, 64);
    }
    // Sizes of one, and one more or less than a vector, a strip, six rows or a part of the sum.
    for (const int64_t tokens : {1, 5, 6, 13})
        for (const int64_t rows : {1, 15, 63, 64, 66})
            for (const int64_t columns : {1, 2, 31, 257}) check_products(number, GGML_TYPE_F32, {rows, 3}, columns, tokens);
    check_products(number, GGML_TYPE_F32, {30}, product_depth + 1, 9);
    check_products(number, GGML_TYPE_F32, {product_depth + 2, 35}, 70, 9);
    check_products(number, GGML_TYPE_Q4_K, {100}, product_depth + 256, 20);
    // More rows, or more columns, than the panel holds.
    check_products(number, GGML_TYPE_Q8_0, {2048, 100}, 2048, 3);
    check_products(number, GGML_TYPE_Q4_K, {2100}, 2304, 3);
    // More than one tile in both directions.
    check_products(number, GGML_TYPE_Q4_1, {320, 130}, 512, 150);
}

/** Every value of the output must lie in exactly one tile. */
void check_covered(const Tiling & tiling, int64_t rows, int64_t columns) {
    std::vector<int> covered(static_cast<size_t>(rows * columns));
    for (int64_t i = 0; i < tiling.count(); i++) {
        const Tile t = tiling.at(i);
        for (int64_t r = t.row; r < t.row + t.rows; r++)
            for (int64_t c = t.column; c < t.column + t.columns; c++) covered[static_cast<size_t>(r * columns + c)]++;
    }
    CHECK(std::all_of(covered.begin(), covered.end(), [](int times) { return times == 1; }), "%lld × %lld", static_cast<long long>(rows), static_cast<long long>(columns));
}

void test_tilings() {
    for (const int64_t rows : {1, 6, 31, 64, 65, 200, 1000})
        for (const int64_t columns : {64, 128, 576, 1984})
            for (const int64_t k : {1, 100, 2048}) check_covered(product_tiling(rows, columns, k), rows, columns);
    for (const int64_t tokens : {64, 100, 128, 256, 512})
        for (const int64_t columns : {576, 1536, 4096})
            for (const int64_t k : {576, 1536, 2048}) {
                const int64_t tiles = product_tiling(tokens, columns, k).count();
                CHECK(tiles >= 16, "%lld × %lld × %lld: %lld tiles", static_cast<long long>(tokens), static_cast<long long>(columns), static_cast<long long>(k), static_cast<long long>(tiles));
            }
    // With few tokens, reading the weights takes the time.
    CHECK(product_tiling(1, 4096, 576).count() >= 16, "%lld", static_cast<long long>(product_tiling(1, 4096, 576).count()));
}

/**
 * Products of every pair of sides, with and without add, in one call. The scratch may hold everything, a strip of B at a time, or part of
 * one.
 */
void check_gemms(int64_t m, int64_t n, int64_t k, float alpha) {
    const std::string name = std::to_string(m) + " × " + std::to_string(n) + " × " + std::to_string(k);
    const std::vector<float> a = random_values(static_cast<size_t>(m * k), 1), b = random_values(static_cast<size_t>(n * k), 2);
    const std::vector<float> before = random_values(static_cast<size_t>(8 * m * n), 3);
    std::vector<double> expected(before.begin(), before.end());
    std::vector<float> first;
    std::vector<TiledGemm> products;
    for (const Side a_side : {Side::plain, Side::transposed})
        for (const Side b_side : {Side::plain, Side::transposed})
            for (const bool add : {false, true}) {
                const bool a_turned = a_side == Side::transposed, b_turned = b_side == Side::transposed;
                const int64_t at = static_cast<int64_t>(products.size()) * m * n;
                products.push_back({a_side, b_side, m, n, k, alpha, a.data(), a_turned ? m : k, b.data(), b_turned ? k : n, add, nullptr, n});
                for (int64_t i = 0; i < m; i++)
                    for (int64_t j = 0; j < n; j++) {
                        double sum = 0;
                        for (int64_t p = 0; p < k; p++)
                            sum += static_cast<double>(a[static_cast<size_t>(a_turned ? p * m + i : i * k + p)]) * static_cast<double>(b[static_cast<size_t>(b_turned ? j * k + p : p * n + j)]);
                        double & value = expected[static_cast<size_t>(at + i * n + j)];
                        value = (add ? value : 0) + static_cast<double>(alpha) * sum;
                    }
            }
    for (const int64_t scratch_floats : {std::max<int64_t>(64 * 128, 64 * k), int64_t{64 * 128}, 1000 * k + 64 * 128})
        for (const int threads : {1, 2, 4, 16}) {
            Pool pool(threads);
            Buffer<float> scratch(static_cast<size_t>(scratch_floats));
            std::vector<float> c = before;
            for (size_t i = 0; i < products.size(); i++) products[i].c = c.data() + static_cast<int64_t>(i) * m * n;
            gemms(pool, products, scratch.data(), scratch_floats);
            if (first.empty()) first = c;
            CHECK(relative_l2(c.data(), expected.data(), c.size()) < 1e-6 && c == first, "%s, %d threads", name.c_str(), threads);
        }
}

void test_gemms() {
    check_gemms(300, 97, 200, 0.5f);
    check_gemms(300, 96, 200, 1);
    // Sizes of one, and one more or less than six rows, a vector, a strip or a part of the sum.
    for (const int64_t m : {1, 5, 7})
        for (const int64_t n : {1, 15, 16, 31, 48, 63, 65, 130})
            for (const int64_t k : {1, 8, 127, 128, 257}) check_gemms(m, n, k, 1);
}

/** Three steps of a model whose products are cut: losses, gradients and adapter must be those of one thread. */
void test_steps(Number number) {
    ModelShape shape = plain_shape("llama", 256, 4, 64);
    shape.layers = 2;
    shape.kv_heads = 2;
    shape.feed_forward = 768;
    shape.vocabulary = 512;
    shape.context = 512;
    shape.tied = false;
    const TestBatch test = test_batch(shape.vocabulary, {100, 33, 70}, 4);
    Batch batch;
    std::vector<Ask> asks;
    for (const std::vector<int32_t> & row : test.rows) {
        const int64_t first = batch.count();
        batch.add_segment(row.data(), static_cast<int64_t>(row.size()), -1);
        for (size_t i = 0; i + 1 < row.size(); i++) asks.push_back({first + static_cast<int64_t>(i), row[i + 1], {-0.01f, 0.001f, 0}, {}});
    }
    for (int64_t t = 0; t < batch.count(); t++) batch.origins.push_back(t);
    for (const ggml_type type : {GGML_TYPE_Q4_K, GGML_TYPE_F32}) {
        std::vector<float> first;
        for (const int threads : {1, 2, 4, 16}) {
            Transformer model({shape, type}, threads, number);
            Adapter adapter = random_adapter(model.shape(), {attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down, output_head}, 16, 16, 5, 0.1);
            std::vector<float> seen;
            for (int step = 0; step < 3; step++) {
                for (const TokenLoss & loss : model.forward_backward(batch, adapter, asks)) seen.insert(seen.end(), {static_cast<float>(loss.logprob), static_cast<float>(loss.entropy)});
                seen.insert(seen.end(), adapter.gradients.data(), adapter.gradients.data() + adapter.parameters);
                model.optimise(adapter, {1e-3, 0.9, 0.95, 1e-8, 0.01, 1});
                adapter.clear_gradients();
            }
            seen.insert(seen.end(), adapter.weights.data(), adapter.weights.data() + adapter.parameters);
            CHECK(std::all_of(seen.begin(), seen.end(), [](float value) { return std::isfinite(value); }), "%s: not finite", ggml_type_name(type));
            if (threads == 1) first = seen;
            CHECK(seen.size() == first.size() && std::memcmp(seen.data(), first.data(), seen.size() * sizeof(float)) == 0, "%s: %d threads give other bits", ggml_type_name(type), threads);
        }
    }
}

} // namespace

int main(int count, char ** arguments) {
    const std::string part = count > 1 ? arguments[1] : "";
    if (part != "fp32" && part != "bf16") {
        std::printf("usage: products_test fp32 | bf16\n");
        return 2;
    }
    const Number number = part == "bf16" ? Number::bf16 : Number::f32;
    if (number == Number::bf16 && !bf16::supported()) {
        std::printf("this processor has no AVX512-BF16: products in bf16, and steps with them, were not tested\n");
        return 77;
    }
    gemm_prepare();
    test_products(number);
    test_steps(number);
    if (number == Number::f32) {
        test_tilings();
        test_gemms();
    }
    return failed_checks == 0 ? 0 : 1;
}
