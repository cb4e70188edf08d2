#include "commands.hpp"
#include "declared_type.hpp"
#include "support/numbers.hpp"
#include "support/progress.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>
#include <new>

namespace tuck::tools {
namespace {

using real = long double;
constexpr real infinity = std::numeric_limits<real>::infinity();
constexpr uint64_t block_values = 4096;  // values per partial sum of squares, which keeps rounding errors small

// The differences between two arrays. Errors count only pairs in which both values are finite.
struct distance {
  uint64_t values = 0;
  uint64_t different_bits = 0;
  uint64_t zero_in_reference = 0;  // zero in the reference, finite and not zero in the other
  uint64_t mismatched = 0;         // pairs with a non-finite value that differ and are not both NaN
  real max_error = 0;
  real max_relative = 0;  // over values that are not zero in the reference
  real squares = 0;       // sum of the squared errors
  real least = infinity;  // least finite value of the reference
  real greatest = -infinity;

  // Errors are infinite if any pair is mismatched.
  real absolute() const { return mismatched != 0 ? infinity : max_error; }
  real relative() const { return mismatched != 0 ? infinity : max_relative; }
  real rms() const {
    if (mismatched != 0) return infinity;
    return values == 0 ? 0 : std::sqrt(squares / static_cast<real>(values));
  }
  real psnr() const {
    if (rms() == 0) return infinity;
    return 20 * std::log10(std::max<real>(greatest - least, 0) / rms());
  }
  double share_of_different() const {
    return values == 0 ? 0 : static_cast<double>(different_bits) / static_cast<double>(values);
  }
};

void add(distance& sum, const distance& part) {
  sum.values += part.values;
  sum.different_bits += part.different_bits;
  sum.zero_in_reference += part.zero_in_reference;
  sum.mismatched += part.mismatched;
  sum.max_error = std::max(sum.max_error, part.max_error);
  sum.max_relative = std::max(sum.max_relative, part.max_relative);
  sum.squares += part.squares;
  sum.least = std::min(sum.least, part.least);
  sum.greatest = std::max(sum.greatest, part.greatest);
}

template <element T> distance distance_of_block(span<const T> a, span<const T> b) {
  distance found{.values = a.size()};
  wide<T> max_error = 0, max_relative = 0, squares = 0;
  wide<T> least = std::numeric_limits<wide<T>>::infinity(), greatest = -least;
  for (uint64_t i = 0; i < a.size(); ++i) {
    const wide<T> x = widen(a[i]);
    if (std::isfinite(x)) {
      least = std::min(least, x);
      greatest = std::max(greatest, x);
    }
    if (bits_of(a[i]) == bits_of(b[i])) continue;
    ++found.different_bits;
    const wide<T> y = widen(b[i]);
    if (x == 0 && y != 0 && std::isfinite(y)) ++found.zero_in_reference;
    if (!std::isfinite(x) || !std::isfinite(y)) {
      if (!std::isnan(x) || !std::isnan(y)) ++found.mismatched;
      continue;
    }
    const wide<T> error = std::abs(x - y);
    max_error = std::max(max_error, error);
    squares += error * error;
    if (x != 0) max_relative = std::max(max_relative, error / std::abs(x));
  }
  found.max_error = max_error;
  found.max_relative = max_relative;
  found.squares = squares;
  found.least = least;
  found.greatest = greatest;
  return found;
}

template <element T> distance distance_of(const npy_file& a, const npy_file& b) {
  const uint64_t values = a.header.values;
  const auto typed = [&](const npy_file& file, uint64_t first) {
    return span<const T>(reinterpret_cast<const T*>(file.data().data()), values)
        .subspan(first, std::min(block_values, values - first));
  };
  const uint64_t blocks = ceil_div(values, block_values);
  progress shown("comparing", blocks, a.data().size());
  std::atomic<uint64_t>& done = *shown.execution(1).chunks_done;
  distance sum;
  for (uint64_t block = 0; block < blocks; ++block) {
    add(sum, distance_of_block<T>(typed(a, block * block_values), typed(b, block * block_values)));
    done.store(block + 1, std::memory_order_relaxed);
  }
  return sum;
}

distance distance_as(dtype type, const npy_file& a, const npy_file& b) {
  switch (type) {
    case dtype::u8: return distance_of<uint8_t>(a, b);
    case dtype::i8: return distance_of<int8_t>(a, b);
    case dtype::u16: return distance_of<uint16_t>(a, b);
    case dtype::i16: return distance_of<int16_t>(a, b);
    case dtype::u32: return distance_of<uint32_t>(a, b);
    case dtype::i32: return distance_of<int32_t>(a, b);
    case dtype::u64: return distance_of<uint64_t>(a, b);
    case dtype::i64: return distance_of<int64_t>(a, b);
    case dtype::f16: return distance_of<f16>(a, b);
    case dtype::bf16: return distance_of<bf16>(a, b);
    case dtype::f32: return distance_of<float>(a, b);
    case dtype::f64: return distance_of<double>(a, b);
    case dtype::f8e4m3: return distance_of<f8e4m3>(a, b);
    case dtype::f8e5m2: return distance_of<f8e5m2>(a, b);
    case dtype::none: break;  // read_npy rejects it
  }
  return {};
}

bool is_integer(dtype type) { return type <= dtype::i64; }

// Prints 9 digits, which distinguish any two f32 values, or all digits of an integer.
std::string text_of(real value, bool integer = false) {
  char text[64];
  std::snprintf(text, sizeof text, integer ? "%.0Lf" : "%.9Lg", value);
  return text;
}

std::string values_text(uint64_t count) { return std::to_string(count) + (count == 1 ? " value" : " values"); }

void print_line(const char* what, const std::string& text) { std::printf("%-22s %s\n", what, text.c_str()); }

void print_text(const compare_options& options, dtype type, const npy_header& header, const distance& d) {
  char psnr[64], share[32];
  std::snprintf(psnr, sizeof psnr, std::isfinite(d.psnr()) ? "%.2Lf dB" : "%Lf", d.psnr());
  std::snprintf(share, sizeof share, ", %.3g %%", 100 * d.share_of_different());
  std::string relative = text_of(d.relative());
  if (d.zero_in_reference != 0)
    relative += ", without " + values_text(d.zero_in_reference) + " where only the reference is 0";
  print_line("reference", printable(options.in));
  print_line("compared", printable(options.other));
  print_line("tensor", std::string(name(type)) + " " + shape_text(header.shape));
  print_line("values", std::to_string(d.values));
  print_line("max absolute error", text_of(d.absolute(), is_integer(type)));
  print_line("max relative error", relative);
  print_line("RMS error", text_of(d.rms()));
  print_line("PSNR", psnr);
  print_line("different bits", values_text(d.different_bits) + share);
  print_line("mismatched non-finite", values_text(d.mismatched));
}

// JSON has no infinity, and libraries read its numbers as doubles. Other values become strings.
nlohmann::ordered_json json_of(real value) {
  if (std::abs(value) <= std::numeric_limits<double>::max()) return static_cast<double>(value);
  return text_of(value);
}

nlohmann::ordered_json max_error_json(dtype type, const distance& d) {
  if (is_integer(type)) return static_cast<uint64_t>(d.max_error);
  return json_of(d.absolute());
}

void print_json(dtype type, const npy_header& header, const distance& d) {
  const nlohmann::ordered_json about = {{"dtype", name(type)},
                                        {"shape", header.shape},
                                        {"values", d.values},
                                        {"max_absolute_error", max_error_json(type, d)},
                                        {"max_relative_error", json_of(d.relative())},
                                        {"zero_in_reference_only", d.zero_in_reference},
                                        {"rms_error", json_of(d.rms())},
                                        {"psnr_db", json_of(d.psnr())},
                                        {"different_bits", d.different_bits},
                                        {"different_bits_share", d.share_of_different()},
                                        {"mismatched_non_finite", d.mismatched}};
  std::cout << about.dump(2) << '\n';
}

npy_file read_one(const std::string& path) {
  try {
    return read_npy(path);
  } catch (const std::bad_alloc&) {
    throw file_error(path, "not enough memory");
  }
}

}  // namespace

void compare(const compare_options& options) {
  const npy_file a = read_one(options.in);
  const npy_file b = read_one(options.other);
  const dtype type = declared_type(a.header, options.as, options.in);
  const dtype other = declared_type(b.header, options.as, options.other);
  if (type != other)
    throw file_error(options.other,
                     std::string("its values are ") + name(other) + ", the reference's are " + name(type));
  if (a.header.shape != b.header.shape)
    throw file_error(options.other, "its shape is " + shape_text(b.header.shape) + ", the reference's is " +
                                        shape_text(a.header.shape));
  const distance d = distance_as(type, a, b);
  if (options.json)
    print_json(type, a.header, d);
  else
    print_text(options, type, a.header, d);
}

}  // namespace tuck::tools
