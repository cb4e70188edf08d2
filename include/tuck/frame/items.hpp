// SPDX-License-Identifier: Apache-2.0
// The items of batches, of calls on the CPU and on a stream.
#pragma once

#include <tuck/core/dtype.hpp>
#include <tuck/core/span.hpp>

namespace tuck::inline TUCK_ABI {

/// A tensor to encode.
template <element T> struct encode_item {
  span<const T> values;  ///< the tensor
  bytes frame;           ///< buffer for its frame; max_frame_bytes is always enough, max_delta_bytes for a delta
};

/// A frame to decode.
template <element T> struct decode_item {
  const_bytes frame;  ///< the frame, which may be followed by other bytes
  span<T> values;     ///< output: receives the first values.size() values of the frame
};

/// A tensor to encode relative to a base.
template <element T> struct encode_delta_item : encode_item<T> {
  span<const T> base;  ///< as many values as the tensor has
};
/// A delta to apply to its base.
template <element T> struct decode_delta_item : decode_item<T> {
  span<const T> base;  ///< as many values as the tensor has; may be the same memory as `values`
};

/// Upper bounds for the sizes of a batch. The host needs only these, because kernels read the items when they run. A
/// batch may have no items, and items may be empty.
struct batch_sizes {
  uint64_t items = 0;   ///< maximum number of items
  uint64_t values = 0;  ///< maximum number of values of all items together
};

}  // namespace tuck::inline TUCK_ABI
