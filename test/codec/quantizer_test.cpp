// Values one by one: what a quantizer says that it holds is within the bound, and it holds what it can. 16-bit types
// with every pattern, the others by strata; TUCK_LONG=1 tries every binary32 pattern.
#include "support/bounds.hpp"
#include "support/effort.hpp"
#include "support/tensors.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace tuck::test {
namespace {

template <floating_element T> double value_of(bits_t<T> x) {
  if constexpr (sizeof(T) == 2) {
    static const std::vector<double> table = [] {
      std::vector<double> values(65536);
      for (uint32_t i = 0; i < 65536; ++i) values[i] = exact_value<T>(static_cast<uint16_t>(i));
      return values;
    }();
    return table[x];
  } else {
    return exact_value<T>(x);
  }
}

template <floating_element T> using word_of = bits_t<typename float_format<T>::real>;

template <floating_element T, class Quantizer> coded<bits_t<T>> code_of(const Quantizer& quantizer, bits_t<T> x) {
  const auto c = quantizer.code(word_of<T>{x});
  return {static_cast<bits_t<T>>(c.code), static_cast<bits_t<T>>(c.restored), static_cast<bits_t<T>>(c.holds)};
}
template <floating_element T, class Quantizer> bits_t<T> value_of_code(const Quantizer& quantizer, uint64_t code) {
  return static_cast<bits_t<T>>(quantizer.value(static_cast<word_of<T>>(code)));
}

// What both quantizers owe a value.
template <floating_element T> bool is_sound(bits_t<T> x, const coded<bits_t<T>>& c, bound_mode mode, double bound) {
  using format = float_format<T>;
  if (!c.holds) return c.code == 0 && c.restored == x;
  if (!format::is_finite(x) || !format::is_finite(c.restored)) return false;
  if (format::magnitude(x) == 0) return c.restored == 0;
  return is_within(value_of<T>(x), value_of<T>(c.restored), mode, bound);
}

template <floating_element T> step_quantizer<T> steps_of(double bound, uint32_t exponent = 0) {
  return step_quantizer<T>::make(detail::tolerance_of<typename float_format<T>::real>(bits_of(bound)), exponent);
}

// Does a code come back from a chain, and decode to what encoding has compared with the value?
template <floating_element T, class Quantizer> bool decodes(const Quantizer& quantizer, const coded<bits_t<T>>& c) {
  const auto number = integer_groups<sizeof(T)>::number_of(c.code);
  return value_of_code<T>(quantizer, static_cast<uint64_t>(number)) == c.restored &&
         value_of_code<T>(quantizer, quantizer.from_chain(word_of<T>{c.code})) == c.restored;
}

template <floating_element T> bool is_sound(const step_quantizer<T>& steps, bits_t<T> x, double bound, bool& holds) {
  const auto c = code_of<T>(steps, x);
  holds = c.holds;
  const auto code = static_cast<std::make_signed_t<bits_t<T>>>(c.code);
  if (c.holds && ((code < 0 ? ~code : code) >> (step_quantizer<T>::code_bits - 1) != 0 || !decodes<T>(steps, c)))
    return false;
  return is_sound<T>(x, c, bound_mode::absolute, bound);
}

template <floating_element T>
bool is_sound(const mantissa_quantizer<T>& mantissas, bits_t<T> x, double bound, bool& holds) {
  using format = float_format<T>;
  const auto own = static_cast<uint32_t>(format::magnitude(x) >> format::mantissa_bits);
  const auto c = code_of<T>(mantissas, x);
  holds = c.holds;
  // The chunk's least exponent moves codes towards 0 and changes nothing else.
  for (const uint32_t exponent : {0u, own / 2, own}) {
    const auto from = mantissas.from(exponent);
    const auto other = code_of<T>(from, x);
    if (other.holds != c.holds || other.restored != c.restored || (c.holds && !decodes<T>(from, other))) return false;
    const auto code = static_cast<std::make_signed_t<bits_t<T>>>(other.code);
    if ((other.code == 0) != (!c.holds || format::magnitude(x) == 0) || (code < 0 && (x & format::sign) == 0))
      return false;
  }
  return is_sound<T>(x, c, bound_mode::pointwise, bound);
}

// Numbers that only decoders meet: 32 of the most bits that they take, and all that chains hand on.
template <class T> class quantizer_of_any_number : public ::testing::Test {};
using all_floats = ::testing::Types<f16, bf16, float, double>;
TYPED_TEST_SUITE(quantizer_of_any_number, all_floats, element_names);

TYPED_TEST(quantizer_of_any_number, steps_give_no_nan) {
  using quantizer = step_quantizer<TypeParam>;
  const auto is_nan = [](bits_t<TypeParam> x) {
    return float_format<TypeParam>::magnitude(x) > float_format<TypeParam>::infinity;
  };
  std::mt19937_64 random(5);
  uint64_t wrong = 0;
  for (const double bound : {0x1p-125, 1., 0x1p120}) {
    const auto steps = steps_of<TypeParam>(bound);
    const auto most = static_cast<int64_t>(16) << quantizer::max_width;
    for (const int64_t number : {-most, -most / 32, int64_t{-1}, int64_t{0}, most / 32, most})
      wrong += is_nan(value_of_code<TypeParam>(steps, static_cast<uint64_t>(number)));
    for (int i = 0; i < 100'000; ++i)
      wrong += is_nan(value_of_code<TypeParam>(
          steps, quantizer::from_chain(typename quantizer::word{static_cast<bits_t<TypeParam>>(random())})));
  }
  EXPECT_EQ(wrong, 0u);
}

// Host loops compute with lanes; everything else here computes with words.
TYPED_TEST(quantizer_of_any_number, lanes_give_what_words_give) {
  using word = word_of<TypeParam>;
  using lanes = exact::lanes<word>;
  std::mt19937_64 random(11);
  uint64_t wrong = 0;
  const auto compare = [&](const auto& quantizer) {
    for (int i = 0; i < 20'000; ++i) {
      lanes x;
      for (size_t k = 0; k < sizeof x / sizeof(word); ++k) {
        // Of all magnitudes, or around 1, where bounds are.
        const auto any = static_cast<bits_t<TypeParam>>(random());
        const auto near = bits_of(static_cast<float>(static_cast<int64_t>(random())) * 0x1p-60f);
        if constexpr (sizeof(TypeParam) == 2)
          x[k] = i % 2 == 0 ? any : float_format<TypeParam>::narrow(__builtin_bit_cast(float, near));
        else
          x[k] = i % 2 == 0 ? any : bits_of(static_cast<TypeParam>(__builtin_bit_cast(float, near)));
      }
      const auto all = quantizer.code(x);
      const lanes value = quantizer.value(quantizer.from_chain(x));
      for (size_t k = 0; k < sizeof x / sizeof(word); ++k) {
        const auto one = quantizer.code(word{x[k]});
        wrong += one.code != all.code[k] || one.restored != all.restored[k] || one.holds != all.holds[k] ||
                 quantizer.value(quantizer.from_chain(word{x[k]})) != value[k];
      }
    }
  };
  for (const double bound : {0x1p-20, .001, .3}) {
    compare(steps_of<TypeParam>(bound, (1u << float_format<TypeParam>::exponent_bits) / 2));
    compare(mantissa_quantizer<TypeParam>::make(bits_of(bound)).from(1));
  }
  EXPECT_EQ(wrong, 0u);
}

// Must the mantissa quantizer hold x? Normal numbers that do not round up to infinity.
template <floating_element T> bool is_easy(const mantissa_quantizer<T>& mantissas, bits_t<T> x) {
  using format = float_format<T>;
  const bits_t<T> m = format::magnitude(x);
  const bits_t<T> half = static_cast<bits_t<T>>(bits_t<T>{1} << mantissas.dropped >> 1);
  return m >= format::smallest_normal && m < format::infinity - half;
}

// Bounds of all sizes that make a difference to the type: round ones, powers of two and their neighbours, any.
template <floating_element T> std::vector<double> bounds_for() {
  using format = float_format<T>;
  const double smallest = std::ldexp(1, 1 - format::bias - static_cast<int>(format::mantissa_bits));
  const double largest = std::ldexp(1, format::bias);
  std::vector<double> bounds{1e-3,     .01,     .1,           1. / 3,       .5,
                             1,        1.5,     7.3,          100,          12345.6,
                             smallest, largest, smallest / 2, smallest / 3, 1000 * smallest};
  std::mt19937_64 random(4);
  for (const double power : {0x1p-12, 0x1p-7, 0x1p3, 0x1p11})
    for (const double factor : {1 - 0x1p-24, 1 - 0x1p-53, 1., 1 + 0x1p-52, 1 + 0x1p-11, 1 + 0x1p-8, 2 - 0x1p-9})
      bounds.push_back(power * factor);
  for (int i = 0; i < 20; ++i) {
    const double share = static_cast<double>(random() >> 11) * 0x1p-53;
    bounds.push_back(smallest * std::exp(share * std::log(largest / smallest)));
  }
  return bounds;
}

template <class T> class quantizer_16 : public ::testing::Test {};
using types_of_16_bits = ::testing::Types<f16, bf16>;
TYPED_TEST_SUITE(quantizer_16, types_of_16_bits, element_names);

// Every pattern that a chunk with any largest exponent may have, under every bound. Their steps are made such that all
// values hold up to the largest code. The exception are those that round up out of the chunk's largest binade, where
// the grid is coarser or there are no more numbers.
TYPED_TEST(quantizer_16, steps_hold_every_pattern_up_to_the_largest_code) {
  using format = float_format<TypeParam>;
  constexpr uint32_t exponents = (1u << format::exponent_bits) - 1;
  uint64_t asked = 0, wrong = 0, missed = 0, missed_at_the_top = 0, lost = 0;
  for (const double bound : bounds_for<TypeParam>()) {
    if (detail::tolerance_of<float>(bits_of(bound)) == 0) continue;
    for (uint32_t exponent = 0; exponent < exponents; exponent += brief ? 7 : 1) {
      const auto steps = steps_of<TypeParam>(bound, exponent);
      const double most = ((1 << (step_quantizer<TypeParam>::code_bits - 1)) - 1) * static_cast<double>(steps.step);
      const double top = std::ldexp(1, static_cast<int>(exponent) + 1 - format::bias) - .51 * steps.step;
      for (uint32_t m = 0; m < (exponent + 1) << format::mantissa_bits; ++m) {
        const auto x = static_cast<uint16_t>(m % 2 == 0 ? m : m | format::sign);
        const double magnitude = std::fabs(value_of<TypeParam>(x));
        bool holds;
        wrong += !is_sound<TypeParam>(steps, x, bound, holds);
        if (magnitude > most) continue;
        ++asked;
        (magnitude < top ? missed : missed_at_the_top) += !holds;
        lost += holds && code_of<TypeParam>(steps, x).restored != x;
      }
    }
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(missed, 0u) << "of " << asked;
  EXPECT_LT(missed_at_the_top, asked / 10'000);
  EXPECT_GT(asked, 1'000'000u);
  EXPECT_GT(lost, asked / 4);  // the values were quantized, not just kept
}

TYPED_TEST(quantizer_16, signs_and_specials_hold_under_every_bound) {
  using format = float_format<TypeParam>;
  uint64_t wrong = 0;
  for (const double bound : bounds_for<TypeParam>()) {
    if (detail::tolerance_of<float>(bits_of(bound)) == 0) continue;
    const auto steps = steps_of<TypeParam>(bound, (1u << format::exponent_bits) - 2);
    for (uint32_t i = 0; i < 65536; ++i) {
      const auto x = static_cast<uint16_t>(i), y = static_cast<uint16_t>(i ^ format::sign);
      bool holds, other_holds;
      wrong += !is_sound<TypeParam>(steps, x, bound, holds);
      static_cast<void>(is_sound<TypeParam>(steps, y, bound, other_holds));
      // There is one negative code more.
      const bool is_least =
          std::max(code_of<TypeParam>(steps, x).code, code_of<TypeParam>(steps, y).code) == format::sign;
      wrong += holds != other_holds && !is_least;
      wrong += holds && !format::is_finite(x);
    }
  }
  EXPECT_EQ(wrong, 0u);
}

TYPED_TEST(quantizer_16, mantissas_hold_every_normal_pattern) {
  uint64_t wrong = 0, missed = 0, lost = 0;
  for (const double bound : {1e-300, 1e-5, 0x1p-11, 0x1p-10, .001, 0x1p-8, .003, .01, .1,  .125,
                             .2,     .25,  .3,      .5,      .7,   1.,     1.5,  2.,  1e3, 1e300})
    for (uint32_t i = 0; i < 65536; ++i) {
      const auto x = static_cast<uint16_t>(i);
      const auto mantissas = mantissa_quantizer<TypeParam>::make(bits_of(bound));
      bool holds;
      wrong += !is_sound<TypeParam>(mantissas, x, bound, holds);
      missed += !holds && is_easy<TypeParam>(mantissas, x);
      lost += holds && code_of<TypeParam>(mantissas, x).restored != x;
    }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(missed, 0u);
  EXPECT_GT(lost, 10u * 30'000);
}

// Patterns of every exponent, with mantissas of few and of all bits; then, where there are steps, their multiples and
// the middles between them, a few ulps up and down.
template <floating_element T, class Visit> void by_strata(uint64_t count, double step, const Visit& visit) {
  using format = float_format<T>;
  using bits = bits_t<T>;
  std::mt19937_64 random(6);
  for (bits exponent = 0; exponent < bits{1} << format::exponent_bits; ++exponent)
    for (const bits mantissa : {bits{0}, bits{1}, bits{2}, static_cast<bits>(format::smallest_normal / 2),
                                static_cast<bits>(format::smallest_normal - 1)})
      for (const bits sign : {bits{0}, format::sign})
        visit(static_cast<bits>(sign | exponent << format::mantissa_bits | mantissa));
  for (uint64_t i = 0; i < count / 2; ++i) visit(static_cast<bits>(random()));
  for (uint64_t i = count / 2; i < count; ++i) {
    if (step == 0) {
      const auto exponent = static_cast<bits>(random()) & format::infinity;
      visit(static_cast<bits>(exponent | (static_cast<bits>(random()) & (format::smallest_normal - 1)) >>
                                             random() % format::mantissa_bits));
      continue;
    }
    const uint64_t r = random();
    const uint64_t halves = (r >> 32) >> (r % 32);
    const auto near = static_cast<T>(static_cast<long double>(halves) * (static_cast<long double>(step) / 2));
    visit(static_cast<bits>(((r & 64) != 0 ? format::sign : bits{0}) | (bits_of(near) + (r >> 8) % 9 - 4)));
  }
}

template <class T> class quantizer : public ::testing::Test {
 protected:
  static constexpr uint64_t samples = slow ? 2'000'000 : 10'000'000;  // over all bounds
};
using wide_types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(quantizer, wide_types, element_names);

TYPED_TEST(quantizer, steps_hold_their_bound) {
  const auto bounds = bounds_for<TypeParam>();
  uint64_t wrong = 0, held = 0, usable = 0;
  for (const double bound : bounds) {
    const auto steps = steps_of<TypeParam>(bound);
    if (steps.tolerance == 0) continue;
    ++usable;
    by_strata<TypeParam>(TestFixture::samples / bounds.size(), steps.step, [&](bits_t<TypeParam> x) {
      bool holds;
      wrong += !is_sound<TypeParam>(steps, x, bound, holds);
      held += holds;
    });
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(usable, bounds.size() / 2);
  EXPECT_GT(held, TestFixture::samples / 3);
}

// Where values are at most a thousand bounds large, hardly any is an exception.
TYPED_TEST(quantizer, steps_give_few_exceptions) {
  std::mt19937_64 random(7);
  for (const double bound : {1e-6, 1e-3, 0x1p-7, 1. / 3, 1., 777., 1e20}) {
    const auto steps = steps_of<TypeParam>(bound);
    uint64_t missed = 0;
    constexpr uint64_t tries = TestFixture::samples / 50;
    for (uint64_t i = 0; i < tries; ++i) {
      const double share = static_cast<double>(static_cast<int64_t>(random())) * 0x1p-63;
      missed += !code_of<TypeParam>(steps, bits_of(static_cast<TypeParam>(share * 1000 * bound))).holds;
    }
    EXPECT_LT(missed, tries / 1000) << bound;
  }
}

TYPED_TEST(quantizer, mantissas_hold_their_bound_and_every_normal_value) {
  const double bounds[] = {1e-300, 1e-20, 1e-15, 1e-9, 0x1p-24, 1e-6, 1e-4, 0x1p-10, .001, .01,
                           .1,     .25,   .3,    .5,   .7,      1.,   2.,   1e3,     1e300};
  uint64_t wrong = 0, missed = 0, lost = 0;
  for (const double bound : bounds) {
    const auto mantissas = mantissa_quantizer<TypeParam>::make(bits_of(bound));
    by_strata<TypeParam>(TestFixture::samples / std::size(bounds), 0, [&](bits_t<TypeParam> x) {
      bool holds;
      wrong += !is_sound<TypeParam>(mantissas, x, bound, holds);
      missed += !holds && is_easy<TypeParam>(mantissas, x);
      lost += holds && code_of<TypeParam>(mantissas, x).restored != x;
    });
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(missed, 0u);
  EXPECT_GT(lost, TestFixture::samples / 3);
}

// Half the last bit that is kept must be within the bound, and one bit less must not do.
TYPED_TEST(quantizer, mantissas_drop_as_many_bits_as_the_bound_allows) {
  constexpr int all = float_format<TypeParam>::mantissa_bits;
  for (int kept = 0; kept <= all; ++kept) {
    const double half_unit = std::ldexp(1, -kept - 1);
    EXPECT_EQ(mantissa_quantizer<TypeParam>::make(bits_of(half_unit)).dropped, static_cast<uint32_t>(all - kept));
    EXPECT_EQ(mantissa_quantizer<TypeParam>::make(bits_of(1.999 * half_unit)).dropped,
              static_cast<uint32_t>(all - kept));
  }
  EXPECT_EQ(mantissa_quantizer<TypeParam>::make(bits_of(1e-300)).dropped, 0u);
  EXPECT_EQ(mantissa_quantizer<TypeParam>::make(bits_of(1e300)).dropped, static_cast<uint32_t>(all));
}

// Of all 2^32 patterns, on request; else of every thirteenth, which meets all exponents and all low bits. On as many
// threads as there are processors.
template <class IsRight> uint64_t count_wrong(const IsRight& is_right) {
  const uint64_t step = long_run() ? 1 : 13;
  std::atomic<uint64_t> wrong{0}, next{0};
  const auto work = [&] {
    for (uint64_t block; (block = next.fetch_add(1)) < 4096;) {
      uint64_t found = 0;
      for (uint64_t i = (block << 20) + block % step; i < (block + 1) << 20; i += step)
        found += !is_right(static_cast<uint32_t>(i));
      wrong += found;
    }
  };
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) others.emplace_back(work);
  work();
  others.clear();
  return wrong;
}

TEST(quantizer_f32, steps_hold_all_patterns) {
  if (brief && !long_run()) GTEST_SKIP() << "all patterns take long: set TUCK_LONG=1";
  for (const double bound : {0x1p-7, 1. / 3}) {
    const auto steps = steps_of<float>(bound);
    EXPECT_EQ(count_wrong([&](uint32_t x) {
                bool holds;
                return is_sound<float>(steps, x, bound, holds);
              }),
              0u);
  }
}

TEST(quantizer_f32, mantissas_hold_all_patterns) {
  if (brief && !long_run()) GTEST_SKIP() << "all patterns take long: set TUCK_LONG=1";
  const auto mantissas = mantissa_quantizer<float>::make(bits_of(.001));
  EXPECT_EQ(count_wrong([&](uint32_t x) {
              bool holds;
              return is_sound<float>(mantissas, x, .001, holds) && (holds || !is_easy<float>(mantissas, x));
            }),
            0u);
}

}  // namespace
}  // namespace tuck::test
