// The CUDA runtime's calls on one device and one stream, as gpu_device.h uses them. The runtime is linked in and finds the driver itself.
// Without a driver it reports that, and nothing else of it is called.
#pragma once
#include <cuda_runtime.h>

#include "cuda/cublas_lt.h"
#include "cuda/gpu_device.h"
#include "cuda/plan.h"
#include "kernels/cuda/elementwise.h"

/** Block as kernels/cuda/block.h describes it. */
struct CudaBlock {
    __device__ int thread() const { return static_cast<int>(threadIdx.x); }
    __device__ int threads() const { return static_cast<int>(blockDim.x); }
    __device__ int64_t x() const { return blockIdx.x; }
    __device__ int64_t y() const { return blockIdx.y; }
    __device__ int lane() const { return thread() % 32; }
    __device__ int warp() const { return thread() / 32; }
    __device__ void sync() const { __syncthreads(); }
    template <class V> __device__ V * shared(int offset) const {
        extern __shared__ __align__(16) unsigned char memory[];
        return reinterpret_cast<V *>(memory + offset);
    }

    __device__ float sum(float value) const {
        return over_block(value, [](float a, float b) { return a + b; });
    }
    __device__ float most(float value) const {
        return over_block(value, [](float a, float b) { return fmaxf(a, b); });
    }
    __device__ float shuffle_xor(float value, int mask) const { return __shfl_xor_sync(0xffffffffu, value, mask); }
    __device__ float shuffle(float value, int lane) const { return __shfl_sync(0xffffffffu, value, lane); }

    __device__ void copy_16(gpu::Bf16 * to, const gpu::Bf16 * from, bool real) const {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "l"(__cvta_generic_to_global(from)), "r"(real ? 16 : 0)
                     : "memory");
    }
    __device__ void wait_copies() const { asm volatile("cp.async.wait_all;" ::: "memory"); }

    __device__ void load_matrices(uint32_t (&to)[4], const gpu::Bf16 * row) const {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
                     : "memory");
    }
    __device__ void load_matrices_transposed(uint32_t (&to)[4], const gpu::Bf16 * row) const {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
                     : "memory");
    }
    __device__ void multiply(float (&c)[4], const uint32_t * a, const uint32_t * b) const {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    __device__ uint32_t pack(float low, float high) const {
        uint32_t pair;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low)); // the first operand becomes the upper half
        return pair;
    }

private:
    /**
     * Combines values within each warp, then over the warps in order. For a given number of threads, a multiple of 32, the order is always
     * the same.
     */
    template <class F> __device__ float over_block(float value, const F & f) const {
        __shared__ float of_warp[32];
        for (int mask = 16; mask > 0; mask /= 2) value = f(value, shuffle_xor(value, mask));
        __syncthreads(); // other threads may still read the last result
        if (lane() == 0) of_warp[warp()] = value;
        __syncthreads();
        float total = of_warp[0];
        for (int w = 1; w < threads() / 32; w++) total = f(total, of_warp[w]);
        return total;
    }
};

template <class Kernel> __global__ void run_kernel(const Kernel kernel) { kernel(CudaBlock{}); }

/** Every call returns the runtime's error, 0 = none. A comment says so when a call waits for work to finish. */
class CudaRuntime {
public:
    static constexpr int64_t workspace_bytes = device_workspace_bytes;
    static constexpr int recording_broken = cudaErrorStreamCaptureInvalidated;
    static_assert(trouble_of(cudaErrorMemoryAllocation) == GpuTrouble::memory && trouble_of(cudaErrorDevicesUnavailable) == GpuTrouble::unavailable &&
                      trouble_of(cudaErrorNoKernelImageForDevice) == GpuTrouble::unavailable && trouble_of(cudaErrorIllegalAddress) == GpuTrouble::lost &&
                      trouble_of(cudaErrorLaunchFailure) == GpuTrouble::lost && trouble_of(cudaErrorLaunchOutOfResources) == GpuTrouble::other,
                  "the numbers of gpu_error.h");
    using Recording = cudaGraph_t;
    using Graph = cudaGraphExec_t;

