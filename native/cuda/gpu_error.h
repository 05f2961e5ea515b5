// What an error of the CUDA runtime means for the request that met it. The numbers are those of driver_types.h, so that the tests' emulated
// device can fail as a real one does. cuda_device.cuh checks some of them against their names.
#pragma once

enum class GpuTrouble {
    memory,      // the device has too little; a smaller request may succeed
    unavailable, // this process cannot use the device at all
    lost,        // "sticky": the process's context is broken, and every further call returns the same error
    other
};

constexpr GpuTrouble trouble_of(int error) {
    switch (error) {
        case 2: return GpuTrouble::memory; // for contexts, graphs and local memory of kernels as well as for cudaMalloc
        case 3:   // initialisation failed
        case 34:  // a stub instead of the driver
        case 35:  // driver older than the runtime
        case 36:  // call requires a newer driver
        case 46:  // all devices are busy or unavailable, as in exclusive mode
        case 100: // no device
        case 101: // invalid device
        case 102: // not licensed
        case 103: // integrity check of the software failed
        case 127: // start-up failed
        case 200: // invalid kernel image
        case 201: // no valid context
        case 209: // no kernel image for this device
        case 216: // device in use by another thread
        case 218: // invalid PTX
        case 221: // no JIT compiler
        case 222: // PTX newer than the driver
        case 223: // JIT compilation disabled
        case 302: // symbol of a shared object not found
        case 303: // shared object could not be started
        case 304: // call of the operating system failed
        case 802: // system not ready
        case 803: // driver and libraries do not match
        case 804: // no forward compatibility on this device
        case 805: // multi-process service: connection failed
        case 806: // multi-process service: call failed
        case 807: // multi-process service: not ready
        case 808: // multi-process service: too many clients
        case 809: // multi-process service: too many connections
            return GpuTrouble::unavailable;
        case 4:   // the runtime is being unloaded
        case 214: // uncorrectable memory error
        case 220: // uncorrectable link error
        case 226: // contained error
        case 700: // illegal address
        case 702: // launch timeout
        case 709: // context destroyed
        case 710: // assert
        case 714: // hardware stack error
        case 715: // illegal instruction
        case 716: // misaligned address
        case 717: // invalid address space
        case 718: // invalid program counter
        case 719: // launch failure
        case 721: // tensor memory error
        case 810: // the multi-process service ended this client
        case 999: // unknown
            return GpuTrouble::lost;
        default: return GpuTrouble::other;
    }
}
