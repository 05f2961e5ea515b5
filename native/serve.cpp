#include "serve.h"

#include <cstdio>
#include <new>

#include "base/failure.h"
#include "requests.h"

namespace {

/** Answers one request. Returns false at the end of the input. */
bool serve_one(Wire & wire, Trainer & trainer) {
    std::optional<Frame> frame;
    try {
        frame = wire.read();
        if (!frame) return false;
        const Answer answer = answer_request(trainer, *frame);
        wire.answer(frame->id, answer.fields, answer.payload);
    } catch (const Failure & failure) {
        std::fprintf(stderr, "%s: %s\n", failure.code.c_str(), failure.what());
        wire.refuse(wire.last_id(), failure.code, failure.what(), failure.hint, failure.fatal);
        if (failure.fatal) throw;
    } catch (const std::bad_alloc &) {
        std::fprintf(stderr, "out_of_memory: the machine has no more memory\n");
        // When memory runs out before the payload is read, the end of the frame cannot be found.
        wire.refuse(wire.last_id(), "out_of_memory", "the machine has no more memory", "Send fewer or shorter rows at once, or use a smaller adapter.", !frame);
        if (!frame) throw Failure("out_of_memory", "the machine has no more memory", "Send fewer or shorter rows at once, or use a smaller adapter.", true);
    } catch (const std::exception & error) {
        std::fprintf(stderr, "internal: %s\n", error.what());
        wire.refuse(wire.last_id(), "internal", error.what(), report_bug, false);
    }
    return true;
}

} // namespace

void serve(Wire & wire, Trainer & trainer) {
    while (serve_one(wire, trainer)) {
    }
}
