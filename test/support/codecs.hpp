// The codecs that the generic tests are instantiated for, and what to feed them: a new codec gets a specialisation of
// `sample` where the usual tensors do not exercise it.
#pragma once

#include "support/bounds.hpp"
#include "support/codec_list.hpp"
#include "support/effort.hpp"
#include "support/frames.hpp"

#include <tuck/host.hpp>

#include <gtest/gtest.h>

namespace tuck::test {

template <class List> struct types_of_list;
template <codec... Cs> struct types_of_list<codec_list<Cs...>> {
  using type = ::testing::Types<Cs...>;
};
template <class List> using as_types = typename types_of_list<List>::type;

using one_of_each = as_types<quick_codecs>;
// What is the same for all codecs, such as frames, is compiled with a few for sanitizers. Other tests show them each
// codec.
using some_of_them = std::conditional_t<
    threads_alone, ::testing::Types<zvc<float>, quantize<float>, zvc_huffman<f16>>,
    ::testing::Types<zvc<float>, deflate<float>, quantize<float>, zvc_huffman<f16>, delta_rle_bitpack<uint64_t>>>;
using every_codec = as_types<listed_codecs>;
using tested_codecs = std::conditional_t<long_tests, every_codec, one_of_each>;
using framed_codecs = std::conditional_t<slow && !long_tests, some_of_them, tested_codecs>;
// Fuzzers, which have sanitizers, damage frames of every codec.
using corrupted_codecs = std::conditional_t<
    long_tests,
    ::testing::Types<zvc<float>, rle<float>, deflate<float>, bitpack<uint16_t>, quantize<float>, quantize<f16>,
                     zvc_huffman<float>, delta_rle_bitpack<int64_t>, quantize_delta_huffman<f16>>,
    std::conditional_t<threads_alone, ::testing::Types<zvc<float>, quantize<f16>>,
                       ::testing::Types<zvc<float>, deflate<float>, quantize<f16>, delta_rle_bitpack<int64_t>>>>;

// The transforms, of which the tests on one thread, on blocks and in chains take all.
template <element T> using every_transform = ::testing::Types<differences<T>, rows<T>>;

template <class... Lists> struct joined_types;
template <class... Ts> struct joined_types<::testing::Types<Ts...>> {
  using type = ::testing::Types<Ts...>;
};
template <class... As, class... Bs, class... Lists>
struct joined_types<::testing::Types<As...>, ::testing::Types<Bs...>, Lists...>
    : joined_types<::testing::Types<As..., Bs...>, Lists...> {};
template <class... Lists> using joined = typename joined_types<Lists...>::type;

struct codec_names {
  template <class C> static std::string GetName(int) {
    std::string names;
    for (const stage& s : C{}.stages().at)
      if (s.id != codec_id::none) names += name(s.id) + std::string("_");
    return names + name(dtype_of<value_t<C>>);
  }
};

template <class... Cs> constexpr int size_of(::testing::Types<Cs...>) { return static_cast<int>(sizeof...(Cs)); }

// A codec with parameters that encode, and tensors that reach all of its format: half of their chunks or more become
// smaller. `sparsity`: the share of zeros.
template <codec C> struct usual_sample {
  static constexpr bool every_bit_counts = true;       // does each bit of an encoded chunk matter to its values?
  static constexpr int least_chunks = 30;              // of 108 that codec_suite encodes, as many become smaller
  static constexpr double reads = 1;                   // how often encoding on the device reads the tensor
  static constexpr double sectors_filled = 1;          // by the decoder, with one instruction of a warp
  static constexpr double frame_sectors_filled = .97;  // by the encoder

  static C codec() { return {}; }
  static std::vector<value_t<C>> tensor(uint64_t count, double sparsity, pattern how = pattern::iid,
                                        uint64_t seed = 1) {
    return sparse_tensor<value_t<C>>(count, sparsity, how, seed);
  }
  // What it makes no smaller.
  static std::vector<value_t<C>> noise(uint64_t count, uint64_t seed = 1) {
    return test::noise<value_t<C>>(count, seed);
  }
};

template <codec C> struct sample : usual_sample<C> {};

// All bytes alike, for what has codes of its own for those that are frequent.
template <element T> std::vector<T> even_noise(uint64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (T& value : values) value = __builtin_bit_cast(T, static_cast<bits_t<T>>(random()));
  return values;
}

template <element T> struct sample<deflate<T>> : usual_sample<deflate<T>> {
  static constexpr int least_chunks = sizeof(T) == 1 ? 20 : 30;
  static constexpr bool every_bit_counts = false;  // the last byte of the stream has bits to spare
  static constexpr double reads = 2;
  static constexpr double sectors_filled = .5;  // each lane writes 16 bytes of its own

  static std::vector<T> tensor(uint64_t count, double sparsity, pattern how = pattern::iid, uint64_t seed = 1) {
    return sparse_tensor<T>(count, sparsity, how, seed);
  }
  static std::vector<T> noise(uint64_t count, uint64_t seed = 1) { return even_noise<T>(count, seed); }
};

template <element T> struct sample<huffman<T>> : usual_sample<huffman<T>> {
  static constexpr bool every_bit_counts = false;      // there is padding
  static constexpr double frame_sectors_filled = .74;  // words are written one by one, parts begin at any

  static std::vector<T> tensor(uint64_t count, double sparsity, pattern how = pattern::iid, uint64_t seed = 1) {
    return sparse_tensor<T>(count, sparsity, how, seed);
  }
  static std::vector<T> noise(uint64_t count, uint64_t seed = 1) { return even_noise<T>(count, seed); }
};

// Without a base, steps from 0: denormals and a few others, to both sides.
template <floating_element T> struct sample<steps<T>> : usual_sample<steps<T>> {
  static constexpr bool every_bit_counts = false;  // not the threshold of a tensor that is no delta

  static std::vector<T> tensor(uint64_t count, double sparsity, pattern how = pattern::iid, uint64_t seed = 1) {
    auto values = sparse_tensor<T>(count, sparsity, how, seed);
    std::mt19937_64 random(seed);
    for (T& v : values) {
      if (bits_of(v) == 0 || random() % 16 == 0) continue;
      const auto magnitude = static_cast<bits_t<T>>(1 + random() % (2 << random() % 3));
      v = __builtin_bit_cast(
          T, steps_format::change_of<T>(static_cast<bits_t<T>>(random() % 2 == 0 ? magnitude : 0 - magnitude), 0));
    }
    return values;
  }
  static std::vector<T> noise(uint64_t count, uint64_t seed = 1) { return even_noise<T>(count, seed); }
};

template <element T> struct sample<bitpack<T>> : usual_sample<bitpack<T>> {
  static constexpr bool every_bit_counts = false;  // there is padding

  static bitpack<T> codec() { return bitpack<T>(predictor::automatic); }
  // Every 32 values have a width of their own, mostly a small one, from zero or from any level on, or are steps of one
  // size or the other; zeros as asked for.
  static std::vector<T> tensor(uint64_t count, double sparsity, pattern how = pattern::iid, uint64_t seed = 1) {
    auto values = sparse_tensor<T>(count, sparsity, how, seed);
    std::mt19937_64 random(seed);
    uint64_t mask = 0, level = 0, steps = 0;
    for (uint64_t i = 0; i < count; ++i) {
      if (i % 32 == 0) {
        mask = (uint64_t{1} << random() % (random() % 4 == 0 ? 64 : 4 * sizeof(T))) - 1;
        level = random() % 2 == 0 ? 0 : random() % 2 == 0 ? 0 - mask / 2 : random();
        steps = random() % 3 == 0 ? mask / 4 : 0;
      }
      level += steps + random() % 2 * (steps & 1);
      if (bits_of(values[i]) != 0)
        values[i] = __builtin_bit_cast(T, static_cast<bits_t<T>>(level + (steps != 0 ? 0 : bits_of(values[i]) & mask)));
    }
    return values;
  }
};

// Stretches that take each way through an encoder: usual values, wide exponents, outliers, zeros by cells, low bits of
// zero, any bits.
template <floating_element T> struct sample<codebooks<T>> : usual_sample<codebooks<T>> {
  static constexpr bool every_bit_counts = false;  // there is padding

  static std::vector<T> tensor(uint64_t count, double sparsity, pattern how = pattern::iid, uint64_t seed = 1) {
    enum kind { usual, wide, outliers, cells, even, any };
    using format = float_format<T>;
    using real = typename format::real;
    auto values = sparse_tensor<T>(count, sparsity, how, seed);
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    double scale = 1;
    kind now = usual;
    bits_t<T> kept = 0;
    for (uint64_t i = 0; i < count; ++i) {
      if (i % 1024 == 0) {
        now = static_cast<kind>(std::max<uint64_t>(random() % 9, 3) - 3);
        scale = std::exp2(static_cast<double>(random() % 8) - 6);
        kept = static_cast<bits_t<T>>(~bits_t<T>{} << (now == even ? random() % (format::mantissa_bits + 1) : 0));
      }
      if (bits_of(values[i]) == 0) continue;
      const double spread = now == wide ? std::exp2(-static_cast<double>(random() % 40)) : 1;
      bits_t<T> value = format::narrow(static_cast<real>(scale * spread * normal(random))) & kept;
      if (now == any || (now == outliers && random() % 300 == 0)) value = static_cast<bits_t<T>>(random());
      if (now == cells && i * sizeof(T) / 16 % 3 != 0) value = 0;
      values[i] = __builtin_bit_cast(T, value);
    }
    return values;
  }
  static std::vector<T> noise(uint64_t count, uint64_t seed = 1) { return even_noise<T>(count, seed); }
};

template <floating_element T> struct sample<quantize<T>> : usual_sample<quantize<T>> {
  static constexpr bool every_bit_counts = false;  // there is padding

  static quantize<T> codec() { return quantize<T>(error_bound::absolute(0x1p-7)); }
  static std::vector<T> tensor(uint64_t count, double sparsity, pattern how = pattern::iid, uint64_t seed = 1);
};

// Groups of 32 of a kind each: Gaussian at several scales, one-signed, ramps, constants, less than the bound, zeros;
// and a few exceptions.
template <floating_element T>
std::vector<T> sample<quantize<T>>::tensor(uint64_t count, double sparsity, pattern how, uint64_t seed) {
  using format = float_format<T>;
  using bits = bits_t<T>;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  auto values = sparse_tensor<T>(count, sparsity, how, seed);  // which says where zeros are
  for (uint64_t first = 0; first < count; first += 32) {
    const uint64_t kind = random() % 12;
    const bool with_exceptions = random() % 8 == 0;
    const double level = 20 * normal(random), slope = .2 * normal(random);
    for (uint64_t i = first; i < count && i < first + 32; ++i) {
      const double g = normal(random), at = static_cast<double>(i - first);
      const double of_kind[] = {
          .02 * g,         .5 * g,          8 * g,    100 * g, std::fabs(g), -std::fabs(g), level + slope * at, level,
          level + .01 * g, slope + .1 * at, 1e-4 * g, 0};
      bits value = format::narrow(static_cast<typename format::real>(of_kind[kind]));
      if (kind == 11 && sparsity == 0) value = format::sign;
      if (with_exceptions && random() % 4 == 0) {
        const bits some = static_cast<bits>(random());
        const bits specials[] = {static_cast<bits>(some | format::infinity),
                                 format::infinity,
                                 static_cast<bits>(format::infinity | format::sign),
                                 format::sign,
                                 static_cast<bits>(some & (format::smallest_normal - 1)),
                                 static_cast<bits>(some | (format::infinity & (format::infinity << 2)))};
        value = specials[random() % 6];
      }
      if (bits_of(values[i]) != 0) values[i] = __builtin_bit_cast(T, value);
    }
  }
  return values;
}

// Of a chain, as of its first stage; of differences, what has small ones; of rows, those that repeat most values.
template <class... Stages> struct sample<chain<Stages...>> : usual_sample<chain<Stages...>> {
  using C = chain<Stages...>;
  using T = value_t<C>;
  static constexpr bool every_bit_counts = false;  // last stages have some to spare
  // Parts are written one after the other, what a splitter keeps and the rest as two parts; they end anywhere.
  static constexpr codec_id last_id = typename C::last_stage{}.stages().at[0].id;
  static constexpr double frame_sectors_filled = last_id == codec_id::huffman ? .74 : .85;

  static constexpr uint32_t row = 97;

  static C codec() {
    if constexpr (C::lossy)
      return C(error_bound::absolute(0x1p-7));
    else if constexpr (std::is_same_v<typename C::first_stage, rows<T>>)
      return C(row);
    else
      return {};
  }
  static std::vector<T> tensor(uint64_t count, double sparsity, pattern how = pattern::iid, uint64_t seed = 1) {
    if constexpr (C::lossy) {
      return sample<quantize<T>>::tensor(count, sparsity, how, seed);
    } else if constexpr (std::is_same_v<typename C::first_stage, differences<T>>) {
      auto values = sparse_tensor<T>(count, sparsity, how, seed);
      bits_t<T> sum = 0;
      for (T& value : values) value = __builtin_bit_cast(T, sum = static_cast<bits_t<T>>(sum + bits_of(value) % 61));
      return values;
    } else {
      auto values = sparse_tensor<T>(count, sparsity, how, seed);
      if constexpr (last_id == codec_id::huffman || last_id == codec_id::bitpack) {
        // What these make smaller: floats with few exponents, small integers; and a few others.
        std::mt19937_64 random(seed);
        std::normal_distribution<double> normal;
        for (T& value : values) {
          if (bits_of(value) == 0 || random() % 16 == 0) continue;
          if constexpr (floating_element<T>)
            value = __builtin_bit_cast(
                T, float_format<T>::narrow(static_cast<typename float_format<T>::real>(normal(random))));
          else
            value = __builtin_bit_cast(T, static_cast<bits_t<T>>(1 + bits_of(value) % 15));
        }
      }
      if constexpr (std::is_same_v<typename C::first_stage, rows<T>>)
        for (uint64_t i = row; i < count; ++i)
          if (i % 7 != 0) values[i] = values[i - row];
      return values;
    }
  }
  static std::vector<T> noise(uint64_t count, uint64_t seed = 1) { return even_noise<T>(count, seed); }
};

// Is `restored` what the codec, as it encoded, may make of `values`: the same bits, or for lossy codecs near enough?
template <codec C>
::testing::AssertionResult restores(const C& codec, const std::vector<value_t<C>>& values,
                                    const std::vector<value_t<C>>& restored) {
  if (values.size() != restored.size()) return ::testing::AssertionFailure() << restored.size() << " values";
  for (size_t i = 0; i < values.size(); ++i) {
    bool right = bits_of(values[i]) == bits_of(restored[i]);
    if constexpr (is_lossy<C>) right = right || allows(codec, values[i], restored[i]);
    if (!right)
      return ::testing::AssertionFailure()
             << "value " << i << " is " << std::hex << +bits_of(values[i]) << ", restored as " << +bits_of(restored[i]);
  }
  return ::testing::AssertionSuccess();
}

// What decoding this frame of `values` must give, by whichever decoder: the values, or for lossy codecs what the host
// makes of it, which is checked here.
template <codec C>
std::vector<value_t<C>> expected_values(const std::vector<value_t<C>>& values, const frame_bytes& frame) {
  if constexpr (!is_lossy<C>) return values;
  C stored;
  EXPECT_EQ(C::from_stages(header_of(frame).stages, stored), status::ok);
  auto restored = decoded(C{}, frame);
  EXPECT_TRUE(restores(stored, values, restored));
  return restored;
}

}  // namespace tuck::test
