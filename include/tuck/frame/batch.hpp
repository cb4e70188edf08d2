// What a batch is made of: many tensors to encode or to decode in one call, each with a frame of its own.
#pragma once

#include <tuck/frame/format.hpp>

namespace tuck::inline TUCK_ABI {

// A tensor, and the room for its frame.
template <element T> struct encode_item {
  span<const T> values;
  bytes frame;
};

// A frame, which may be shorter than the bytes here, and the room for its values.
template <element T> struct decode_item {
  const_bytes frame;
  span<T> values;
};

// The same with the base of a delta, which has as many values. Of a decode_delta_item it may be those restored.
template <element T> struct encode_delta_item : encode_item<T> {
  span<const T> base;
};
template <element T> struct decode_delta_item : decode_item<T> {
  span<const T> base;
};

// What must be known of a batch before its items are: how many there are, and how many values they have together. Both
// are upper bounds; 0 items, or empty ones, are no less a batch.
struct batch_sizes {
  uint64_t items = 0;
  uint64_t values = 0;
};

}  // namespace tuck::inline TUCK_ABI
