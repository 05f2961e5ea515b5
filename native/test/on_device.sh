#!/usr/bin/env bash
# For a machine with a GPU: every CUDA kernel against its twin, gates 3, 5 and 7 of every architecture, then the bench.
# Fails where there is no device: nothing counts as passed that was not run.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
cmake -S native -B build -DCMAKE_BUILD_TYPE=Release -DPLUMBLINE_CUDA=ON
cmake --build build -j "$(nproc)"
build/cuda_kernels_test
for architecture in llama qwen2 qwen3 gemma3; do build/cuda_gradient_test build/fixtures "$architecture"; done
for shape in llama-8b smollm2-135m; do
  bin/plumbline bench train --shape "$shape" --quant q4_k --rank 16 --batch 16 --steps 20 --json
done
