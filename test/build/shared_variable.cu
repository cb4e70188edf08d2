// The simulator says that it has no such variables.
#include <tuck/core/device.cuh>

__global__ void reverse(float* values) {
  __shared__ float kept[32];
  kept[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  values[threadIdx.x] = kept[31 - threadIdx.x];
}
