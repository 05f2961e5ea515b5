// Runs the checks of device_hour.h at a small scale on the emulated device, which tests the checks themselves.
#include "device_hour.h"
#include "emulated_device.h"
#include "emulated_gpu.h"


int main() {
    for (const Number precision : {Number::f32, Number::bf16}) {
        const auto mishaps = std::make_shared<Mishaps>();
        ModelShape shape = plain_shape("llama", 32, 2, 16);
        shape.layers = 1;
        shape.kv_heads = 1;
        shape.feed_forward = 32;
        shape.vocabulary = 208;
        shape.context = 64;
        const Hour h{emulated_gpu(mishaps), precision, shape, GGML_TYPE_Q8_0, 203, 2, 30, {1, 3}, 6, {}, {}};
        hour_large(h, {precision});
        hour_products(h);
        hour_memory(h);
        const std::string told = hour_steps(h, 20), again = hour_steps(h, 20);
        CHECK(told == again, "two runs differ: %s and %s", told.c_str(), again.c_str());
        CHECK(mishaps->repeats > 0, "nothing was recorded");
        mishaps->refuse_recordings = true;
        const std::string plain = hour_steps(h, 20);
        CHECK(told == plain, "recorded and launched one by one differ: %s and %s", told.c_str(), plain.c_str());
        mishaps->refuse_recordings = false;
        if (precision == Number::f32) hour_sizes(h);
        mishaps->memory_bytes = 2000;
        hour_full(h);
    }
    return failed_checks == 0 ? 0 : 1;
}
