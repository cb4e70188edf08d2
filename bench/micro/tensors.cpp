#include "bench/micro/tensors.hpp"

#include "bench/support/fields.hpp"
#include "bench/support/random.hpp"

#include <tuck/core/floating.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <type_traits>

namespace tuck::bench {
namespace {

// Values made one by one; the rest of a tensor repeats them, so far apart that no codec sees it.
constexpr uint64_t distinct = uint64_t{1} << 22;
constexpr double mean_run = 32;

template <class T> inline constexpr bool floating = floating_element<T>;

// Calls visitor.template operator()<T>() with the type of the elements.
template <class Visitor> auto with_type(dtype type, const Visitor& visitor) {
  switch (type) {
    case dtype::u8: return visitor.template operator()<uint8_t>();
    case dtype::i8: return visitor.template operator()<int8_t>();
    case dtype::u16: return visitor.template operator()<uint16_t>();
    case dtype::i16: return visitor.template operator()<int16_t>();
    case dtype::u32: return visitor.template operator()<uint32_t>();
    case dtype::i32: return visitor.template operator()<int32_t>();
    case dtype::u64: return visitor.template operator()<uint64_t>();
    case dtype::i64: return visitor.template operator()<int64_t>();
    case dtype::f16: return visitor.template operator()<f16>();
    case dtype::bf16: return visitor.template operator()<bf16>();
    case dtype::f32: return visitor.template operator()<float>();
    case dtype::f8e4m3: return visitor.template operator()<f8e4m3>();
    case dtype::f8e5m2: return visitor.template operator()<f8e5m2>();
    case dtype::f64: break;
    case dtype::none: break;
  }
  return visitor.template operator()<double>();
}

template <class T> T of_number(double x) {
  if constexpr (floating<T>)
    return __builtin_bit_cast(T, float_format<T>::narrow(static_cast<typename float_format<T>::real>(x)));
  else
    return static_cast<T>(x);
}
template <class T> double to_number(T value) { return static_cast<double>(float_format<T>::widen(bits_of(value))); }

// |N(0, 1)|, or of integers from 1 on: never a zero, as far as the type can say it.
template <class T> T non_zero(generator& random) {
  const double u = 1 - uniform(random);  // in (0, 1]
  if constexpr (floating<T>) {
    const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi * uniform(random);
    const double x = std::fabs(radius * std::cos(angle));
    constexpr double least = sizeof(T) == 1 ? 0x1p-6 : 1e-6;
    return of_number<T>(x < least ? least : x);
  } else {
    return of_number<T>(1 + std::min(-20 * std::log(u), 125.));
  }
}

template <class T> std::vector<T> sparse(uint64_t count, double sparsity, bool clustered) {
  generator random(1);
  std::vector<T> values(count);
  // Two states, left so that the share comes out and a run of zeros has mean_run of them: more where between the runs
  // there is but one other value.
  const double odds = sparsity < 1 ? sparsity / (1 - sparsity) : 0;
  const double leave = 1 / std::max(mean_run, odds), enter = leave * odds;
  bool zero = uniform(random) < sparsity;
  for (T& value : values) {
    if (!clustered || sparsity >= 1)
      zero = uniform(random) < sparsity;
    else
      zero = zero ? uniform(random) >= leave : uniform(random) < enter;
    value = zero ? T{} : non_zero<T>(random);
  }
  return values;
}

// What the kernels' instructions were first counted on, to the bit.
template <class T> std::vector<T> sums(uint64_t count, double sparsity, bool in_runs) {
  generator random(7);
  const auto sum = [&] {
    float x = 0;
    for (int i = 0; i < 4; ++i) x += static_cast<float>(below(random, 10001)) / 10000.f - .5f;
    if constexpr (std::is_same_v<T, bf16>)
      return __builtin_bit_cast(bf16, static_cast<uint16_t>(__builtin_bit_cast(uint32_t, x) >> 16));
    else if constexpr (floating<T>)
      return of_number<T>(static_cast<double>(x));
    else
      return static_cast<T>(static_cast<int64_t>(x * 40));
  };
  std::vector<T> values(count);
  bool zero = false;
  uint64_t left = 0;
  T last{};
  for (T& value : values) {
    if (left == 0) {
      zero = static_cast<double>(below(random, 1000000)) / 1e6 < sparsity;
      left = in_runs ? 1 + below(random, 16) : 1;
      last = sum();
    }
    --left;
    if (!zero && (!in_runs || below(random, 4) != 0)) last = sum();
    value = zero ? T{} : last;
  }
  return values;
}

void repeat(const_bytes block, std::vector<std::byte>& to) {
  for (size_t at = 0; at < to.size(); at += block.size())
    std::memcpy(to.data() + at, block.data(), std::min<size_t>(block.size(), to.size() - at));
}

template <class T> void append_converted(const float* values, uint64_t count, std::vector<T>& to) {
  for (uint64_t i = 0; i < count; ++i) to.push_back(of_number<T>(static_cast<double>(values[i])));
}

// Appends at most `most` values. Unsigned integers as wide as T are its bits, because .npy has no bf16 and no fp8.
template <class T> void append(const tools::npy_file& file, uint64_t most, std::vector<T>& to) {
  const dtype type = file.header.type;
  const std::byte* const values = file.data().data();
  const uint64_t before = to.size(), count = std::min(file.header.values, most);
  if (!makes(pattern::recorded, dtype_of<T>, type))
    throw std::runtime_error(std::string("a recording of ") + name(type) + " cannot be used as " + name(dtype_of<T>));
  if (type == dtype::f32 && dtype_of<T> != dtype::f32)
    append_converted(reinterpret_cast<const float*>(values), count, to);
  else {
    to.resize(before + count);
    if (count != 0) std::memcpy(to.data() + before, values, count * sizeof(T));
  }
}

template <class T> std::vector<T> begin_of(const std::vector<tools::npy_file>& files, uint64_t count) {
  std::vector<T> values;
  for (const tools::npy_file& file : files) append(file, count - values.size(), values);
  return values;
}

// At least one of them has values.
std::vector<tools::npy_file> read_recordings(const std::string& recordings) {
  std::vector<tools::npy_file> files;
  const bool is_file = std::filesystem::path(recordings).extension() == ".npy";
  for (const auto& path : is_file ? std::vector<std::filesystem::path>{recordings} : tools::npy_files(recordings))
    files.push_back(tools::read_npy(path.string()));
  if (std::all_of(files.begin(), files.end(), [](const tools::npy_file& f) { return f.header.values == 0; }))
    throw tools::file_error(recordings, "has no recorded values");
  return files;
}

template <class T> void prepass(tensor& t) {
  const uint64_t count = t.values.size() / sizeof(T);
  uint64_t zeros = 0;
  double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
  for (uint64_t i = 0; i < count; ++i) {
    const T value = load_unaligned<T>(t.values.data() + i * sizeof(T));
    zeros += bits_of(value) == 0;
    if constexpr (floating<T>) {
      if (!std::isfinite(to_number(value))) continue;
      lowest = std::min(lowest, to_number(value));
      highest = std::max(highest, to_number(value));
    }
  }
  if (count == 0) return;
  t.sparsity = static_cast<double>(zeros) / static_cast<double>(count);
  if constexpr (floating<T>) t.range = highest > lowest ? highest - lowest : 0;
}

}  // namespace

std::optional<pattern> pattern_of(std::string_view text) noexcept {
  for (const pattern p :
       {pattern::iid, pattern::clustered, pattern::recorded, pattern::smooth, pattern::sums, pattern::runs})
    if (text == name(p)) return p;
  return {};
}

bool makes(pattern p, dtype type, dtype recorded) noexcept {
  if (has_sparsity(p)) return true;
  return with_type(type, [=]<class T>() {
    if (p == pattern::recorded && (recorded == dtype_of<T> || recorded == dtype_of<bits_t<T>>)) return true;
    return floating<T> && (p == pattern::smooth || recorded == dtype::f32);
  });
}

dtype recorded_type(const std::string& recordings) {
  for (const tools::npy_file& file : read_recordings(recordings))
    if (file.header.values != 0) return file.header.type;
  return dtype::none;
}

const std::vector<tools::npy_file>& tensor_maker::recorded() {
  if (recorded_.empty()) recorded_ = read_recordings(recordings_);
  return recorded_;
}

tensor tensor_maker::make(const tensor_request& request) {
  tensor made{.type = request.type, .values = std::vector<std::byte>(request.raw_bytes)};
  if (made.values.empty()) return made;
  if (request.of == pattern::smooth && smooth_.empty())
    for (const field& f : smooth_fields()) smooth_.insert(smooth_.end(), f.values.begin(), f.values.end());
  with_type(request.type, [&]<class T>() {
    const uint64_t count = std::min(request.raw_bytes / sizeof(T), distinct);
    std::vector<T> block;
    switch (request.of) {
      case pattern::iid: block = sparse<T>(count, request.sparsity, false); break;
      case pattern::clustered: block = sparse<T>(count, request.sparsity, true); break;
      case pattern::recorded: block = begin_of<T>(recorded(), count); break;
      case pattern::smooth: append_converted(smooth_.data(), std::min<uint64_t>(smooth_.size(), count), block); break;
      case pattern::sums: block = sums<T>(count, request.sparsity, false); break;
      case pattern::runs: block = sums<T>(count, request.sparsity, true); break;
    }
    repeat(as_bytes(span<const T>(block)), made.values);
    prepass<T>(made);
  });
  return made;
}

double max_error(dtype type, const_bytes a, const_bytes b) noexcept {
  return with_type(type, [&]<class T>() {
    if (std::memcmp(a.data(), b.data(), a.size()) == 0) return 0.;
    double most = std::numeric_limits<double>::infinity();
    if constexpr (floating<T>) {
      most = 0;
      for (uint64_t i = 0; i < a.size() / sizeof(T); ++i) {
        const T x = load_unaligned<T>(a.data() + i * sizeof(T)), y = load_unaligned<T>(b.data() + i * sizeof(T));
        const double difference = std::fabs(to_number(x) - to_number(y));
        if (bits_of(x) == bits_of(y)) continue;
        most = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(most, difference);
      }
    }
    return most;
  });
}

}  // namespace tuck::bench
