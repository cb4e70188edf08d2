// Thrust's vectors as they are: what a device_vector holds is encoded, restored into another one and reduced. All of it
// on the default stream, which is where Thrust works. The restored values are in memory from a resource of tuck's.
#include <tuck/device.cuh>

#include "thrust_memory.cuh"

#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/reduce.h>
#include <thrust/transform.h>

#include <cstdio>

namespace {

// About three of four are 0.
struct activation {
  __host__ __device__ float operator()(int i) const {
    const auto x = static_cast<unsigned>(i) * 2654435761u;
    return x >> 30 == 3 ? static_cast<float>(x >> 8 & 0xffff) / 256 : 0.0f;
  }
};

bool runs(const char* what, tuck::result r) {
  if (!r) std::fprintf(stderr, "%s: %s\n", what, message(r));
  return static_cast<bool>(r);
}

}  // namespace

int main() {
  constexpr size_t count = 100'000;
  const tuck::zvc<float> codec;
  tuck::async_resource pool;
  example::thrust_memory memory(pool, nullptr);
  thrust::device_vector<float> values(count);
  thrust::device_vector<float, example::thrust_allocator<float, tuck::async_resource>> restored(count, &memory);
  thrust::transform(thrust::counting_iterator<int>(0), thrust::counting_iterator<int>(count), values.begin(),
                    activation{});

  thrust::device_vector<std::byte> frame(tuck::max_frame_bytes(codec, count));
  thrust::device_vector<std::byte> scratch(tuck::scratch_bytes(codec, count));
  thrust::device_vector<tuck::outcome> outcomes(2);
  tuck::outcome* const outcome = thrust::raw_pointer_cast(outcomes.data());
  const cudaStream_t stream = nullptr;
  if (!runs("initialize", tuck::initialize(tuck::scratch_span(scratch), stream)) ||
      !runs("encode", tuck::encode(codec, tuck::span<const float>(values), frame, tuck::scratch_span(scratch), outcome,
                                   stream)) ||
      !runs("decode",
            tuck::decode(codec, frame, tuck::span<float>(restored), tuck::scratch_span(scratch), outcome + 1, stream)))
    return 1;

  const tuck::outcome encoded = outcomes[0], decoded = outcomes[1];  // which waits
  if (!encoded || !decoded) {
    std::fprintf(stderr, "encoded: %s, decoded: %s\n", message(encoded.code), message(decoded.code));
    return 1;
  }
  const double before = thrust::reduce(values.begin(), values.end(), 0.0);
  const double after = thrust::reduce(restored.begin(), restored.end(), 0.0);
  std::printf("%zu values in %llu bytes instead of %zu; their sum is %.3f, and %.3f restored\n", count,
              static_cast<unsigned long long>(encoded.bytes), count * sizeof(float), before, after);
  const int unlike = thrust::inner_product(values.begin(), values.end(), restored.begin(), 0, thrust::plus<int>{},
                                           thrust::not_equal_to<float>{});
  return unlike == 0 ? 0 : 1;
}
