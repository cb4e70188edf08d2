#include "commands.hpp"
#include "declared_type.hpp"
#include "frame_file.hpp"
#include "support/numbers.hpp"
#include "support/progress.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

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

template <element T> distance distance_of(const_bytes a, const_bytes b) {
  const uint64_t values = a.size() / sizeof(T);
  const auto typed = [&](const_bytes all, uint64_t first) {
    return span<const T>(reinterpret_cast<const T*>(all.data()), values)
        .subspan(first, std::min(block_values, values - first));
  };
  const uint64_t blocks = ceil_div(values, block_values);
  progress shown("comparing", blocks, a.size());
  std::atomic<uint64_t>& done = *shown.execution(1).chunks_done;
  distance sum;
  for (uint64_t block = 0; block < blocks; ++block) {
    add(sum, distance_of_block<T>(typed(a, block * block_values), typed(b, block * block_values)));
    done.store(block + 1, std::memory_order_relaxed);
  }
  return sum;
}

// Both have the same size, and are aligned for the type.
distance distance_as(dtype type, const_bytes a, const_bytes b) {
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
    case dtype::none: break;  // readers reject it
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

std::string relative_text(const distance& d) {
  if (d.zero_in_reference == 0) return text_of(d.relative());
  return text_of(d.relative()) + ", without " + values_text(d.zero_in_reference) + " where only the reference is 0";
}

std::string psnr_text(const distance& d) {
  char psnr[64];
  std::snprintf(psnr, sizeof psnr, std::isfinite(d.psnr()) ? "%.2Lf dB" : "%Lf", d.psnr());
  return psnr;
}

void print_files(const std::string& reference, const std::string& other) {
  print_line("reference", printable(reference));
  print_line("compared", printable(other));
}

void print_text(dtype type, const npy_header& header, const distance& d) {
  char share[32];
  std::snprintf(share, sizeof share, ", %.3g %%", 100 * d.share_of_different());
  print_line("tensor", std::string(name(type)) + " " + shape_text(header.shape));
  print_line("values", std::to_string(d.values));
  print_line("max absolute error", text_of(d.absolute(), is_integer(type)));
  print_line("max relative error", relative_text(d));
  print_line("RMS error", text_of(d.rms()));
  print_line("PSNR", psnr_text(d));
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

nlohmann::ordered_json json_of(dtype type, const std::string& type_name, const std::vector<uint64_t>& shape,
                               const distance& d) {
  return {{"dtype", type_name},
          {"shape", shape},
          {"values", d.values},
          {"max_absolute_error", max_error_json(type, d)},
          {"max_relative_error", json_of(d.relative())},
          {"zero_in_reference_only", d.zero_in_reference},
          {"rms_error", json_of(d.rms())},
          {"psnr_db", json_of(d.psnr())},
          {"different_bits", d.different_bits},
          {"different_bits_share", d.share_of_different()},
          {"mismatched_non_finite", d.mismatched}};
}

input read_one(const std::string& path) {
  if (is_folder(path)) throw file_error(path, "this is a folder; compare takes two arrays, or two safetensors files");
  input in;
  try {
    in = read_input(path);
  } catch (const std::bad_alloc&) {
    throw file_error(shown_input(path), "not enough memory");
  }
  const std::string_view all(reinterpret_cast<const char*>(in.content.all().data()), in.content.size());
  if (all.starts_with("TUCK")) throw file_error(in.path, "this is a frame; decode it first");
  return in;
}

bool compare_npy(const compare_options& options, input reference, input other) {
  const npy_file a = parse_npy(std::move(reference.content), reference.path);
  const npy_file b = parse_npy(std::move(other.content), other.path);
  const dtype type = declared_type(a.header, options.as, reference.path);
  const dtype type_of_other = declared_type(b.header, options.as, other.path);
  if (type != type_of_other)
    throw file_error(other.path,
                     std::string("its values are ") + name(type_of_other) + ", the reference's are " + name(type));
  if (a.header.shape != b.header.shape)
    throw file_error(other.path, "its shape is " + shape_text(b.header.shape) + ", the reference's is " +
                                     shape_text(a.header.shape));
  if (a.header.fortran_order != b.header.fortran_order)
    throw file_error(other.path, "one of the arrays is in Fortran order; save both in one order");
  const distance d = distance_as(type, a.data(), b.data());
  if (options.json) {
    std::cout << json_of(type, name(type), a.header.shape, d).dump(2) << '\n';
  } else {
    print_files(reference.path, other.path);
    print_text(type, a.header, d);
  }
  return d.different_bits == 0;
}

// A tensor of both files, and how far its values are apart.
struct compared_tensor {
  const named_tensor& tensor;
  distance apart;
};

void print_table(const std::vector<compared_tensor>& tensors) {
  std::printf("\n%-24s %14s %14s %16s %16s %16s  %s\n", "tensor", "values", "different", "max error", "RMS error",
              "PSNR", "name");
  for (const auto& [t, d] : tensors)
    std::printf("%-24s %14" PRIu64 " %14" PRIu64 " %16s %16s %16s  %s\n",
                printable(t.dtype + " " + shape_text(t.shape)).c_str(), d.values, d.different_bits,
                text_of(d.absolute(), is_integer(t.type())).c_str(), text_of(d.rms()).c_str(), psnr_text(d).c_str(),
                printable(t.name).c_str());
}

bool compare_safetensors(const compare_options& options, input reference, input other) {
  if (options.as != dtype::none) throw usage_error("--as is for .npy files; safetensors files store their types");
  const safetensors_file a = parse_safetensors(std::move(reference.content), reference.path);
  const safetensors_file b = parse_safetensors(std::move(other.content), other.path);
  for (const auto& [file, path] : {std::pair(&a, &reference.path), std::pair(&b, &other.path)})
    if (file->header.metadata.contains(original_header))
      throw file_error(*path, "its tensors are frames; decode it first");
  const std::vector<const_bytes> in_other =
      values_in(b, other.path, a.header.tensors, reference.path, "the compared file");
  std::vector<compared_tensor> tensors;
  uint64_t different = 0;
  for (const named_tensor& t : a.header.tensors) {
    byte_buffer room, room_of_other;
    tensors.push_back({t, distance_as(t.type(), aligned(a.values(t), t.type(), room),
                                      aligned(in_other[tensors.size()], t.type(), room_of_other))});
    different += tensors.back().apart.different_bits != 0;
  }
  if (options.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& [t, d] : tensors) {
      list.push_back({{"name", t.name}});
      list.back().update(json_of(t.type(), t.dtype, t.shape, d));
    }
    std::cout << nlohmann::ordered_json{{"different_tensors", different}, {"tensors", std::move(list)}}.dump(2) << '\n';
  } else {
    print_files(reference.path, other.path);
    print_line("different tensors", std::to_string(different) + " of " + std::to_string(tensors.size()));
    print_table(tensors);
  }
  return different == 0;
}

}  // namespace

bool compare(const compare_options& options) {
  input a = read_one(options.in), b = read_one(options.other);
  if (a.is_safetensors != b.is_safetensors)
    throw file_error(b.path, std::string("this is ") + (b.is_safetensors ? "a" : "no") +
                                 " safetensors file, the reference is " + (a.is_safetensors ? "one" : "none"));
  const auto compare_two = a.is_safetensors ? compare_safetensors : compare_npy;
  return compare_two(options, std::move(a), std::move(b));
}

}  // namespace tuck::tools
