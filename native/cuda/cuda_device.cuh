// One GPU: memory, copies, kernels and products on one stream. The CUDA runtime is linked in and finds the driver by itself;
// without one it says so, and nothing else of it is called.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/failure.h"
#include "cuda/cublas_lt.h"
#include "cuda/plan.h"
#include "kernels/cuda/block.h"

/** The Block of kernels/cuda/block.h. */
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
    /** Within each warp, then over the warps in order: one order of sums for one number of threads, a multiple of 32. */
    template <class F> __device__ float over_block(float value, const F & f) const {
        __shared__ float of_warp[32];
        for (int mask = 16; mask > 0; mask /= 2) value = f(value, shuffle_xor(value, mask));
        __syncthreads(); // the last result may still be read
        if (lane() == 0) of_warp[warp()] = value;
        __syncthreads();
        float total = of_warp[0];
        for (int w = 1; w < threads() / 32; w++) total = f(total, of_warp[w]);
        return total;
    }
};

template <class Kernel> __global__ void run_kernel(const Kernel kernel) { kernel(CudaBlock{}); }

class CudaDevice {
public:
    /** Throws device_unavailable. */
    explicit CudaDevice(int index) : index_(index) {
        check(cudaSetDevice(index), "choosing the device");
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
        free_at_first_ = free_bytes();
        workspace_ = allocate(device_workspace_bytes);
    }
    ~CudaDevice() {
        forget_replays();
        cudaFree(workspace_);
        cudaStreamDestroy(stream_);
    }
    CudaDevice(const CudaDevice &) = delete;
    CudaDevice & operator=(const CudaDevice &) = delete;

    void * allocate(int64_t bytes) {
        void * memory = nullptr;
        const cudaError_t error = cudaMalloc(&memory, static_cast<size_t>(bytes));
        if (error == cudaErrorMemoryAllocation) {
            cudaGetLastError(); // it is answered, and must not be found by the next check
            throw Failure("out_of_memory", std::to_string(bytes >> 20) + " MiB are needed on the device, which has " + std::to_string(free_bytes() >> 20) + " MiB free",
                          "Free the device, use shorter rows or a smaller adapter, or open with device cpu.");
        }
        check(error, "allocating memory");
        peak_bytes_ = std::max(peak_bytes_, free_at_first_ - free_bytes());
        return memory;
    }
    int64_t free_bytes() const {
        size_t free = 0, total = 0;
        check(cudaMemGetInfo(&free, &total), "asking for its memory");
        return static_cast<int64_t>(free);
    }
    /** The most that was in use after any allocation: what others take on the device meanwhile counts too. */
    int64_t peak_bytes() const { return peak_bytes_; }
    void release(void * memory) { cudaFree(memory); }
    void write(void * to, const void * from, int64_t bytes) {
        check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream_), "copying to the device");
        check(cudaStreamSynchronize(stream_), "copying to the device");
    }
    void read(void * to, const void * from, int64_t bytes) {
        check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream_), "copying from the device");
        check(cudaStreamSynchronize(stream_), "running kernels");
    }
    void clear(void * memory, int64_t bytes) { check(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), stream_), "clearing memory"); }

    template <class Kernel> void launch(const Kernel & kernel, int64_t x, int64_t y, int threads, int64_t shared_bytes = 0) {
        if (x == 0 || y == 0) return;
        if (x > INT32_MAX || y > 65535) throw Failure("internal", "a grid of " + std::to_string(x) + " × " + std::to_string(y) + " blocks", report_bug);
        if (shared_bytes > 48 * 1024)
            check(cudaFuncSetAttribute(run_kernel<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)), "asking for shared memory");
        run_kernel<Kernel><<<dim3(static_cast<unsigned>(x), static_cast<unsigned>(y)), static_cast<unsigned>(threads), static_cast<size_t>(shared_bytes), stream_>>>(kernel);
        check(cudaGetLastError(), "launching a kernel");
    }

    void gemm(const Gemm & g) { blas_.gemm(g, workspace_, device_workspace_bytes, stream_); }

    /**
     * f's work, which depends on its key alone. The second time it is recorded into a graph, and from then on one launch
     * repeats it: small models spend more time launching kernels than running them.
     */
    template <class F> void replay(uint64_t key, const F & f) {
        if (recorded_.size() > most_recorded) forget_replays();
        Recorded & recorded = recorded_[key];
        if (recorded.graph) return check(cudaGraphLaunch(recorded.graph, stream_), "launching a graph");
        if (recorded.runs++ == 0) return f();
        check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording a graph");
        cudaGraph_t graph = nullptr;
        try {
            f();
        } catch (...) {
            cudaStreamEndCapture(stream_, &graph);
            if (graph) cudaGraphDestroy(graph);
            throw;
        }
        check(cudaStreamEndCapture(stream_, &graph), "recording a graph");
        const cudaError_t error = cudaGraphInstantiate(&recorded.graph, graph, 0);
        cudaGraphDestroy(graph);
        check(error, "preparing a graph");
        check(cudaGraphLaunch(recorded.graph, stream_), "launching a graph");
    }
    /** To be called when memory that recorded work names is given back. */
    void forget_replays() {
        for (auto & [key, recorded] : recorded_)
            if (recorded.graph) cudaGraphExecDestroy(recorded.graph);
        recorded_.clear();
    }

private:
    struct Recorded {
        int runs = 0;
        cudaGraphExec_t graph = nullptr;
    };
    static constexpr size_t most_recorded = 64; // graphs take memory of the device

    static void check(cudaError_t error, const char * what) {
        if (error != cudaSuccess) throw Failure("internal", std::string("CUDA, ") + what + ": " + cudaGetErrorString(error), "Look into the driver's log; open with device cpu.");
    }

    int index_;
    cudaStream_t stream_ = nullptr;
    void * workspace_ = nullptr;
    int64_t free_at_first_ = 0, peak_bytes_ = 0;
    CublasLt blas_;
    std::map<uint64_t, Recorded> recorded_;
};
