// Starts the worker on standard input and output. This file is compiled for any x86-64, so that an old processor gets an error message
// instead of an illegal instruction.
#include <signal.h>    // SIGPIPE
#include <sys/prctl.h> // PR_SET_PDEATHSIG
#include <unistd.h>    // dup2, write

#include <cstdio>

#include "base/failure.h"
#include "serve.h"

namespace {

/** Reserves standard output for frames: whatever else the process prints there goes to the log. */
int take_standard_output() {
    const int out = ::dup(STDOUT_FILENO);
    if (out < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) throw Failure("io_error", "standard output is not open", "Start the worker with a pipe.", true);
    return out;
}

/** Runs before the initialisers of all other files, which are compiled for AVX2. */
__attribute__((constructor(101))) void refuse_old_processor() {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) return;
    constexpr char message[] = "plumbline-trainer needs a processor with AVX2, FMA and F16C\n";
    (void)!::write(STDERR_FILENO, message, sizeof message - 1);
    ::_exit(3);
}

} // namespace

int main() {
    // The worker notices that its parent is gone when standard input ends. Within a long request it does not read, so the system kills it
    // then.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGPIPE, SIG_IGN);
    try {
        Wire wire(STDIN_FILENO, take_standard_output());
        Trainer trainer;
        serve(wire, trainer);
        return 0;
    } catch (const Failure & failure) {
        std::fprintf(stderr, "leaving: %s\n", failure.what());
        return 2;
    }
}
