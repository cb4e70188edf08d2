// What the golden frames are of: tensors made by whole numbers, so that every machine and library makes the same.
#pragma once

#include <tuck/core/dtype.hpp>

#include "tuck/codecs.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tuck::test {

struct golden_case {
  std::string name;
  tools::codec_choice codec;
  dtype type;
  frame_options options;
  std::vector<std::byte> values;
  std::vector<std::byte>
      base;  // of a delta; it is encoded by calls on the host alone, delta_test compares the device's
};

class golden_tensors {
 public:
  golden_tensors(dtype type, bool lossy) : type_(type), lossy_(lossy) {}

  // Chunks: sparse, a walk with repeats, zeros, one value; and 37 values, sparse or what no codec makes smaller.
  // One of three sparse values is not zero.
  std::vector<std::byte> small(uint32_t chunk_values, bool ends_in_noise) {
    for (uint32_t i = 0; i < chunk_values; ++i) sparse(3);
    for (uint32_t i = 0; i < chunk_values; ++i) walk(i);
    for (uint32_t i = 0; i < chunk_values; ++i) add(0);
    for (uint32_t i = 0; i < chunk_values; ++i) add(one() + 5);
    for (uint32_t i = 0; i < 37; ++i) ends_in_noise ? noise() : sparse(3);
    return std::move(bytes_);
  }
  // Chunks: zeros of both signs, for masks of kind 2 (mask/rle.hpp); negative zeros, for kind 3; few negative zeros
  // among zeros, for kind 0 if values have two bytes; and 37 values as in the first chunk.
  std::vector<std::byte> zeros(uint32_t chunk_values) {
    const auto add_some = [&](uint32_t count, const auto& zero) {
      for (uint32_t i = 0; i < count; ++i)
        if (const uint64_t r = random(); r % 3 != 0)
          add(zero(i, r >> 20) ? sign() : 0);
        else
          noise();
    };
    add_some(chunk_values, [](uint32_t, uint64_t r) { return r % 2 == 0; });
    add_some(chunk_values, [](uint32_t, uint64_t) { return true; });
    add_some(chunk_values, [](uint32_t i, uint64_t) { return i < 10; });
    add_some(37, [](uint32_t, uint64_t r) { return r % 2 == 0; });
    return std::move(bytes_);
  }
  // Chunks for each rule of a packed mask: few values that are not zero, few zeros, runs of both, and textures that
  // repeat after 2, 16 and 32 values; the first again with zeros of both signs, and with negative zeros; and 37 values
  // as in the first chunk.
  std::vector<std::byte> masks(uint32_t chunk_values) {
    const auto add_where = [&](uint32_t count, const auto& is_there, const auto& zero) {
      for (uint32_t i = 0; i < count; ++i) {
        const uint64_t r = random();
        if (is_there(i) != (r % 37 == 0))
          noise();
        else
          add(zero(r >> 20) ? sign() : 0);
      }
    };
    const auto positive = [](uint64_t) { return false; };
    const auto nowhere = [](uint32_t) { return false; };
    add_where(chunk_values, nowhere, positive);
    add_where(chunk_values, [](uint32_t) { return true; }, positive);
    add_where(chunk_values, [](uint32_t i) { return i / 40 % 2 == 1; }, positive);
    for (const uint32_t period : {2u, 16u, 32u})
      add_where(chunk_values, [=](uint32_t i) { return (0x1ac5b26du >> i % period & 1) != 0; }, positive);
    add_where(chunk_values, nowhere, [](uint64_t r) { return r % 2 == 0; });
    add_where(chunk_values, nowhere, [](uint64_t) { return true; });
    add_where(37, nowhere, positive);
    return std::move(bytes_);
  }
  // One chunk, larger than the pieces that codecs cut chunks into.
  std::vector<std::byte> large() {
    for (uint32_t i = 0; i < 2500; ++i) i / 250 % 2 == 0 ? sparse(8) : walk(i);
    return std::move(bytes_);
  }
  // A chunk of 16 KiB and a tail, in parts of 4 KiB: usual floats with an infinity, cells of 16 bytes of which most are
  // zeros, low bits that are zero, exponents of all kinds; and usual ones.
  std::vector<std::byte> parts() {
    const uint32_t part = 4096 / size_of(type_), cell = 16 / size_of(type_);
    for (uint32_t i = 0; i < part; ++i) i == 1000 ? add(infinity()) : usual(0);
    for (uint32_t i = 0; i < part; ++i) i / cell % 3 == 0 ? usual(0) : add(0);
    for (uint32_t i = 0; i < part; ++i) usual(mantissa() / 2);
    for (uint32_t i = 0; i < part; ++i) i % 2 == 0 ? usual(0) : add(random() & (2 * sign() - 1));
    for (uint32_t i = 0; i < 700; ++i) usual(0);
    return std::move(bytes_);
  }

