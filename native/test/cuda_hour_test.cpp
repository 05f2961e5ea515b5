// The checks of device_hour.h on a GPU, at a real scale. Usage:
//     cuda_hour_test large                                           runs in both precisions
//     cuda_hour_test products | memory | sizes | full   [fp32 | bf16]
//     cuda_hour_test steps <soft targets> [fp32 | bf16] [plain]   prints what must be equal in every run
#include "cuda/cuda_backend.h"
#include "device_hour.h"


int main(int count, char ** arguments) {
    if (const std::string why = why_no_gpu(); !why.empty()) {
        std::printf("no device, %s: no check of the first hour was run\n", why.c_str());
        return 77;
    }
    const std::vector<std::string> words(arguments + 1, arguments + count);
    const auto has = [&](const char * word) { return std::find(words.begin(), words.end(), word) != words.end(); };
    const std::string what = words.empty() ? "" : words[0];
    const Replays replays = has("plain") ? Replays::none : Replays::recorded;
    const GpuWay gpu{why_no_gpu, [replays](const ModelSource & source, int threads, Number precision) { return open_on_gpu(source, threads, precision, replays); }};
    // Two layers of an 8B model, with its widths, head and vocabulary.
    ModelShape shape = plain_shape("llama", 4096, 32, 128);
    shape.layers = 2;
    shape.kv_heads = 8;
    shape.feed_forward = 14336;
    shape.vocabulary = 128256;
    shape.context = 8192;
    const Hour h{gpu, has("fp32") ? Number::f32 : Number::bf16, shape, GGML_TYPE_Q4_K, 32003, 2, 4096, {1, 3, 16, 64}, 20, {5e-5, 5e-2}, {3e-4, 5e-2}};
    if (what == "large") hour_large(h, {Number::f32, Number::bf16});
    else if (what == "products") hour_products(h);
    else if (what == "memory") hour_memory(h);
    else if (what == "sizes") hour_sizes(h);
    else if (what == "full") hour_full(h);
    else if (what == "steps" && words.size() > 1) std::printf("%s\n", hour_steps(h, std::atoll(words[1].c_str())).c_str());
    else {
        std::fprintf(stderr, "large, products, memory, sizes, full, or steps with a number of soft targets\n");
        return 2;
    }
    return failed_checks == 0 ? 0 : 1;
}
