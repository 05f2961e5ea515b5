// Reads a frame, lets the trainer answer it, writes the answer. Compiled for any x86-64, so that an old processor gets a
// sentence instead of an illegal instruction.
#include <signal.h>    // SIGPIPE
#include <sys/prctl.h> // PR_SET_PDEATHSIG

#include <cstdio>
#include <new>

#include "base/failure.h"
#include "requests.h"
#include "wire.h"

namespace {

/** True when the loop may go on. */
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
        std::fprintf(stderr, "out_of_memory: the machine gave no more\n");
        // Without its payload a frame's end is lost.
        wire.refuse(wire.last_id(), "out_of_memory", "the machine gave no more memory", "Allow less at once.", !frame);
        if (!frame) throw Failure("out_of_memory", "", "", true);
    } catch (const std::exception & error) {
        std::fprintf(stderr, "internal: %s\n", error.what());
        wire.refuse(wire.last_id(), "internal", error.what(), "Please report a bug.", false);
    }
    return true;
}

} // namespace

int main() {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) {
        std::fprintf(stderr, "plumbline-trainer needs a processor with AVX2, FMA and F16C\n");
        return 3;
    }
    // The parent holds our stdin, which is how we learn that it is gone; this covers the time within a long request.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGPIPE, SIG_IGN);
    try {
        Wire wire;
        Trainer trainer;
        while (serve_one(wire, trainer)) {
        }
        return 0;
    } catch (const Failure & failure) {
        std::fprintf(stderr, "leaving: %s\n", failure.what());
        return 2;
    }
}
