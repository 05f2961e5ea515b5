// The attention kernels in bf16. They have a file of their own because they take as long to compile as all others together.
#include "cuda/attention.h"
#include "cuda/cuda_device.cuh"

template void attention_forward(CudaDevice &, const gpu::AttentionInputs<gpu::Bf16> &, const AttentionSpans &, gpu::Bf16 *, float *);
template void attention_backward(CudaDevice &, const gpu::AttentionInputs<gpu::Bf16> &, const AttentionSpans &, const gpu::Bf16 *, float *, const gpu::AttentionGradients<gpu::Bf16> &);
