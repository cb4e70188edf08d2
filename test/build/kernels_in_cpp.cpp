// `out` with a codec needs kernels. Without them the class can be declared and the rest called.
#include <tuck/host.hpp>
#include <tuck/swap.hpp>

struct layer {
  tuck::swap_stream swap;
  tuck::swap_handle handle;
};

tuck::result restore(layer& l, tuck::span<float> values, cudaStream_t stream) {
  return l.swap.in(l.handle, values, stream);
}
tuck::result save(layer& l, tuck::span<const float> values, cudaStream_t stream) {
  return l.swap.out(tuck::zvc<float>{}, values, stream, l.handle);
}