 private:
  // Below 2, each binade half as often as the one above. The lowest `zeros` bits are 0.
  void usual(uint32_t zeros) {
    const uint64_t r = random(), below = std::min<uint64_t>(trailing_zeros(static_cast<uint32_t>(r) | 1u << 9), 6);
    const uint64_t low = r >> 12 & ((uint64_t{1} << mantissa()) - 1);
    add((r >> 39 != 0 ? sign() : 0) | ((one() - (below << mantissa())) | (low >> zeros << zeros)));
  }
  uint64_t random() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ >> 24;
  }
  uint32_t mantissa() const {
    return type_ == dtype::f16      ? 10
           : type_ == dtype::bf16   ? 7
           : type_ == dtype::f32    ? 23
           : type_ == dtype::f64    ? 52
           : type_ == dtype::f8e4m3 ? 3
           : type_ == dtype::f8e5m2 ? 2
                                    : 0;
  }
  uint64_t sign() const { return uint64_t{1} << (8 * size_of(type_) - 1); }
  // The pattern of 1.0, and that of infinity.
  uint64_t one() const { return mantissa() == 0 ? 1 : (sign() >> 1) - (uint64_t{1} << mantissa()); }
  uint64_t infinity() const { return sign() - (uint64_t{1} << mantissa()); }

  void add(uint64_t pattern) {
    for (uint32_t i = 0; i < size_of(type_); ++i) bytes_.push_back(static_cast<std::byte>(pattern >> 8 * i));
  }
  // One value of `share` is no zero: from 1 to 4, for what is lossy of either sign, or a small integer.
  void sparse(uint32_t share) {
    const uint64_t r = random(), minus = lossy_ && r >> 39 != 0 ? sign() : 0;
    add(r % share != 0    ? 0
        : mantissa() == 0 ? r / share % 50
                          : minus + one() + r * 0x10001 % (uint64_t{2} << mantissa()));
  }
  // Each value four times or so; floats have an infinity, a NaN, a -0 and a denormal in between.
  void walk(uint32_t i) {
    if (random() % 4 == 0) walk_ += random() % (mantissa() < 6 ? 5 : (uint64_t{1} << mantissa()) / 64);
    const uint64_t odd[] = {infinity(), infinity() + 3, sign(), 3};
    const bool is_odd = mantissa() != 0 && i % 64 == 9;
    add(is_odd ? odd[i / 64 % 4] : one() + walk_ % (one() / 2 + 20));
  }
  // For what is lossy NaNs, which no bound is wide enough for.
  void noise() {
    const uint64_t r = random();
    add(lossy_ ? (r & 1 ? sign() : 0) | infinity() | 1 | r * 0x10001 % (uint64_t{1} << mantissa()) : r | sign() >> 1);
  }

  dtype type_;
  bool lossy_;
  uint64_t state_ = 1, walk_ = 0;
  std::vector<std::byte> bytes_;
};

// Makes most values of one part of a tensor, which begins at `first`, equal to those one row above.
inline std::vector<std::byte> with_rows(std::vector<std::byte> values, size_t first, size_t size, size_t row) {
  for (size_t i = first + row; i < first + size; ++i)
    if (i / 16 % 9 != 4) values[i] = values[i - row];
  return values;
}

// Clears the lowest bits of all values.
inline std::vector<std::byte> with_low_zeros(std::vector<std::byte> values, size_t size, uint32_t zeros) {
  for (size_t i = 0; i < values.size(); ++i)
    if (const auto bit = static_cast<uint32_t>(8 * (i % size)); bit < zeros)
      values[i] &= zeros - bit < 8 ? static_cast<std::byte>(0xff << (zeros - bit)) : std::byte{};
  return values;
}

// A delta of every kind of element size: the base is the tensor with a few of its values changed, a chunk of them not.
inline golden_case golden_delta(const std::string& codec, dtype type) {
  const uint32_t chunk = 1024 / size_of(type);
  golden_case made{
      codec + '.' + tuck::name(type) + ".against-a-base", {codec, {}}, type, {.chunk_values = chunk, .checksums = true},
      golden_tensors(type, false).small(chunk, true),     {}};
  made.base = made.values;
  for (size_t i = 0, at = 5; at < made.base.size(); at += 7 + ++i * 5 % 90)
    if (at / 1024 != 2) made.base[at] ^= static_cast<std::byte>((1 << i % 7) - 1);
  return made;
}

