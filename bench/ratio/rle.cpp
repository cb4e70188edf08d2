#include "coders.hpp"
#include "frame_bytes.hpp"

#include <cstdint>

namespace tuck::bench {

template <class T> double rle_bytes(span<const T> values) { return frame_bytes(rle<T>{}, values); }
template <class T> double rle_zero_bytes(span<const T> values) { return frame_bytes(rle_zero<T>{}, values); }

template double rle_bytes(span<const uint8_t>);
template double rle_bytes(span<const uint16_t>);
template double rle_bytes(span<const uint32_t>);
template double rle_zero_bytes(span<const uint8_t>);
template double rle_zero_bytes(span<const uint16_t>);
template double rle_zero_bytes(span<const uint32_t>);

}  // namespace tuck::bench
