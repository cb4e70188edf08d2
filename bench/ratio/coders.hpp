// The rows of the tables that stand in files of their own.
#pragma once

#include "table.hpp"

#include <tuck/core/span.hpp>

namespace tuck::bench {

// What a coder made of a tensor. bytes is 0 where the program was built without it.
struct coded {
  double bytes = 0;
  double max_error = 0;  // absolute, measured on what came back
};

// zfp in its mode of fixed accuracy, with the greatest tolerance that keeps the measured error within `bound`.
coded zfp_fixed_accuracy(const tensor& t, double bound);
extern const char* const zfp_row_name;

// The library's quantize codec: bytes of the whole frame at a bound of range_bound x (greatest - least value), and the
// absolute error measured on the values that it decodes to.
double tuck_quantize_bytes(span<const float> values, double range_bound, double& max_error);
// The same of its chain quantize+delta+zvc+huffman.
double tuck_quantize_chain_bytes(span<const float> values, double range_bound, double& max_error);

// The library's codecs rle and rle-zero: bytes of the whole frame, payloads aligned to 32 bytes. T is uint8_t, uint16_t
// or uint32_t.
template <class T> double rle_bytes(span<const T> values);
template <class T> double rle_zero_bytes(span<const T> values);

}  // namespace tuck::bench