// Frames of every codec that the program knows, which is what the library has; lossy ones under each kind of bound.
inline const std::vector<golden_case>& golden_cases() {
  static const std::vector<golden_case> cases = [] {
    std::vector<golden_case> all;
    const auto text = [](const char* s) { return const_bytes(reinterpret_cast<const std::byte*>(s), 13); };
    const std::vector<dtype> every{dtype::u8,  dtype::i8,  dtype::u16,    dtype::i16,   dtype::u32,
                                   dtype::i32, dtype::u64, dtype::i64,    dtype::f16,   dtype::bf16,
                                   dtype::f32, dtype::f64, dtype::f8e4m3, dtype::f8e5m2};
    for (const std::string& codec : tools::codec_names()) {
      const bool lossy = tools::is_lossy(codec);
      // Powers of two, so that what the bound is of a range has no rounding.
      std::vector<error_bound> bounds{{}};
      if (lossy)
        bounds = {error_bound::absolute(0x1p-7), error_bound::range_relative(0x1p-8), error_bound::pointwise(0x1p-6)};
      bool large = true;
      for (const dtype type : every)
        for (const error_bound& bound : bounds) {
          // Chains over the types that they are for.
          if (codec.find("+huffman") != std::string::npos && type < dtype::f16) continue;
          if (codec == "delta+rle+bitpack" && type >= dtype::f16) continue;
          // Most codecs see a byte, whatever it is called.
          if (type > dtype::f64 && codec != "zvc" && codec != "huffman" && codec != "codebooks" && codec != "steps")
            continue;
          const bool has_rows = codec == tools::codec_with_rows;
          const tools::codec_choice choice{codec, bound, has_rows ? 24u : 1u};
          if (tools::choose_codec(choice, type) == nullptr) continue;
          // Signed integers differ from the others in their name alone.
          const bool named = codec == "zvc" || type == dtype::u8 || type == dtype::i16 || type == dtype::u32 ||
                             type == dtype::i64 || type >= dtype::f16;
          if (!named) continue;
          const uint32_t chunk = 1024 / size_of(type);
          const std::string name =
              codec + '.' + tuck::name(type) + (lossy ? std::string(".") + tuck::name(bound.mode) : "");
          size_t number = 0;  // any, but the same whatever other cases there are
          for (const char c : name) number = 31 * number + static_cast<unsigned char>(c);
          all.push_back({name,
                         choice,
                         type,
                         {.chunk_values = chunk,
                          .alignment = number % 5 == 2 ? 16u : 32u,
                          .checksums = number % 2 == 0,
                          .metadata = number % 3 == 1 ? text("golden frames") : const_bytes{}},
                         golden_tensors(type, lossy).small(chunk, number % 4 < 2),
                         {}});
          if (has_rows) all.back().values = with_rows(std::move(all.back().values), 1024, 1024, 24 * size_of(type));
          // That of deltas has no pieces, and much of this is dense.
          if (large && size_of(type) >= 2 && codec != "steps")
            all.push_back({name + ".large", choice, type, {}, golden_tensors(type, lossy).large(), {}});
          if (has_rows && all.back().name.ends_with(".large"))
            all.back().values = with_rows(std::move(all.back().values), 0, 2000 * size_of(type), 24 * size_of(type));
          large = large && size_of(type) == 1;
        }
    }
    for (const auto& [codec, type] :
         {std::pair<const char*, dtype>{"zvc+huffman", dtype::bf16}, {"zvc+rle+huffman", dtype::f32}}) {
      const uint32_t chunk = 1024 / size_of(type);
      all.push_back({std::string(codec) + '.' + tuck::name(type) + ".negative-zeros",
                     {codec, {}},
                     type,
                     {.chunk_values = chunk, .checksums = true},
                     golden_tensors(type, false).zeros(chunk),
                     {}});
    }
    for (const auto& [codec, type] :
         {std::pair<const char*, dtype>{"rle", dtype::f32}, {"rle", dtype::bf16}, {"zvc+huffman", dtype::f32}}) {
      const uint32_t chunk = 1024 / size_of(type);
      all.push_back({std::string(codec) + '.' + tuck::name(type) + ".masks",
                     {codec, {}},
                     type,
                     {.chunk_values = chunk, .checksums = true},
                     golden_tensors(type, false).masks(chunk),
                     {}});
    }
    for (const auto& [type, zeros] : {std::pair<dtype, uint32_t>{dtype::f32, 13}, {dtype::i16, 3}}) {
      const uint32_t chunk = 1024 / size_of(type);
      all.push_back({std::string("huffman.") + tuck::name(type) + ".low-zeros",
                     {"huffman", {}},
                     type,
                     {.chunk_values = chunk, .checksums = true},
                     with_low_zeros(golden_tensors(type, false).small(chunk, false), size_of(type), zeros),
                     {}});
    }
    for (const dtype type : {dtype::bf16, dtype::f8e4m3})
      all.push_back({std::string("codebooks.") + tuck::name(type) + ".parts",
                     {"codebooks", {}},
                     type,
                     {},
                     golden_tensors(type, false).parts(),
                     {}});
    for (const auto& [codec, type] : {std::pair<const char*, dtype>{"rle", dtype::u8},
                                      {"bitpack", dtype::i16},
                                      {"zvc", dtype::bf16},
                                      {"zvc+huffman", dtype::bf16},
                                      {"steps", dtype::bf16},
                                      {"steps", dtype::f32},
                                      {"steps", dtype::f8e4m3},
                                      {"zvc", dtype::f32},
                                      {"delta+rle+bitpack", dtype::i64}})
      all.push_back(golden_delta(codec, type));
    return all;
  }();
  return cases;
}

}  // namespace tuck::test
