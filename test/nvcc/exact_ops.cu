// The exact operations, alone and where a compiler would like to contract them, for exact_ops.sh.
#include <tuck/core/exact.hpp>

template <class T> __device__ void every_operation(const T* in, T* out) {
  using namespace tuck::exact;
  const T a = in[0], b = in[1], c = in[2];
  out[0] = add(a, b);
  out[1] = sub(a, c);
  out[2] = mul(b, c);
  out[3] = add(mul(a, b), c);
  out[4] = sub(mul(a, c), b);
  out[5] = sub(c, mul(b, b));
}

__global__ void exact_f32(const float* in, float* out) { every_operation(in, out); }
__global__ void exact_f64(const double* in, double* out) { every_operation(in, out); }
