// The exact operations, alone and where a compiler would like to contract them, for exact_ops.sh.
#include <tuck/core/device.cuh>

template <class T> __device__ void every_operation(const T* in, T* out) {
  using namespace tuck::device;
  const T a = in[0], b = in[1], c = in[2];
  out[0] = add_rn(a, b);
  out[1] = sub_rn(a, c);
  out[2] = mul_rn(b, c);
  out[3] = fma_rn(a, b, c);
  out[4] = add_rn(mul_rn(a, b), c);
  out[5] = sub_rn(mul_rn(a, c), b);
  out[6] = sub_rn(c, mul_rn(b, b));
}

__global__ void exact_f32(const float* in, float* out) { every_operation(in, out); }
__global__ void exact_f64(const double* in, double* out) { every_operation(in, out); }
