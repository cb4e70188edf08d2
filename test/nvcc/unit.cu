// One of several translation units of a program, each compiled with other flags and -DUNIT=its function's name.
#include <tuck/device.cuh>
#include <tuck/host.hpp>

// Without scratch, which is refused before anything asks for a GPU.
tuck::status UNIT() {
  using codec = tuck::zvc<float>;
  const auto encoded = tuck::encoded_bytes(codec{}, tuck::span<const float>{}, {}, nullptr, nullptr);
  const auto decoded = tuck::decode(codec{}, {}, tuck::span<float>{}, {}, nullptr, nullptr);
  return encoded.code == decoded.code ? decoded.code : tuck::status::ok;
}
