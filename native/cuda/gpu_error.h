// What an error of the CUDA runtime means for whoever waits for an answer. Numbers are those of driver_types.h, so that the tests'
// emulated device can fail as a real one does; cuda_device.cuh holds some of them against the names.
#pragma once

enum class GpuTrouble {
    memory,      // the device has too little: less may do
    unavailable, // no use of this device from here, whatever is asked of it
    lost,        // "sticky": the process's context is broken, and every further call answers with the same error
    other
};

constexpr GpuTrouble trouble_of(int error) {
    switch (error) {
        case 2: return GpuTrouble::memory; // of contexts, graphs and kernels' local memory as of cudaMalloc
        case 3:   // initialisation
        case 34:  // a stub instead of the driver
        case 35:  // driver older than the runtime
        case 36:  // call requires a newer driver
        case 46:  // all devices are busy or unavailable, as in exclusive mode
        case 100: // no device
        case 101: // invalid device
        case 102: // not licensed
        case 103: // integrity checks of the software
        case 127: // start-up
        case 200: // invalid kernel image
        case 201: // no valid context
        case 209: // no kernel image for this device
        case 216: // device in use by another thread
        case 218: // invalid PTX
        case 221: // no JIT compiler
        case 222: // PTX newer than the driver
        case 223: // JIT compilation disabled
        case 302: // symbol of a shared object
        case 303: // shared object
        case 304: // the operating system
        case 802: // system not ready
        case 803: // driver and libraries do not fit each other
        case 804: // no forward compatibility on this device
        case 805: // the multi-process service: connection,
        case 806: // call,
        case 807: // not ready,
        case 808: // clients
        case 809: // and connections
            return GpuTrouble::unavailable;
        case 4:   // the runtime is being unloaded
        case 214: // uncorrectable memory
        case 220: // uncorrectable link
        case 226: // contained error
        case 700: // illegal address
        case 702: // launch timeout
        case 709: // context destroyed
        case 710: // assert
        case 714: // hardware stack
        case 715: // illegal instruction
        case 716: // misaligned address
        case 717: // invalid address space
        case 718: // invalid program counter
        case 719: // launch failure
        case 721: // tensor memory
        case 810: // the multi-process service ended this client
        case 999: // unknown
            return GpuTrouble::lost;
        default: return GpuTrouble::other;
    }
}