    /** Throws device_unavailable when cuBLASLt is missing. */
    explicit CudaRuntime(int index) : index_(index) {}
    ~CudaRuntime() {
        if (stream_) cudaStreamDestroy(stream_);
    }
    CudaRuntime(const CudaRuntime &) = delete;
    CudaRuntime & operator=(const CudaRuntime &) = delete;

    int start() {
        if (const cudaError_t error = cudaSetDevice(index_); error != cudaSuccess) return error;
        return cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    }
    std::string kernels() const {
        cudaDeviceProp device{};
        cudaFuncAttributes compiled{};
        const bool told = cudaGetDeviceProperties(&device, index_) == cudaSuccess && cudaFuncGetAttributes(&compiled, run_kernel<gpu::Cast<float, 1>>) == cudaSuccess;
        if (!told) cudaGetLastError();
        return (told ? std::string(device.name) + ", kernels of sm_" + std::to_string(compiled.binaryVersion) : std::string("a GPU that does not say")) + ", cuBLASLt " + blas_.version();
    }
    int allocate(void ** memory, int64_t bytes) { return cudaMalloc(memory, static_cast<size_t>(bytes)); }
    int release(void * memory) { return cudaFree(memory); }
    int memory(int64_t * free) {
        size_t free_now = 0, total = 0;
        const cudaError_t error = cudaMemGetInfo(&free_now, &total);
        *free = static_cast<int64_t>(free_now);
        return error;
    }
    /** Returns when the bytes are copied. */
    int write(void * to, const void * from, int64_t bytes) { return copy(to, from, bytes, cudaMemcpyHostToDevice); }
    /** Returns when the bytes are copied, after all work that was launched before. */
    int read(void * to, const void * from, int64_t bytes) { return copy(to, from, bytes, cudaMemcpyDeviceToHost); }
    int clear(void * memory, int64_t bytes) { return cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), stream_); }

    template <class Kernel> int launch(const Kernel & kernel, int64_t x, int64_t y, int threads, int64_t shared_bytes) {
        if (shared_bytes > 48 * 1024) {
            const cudaError_t error = cudaFuncSetAttribute(run_kernel<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
            if (error != cudaSuccess) return error;
        }
        run_kernel<Kernel><<<dim3(static_cast<unsigned>(x), static_cast<unsigned>(y)), static_cast<unsigned>(threads), static_cast<size_t>(shared_bytes), stream_>>>(kernel);
        return cudaGetLastError();
    }
    void gemm(const Gemm & g, void * workspace) { blas_.gemm(g, workspace, workspace_bytes, stream_); }

    int begin_recording() { return cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal); }
    int end_recording(Recording * recording) { return cudaStreamEndCapture(stream_, recording); }
    int prepare(Recording recording, Graph * graph) { return cudaGraphInstantiate(graph, recording, 0); }
    int repeat(Graph graph) { return cudaGraphLaunch(graph, stream_); }
    void forget(Recording recording) {
        if (recording) cudaGraphDestroy(recording);
    }
    void forget(Graph graph) {
        if (cudaGraphExecDestroy(graph) != cudaSuccess) cudaGetLastError();
    }

    /** Returns the last error that was not taken yet, and clears it. */
    int last_error() { return cudaGetLastError(); }
    static const char * text(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

private:
    int copy(void * to, const void * from, int64_t bytes, cudaMemcpyKind kind) {
        const cudaError_t error = cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream_);
        return error == cudaSuccess ? cudaStreamSynchronize(stream_) : error;
    }

    int index_;
    cudaStream_t stream_ = nullptr;
    CublasLt blas_;
};

using CudaDevice = GpuDevice<CudaRuntime>;
