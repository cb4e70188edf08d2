// How large a codec of the library makes a tensor: the whole frame, header and directory included.
#pragma once

#include <tuck/host.hpp>

#include <stdexcept>

namespace tuck::bench {

template <codec C> double frame_bytes(const C& codec, span<const value_t<C>> values) {
  const outcome counted = host::encoded_bytes(codec, values, {.alignment = 32});
  if (!counted) throw std::runtime_error(message(counted.code));
  return static_cast<double>(counted.bytes);
}

}  // namespace tuck::bench
