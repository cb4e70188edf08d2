#include "coders.hpp"

#include <cstdint>

namespace tuck::bench {

// Measure nothing: the rows show "-".
template <class T> double rle_bytes(span<const T>) { return 0; }
template <class T> double rle_zero_bytes(span<const T>) { return 0; }

template double rle_bytes(span<const uint8_t>);
template double rle_bytes(span<const uint16_t>);
template double rle_bytes(span<const uint32_t>);
template double rle_zero_bytes(span<const uint8_t>);
template double rle_zero_bytes(span<const uint16_t>);
template double rle_zero_bytes(span<const uint32_t>);

}  // namespace tuck::bench
