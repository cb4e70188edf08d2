// What quantize promises of whole tensors: the bound of each value in every mode, bounds and tensors that are odd, and
// which errors it names.
#include "support/codecs.hpp"
#include "support/effort.hpp"

#include <limits>
#include <numeric>

namespace tuck::test {
namespace {

// What became of the values of some tensors, zeros left out.
struct tally {
  uint64_t values = 0, wrong = 0, changed = 0, coded = 0, chunks = 0, encoded_chunks = 0;

  // That the tensors were really quantized, so that nothing wrong means something.
  void expect_telling(double share_of_chunks, double share_of_codes, double share_changed) const {
    EXPECT_EQ(wrong, 0u) << "of " << values;
    EXPECT_GT(part(encoded_chunks, chunks), share_of_chunks);
    EXPECT_GT(part(coded, values), share_of_codes);
    EXPECT_GT(part(changed, values), share_changed);
  }
  static double part(uint64_t a, uint64_t b) { return static_cast<double>(a) / static_cast<double>(b); }
};

uint32_t exceptions_of(const_bytes encoded) { return load_unaligned<uint16_t>(encoded.data() + 2); }

template <floating_element T> uint64_t non_zeros_of(span<const T> values) {
  return static_cast<uint64_t>(
      std::count_if(values.begin(), values.end(), [](T x) { return float_format<T>::magnitude(bits_of(x)) != 0; }));
}

template <floating_element T>
void compare(const quantize<T>& codec, span<const T> values, span<const T> restored, tally& seen) {
  seen.values += non_zeros_of(values);
  for (uint64_t i = 0; i < values.size(); ++i) {
    seen.wrong += !allows(codec, values[i], restored[i]);
    seen.changed += bits_of(values[i]) != bits_of(restored[i]);
  }
}

// Through a frame; returns the codec that the frame names.
template <floating_element T>
quantize<T> try_frame(const quantize<T>& wanted, const std::vector<T>& values, tally& seen) {
  const auto frame = encoded(wanted, values, {.checksums = true});
  quantize<T> stored;
  EXPECT_EQ(quantize<T>::from_stages(header_of(frame).stages, stored), status::ok);
  EXPECT_EQ(stored.mode(), wanted.mode());
  compare<T>(stored, values, decoded(quantize<T>{}, frame), seen);
  frame_view view;
  EXPECT_EQ(frame_view::open(frame, view), status::ok);
  uint64_t first = 0;
  for (uint64_t i = 0; i < view.chunks(); ++i) {
    chunk_view chunk;
    EXPECT_EQ(view.chunk(i, chunk), status::ok);
    ++seen.chunks;
    if (chunk.kind == chunk_kind::encoded) {
      ++seen.encoded_chunks;
      seen.coded += non_zeros_of(span<const T>(values).subspan(first, chunk.values)) - exceptions_of(chunk.payload);
    }
    first += chunk.values;
  }
  return stored;
}

// Chunk by chunk with a codec that has been prepared.
template <floating_element T> void try_chunks(const quantize<T>& codec, const std::vector<T>& values, tally& seen) {
  constexpr uint64_t chunk_values = quantize<T>::chunk_bytes / sizeof(T);
  std::vector<std::byte> room(codec.max_chunk_bytes(chunk_values));
  std::vector<T> restored(chunk_values);
  for (uint64_t first = 0; first < values.size(); first += chunk_values) {
    const auto chunk = span<const T>(values).subspan(first, std::min(chunk_values, values.size() - first));
    ++seen.chunks;
    const uint32_t used = codec.encode_chunk(chunk, room);
    if (used == incompressible) {
      seen.values += non_zeros_of(chunk);
      continue;
    }
    ++seen.encoded_chunks;
    const const_bytes encoded = const_bytes(room).subspan(0, used);
    seen.coded += non_zeros_of(chunk) - exceptions_of(encoded);
    ASSERT_EQ(codec.decode_chunk(encoded, {restored.data(), chunk.size()}), status::ok);
    compare<T>(codec, chunk, {restored.data(), chunk.size()}, seen);
  }
}

// All patterns of a 16-bit type: in order of magnitude, or in none, so that chunks have values of all sizes. Zeros are
// put between such that no chunk has too many exceptions to be encoded.
template <floating_element T> std::vector<T> all_patterns(bool in_order, uint32_t a_group) {
  std::vector<uint16_t> patterns(65536);
  for (uint32_t i = 0; i < 65536; ++i) patterns[i] = static_cast<uint16_t>(i / 2 | i << 15);
  if (!in_order) std::shuffle(patterns.begin(), patterns.end(), std::mt19937_64(8));
  std::vector<T> values;
  for (uint32_t i = 0; i < 65536; ++i) {
    values.push_back(__builtin_bit_cast(T, patterns[i]));
    if ((i + 1) % a_group == 0) values.resize(ceil_div<uint64_t>(values.size(), 32) * 32);
  }
  return values;
}

template <floating_element T> const std::vector<std::vector<T>>& layouts() {
  static const std::vector<std::vector<T>> all{all_patterns<T>(true, 8), all_patterns<T>(false, 8),
                                               all_patterns<T>(true, 32)};
  return all;
}

template <class T> class quantize_16 : public ::testing::Test {};
using types_of_16_bits = ::testing::Types<f16, bf16>;
TYPED_TEST_SUITE(quantize_16, types_of_16_bits, element_names);

TYPED_TEST(quantize_16, all_patterns_under_absolute_bounds) {
  tally seen;
  for (const double bound : {1e-12, 1e-9, 3e-8, 0x1p-24, 1e-6, 1e-4, .001, 0x1p-7, .01,  .1,   1. / 3,
                             1.,    7.3,  100., 5e3,     1e4,  1e10, 1e20, 1e30,   1e38, 1e300})
    for (const auto& values : layouts<TypeParam>())
      for (const predictor prediction : {predictor::automatic, predictor::none})
        try_frame(quantize<TypeParam>(error_bound::absolute(bound), prediction), values, seen);
  seen.expect_telling(.9, .55, .5);
}

TYPED_TEST(quantize_16, all_patterns_under_pointwise_bounds) {
  tally seen;
  for (const double bound : {1e-300, 1e-4, .001, .004, .01, .03, .1, .25, .3, .5, .7, 1., 2., 1e300})
    for (const auto& values : layouts<TypeParam>())
      try_frame(quantize<TypeParam>(error_bound::pointwise(bound)), values, seen);
  seen.expect_telling(.9, .9, .5);
}

TYPED_TEST(quantize_16, all_patterns_under_bounds_relative_to_their_range) {
  tally seen;
  const double range = 2 * exact_value<TypeParam>(float_format<TypeParam>::infinity - 1);
  for (const double factor : {1e-38, 1e-20, 1e-10, 1e-8, 1e-6, 1e-4, .001, .01, .1, .5, 1., 7.})
    for (const auto& values : layouts<TypeParam>()) {
      const auto stored = try_frame(quantize<TypeParam>(error_bound::range_relative(factor)), values, seen);
      EXPECT_LE(stored.effective_bound(), factor * range);
    }
  seen.expect_telling(.85, .65, .6);
}

// The same with ranges that the patterns do not have, so that many bounds are met.
TYPED_TEST(quantize_16, all_patterns_under_bounds_relative_to_any_range) {
  std::mt19937_64 random(9);
  tally seen;
  for (int round = 0; round < (brief ? 10 : 60); ++round) {
    value_range<TypeParam> range;
    range.add(static_cast<uint16_t>(random()));
    range.add(static_cast<uint16_t>(random()));
    if (range.keys().highest == 0) continue;
    const double low = value_range<TypeParam>::lowest_of(range.keys());
    const double high = value_range<TypeParam>::highest_of(range.keys());
    const double factor = std::pow(10., -static_cast<double>(round % 6));
    quantize<TypeParam> codec(error_bound::range_relative(factor));
    ASSERT_EQ(codec.prepare({.range = range.keys()}, codec), status::ok);
    EXPECT_LE(codec.effective_bound(), factor * (high - low));
    if (codec.effective_bound() < 0x1p120) {
      EXPECT_GE(codec.effective_bound(), .9999 * factor * (high - low) - 0x1p-125);
    }
    for (const auto& values : layouts<TypeParam>()) try_chunks(codec, values, seen);
  }
  seen.expect_telling(.85, .6, .5);
}

// Tensors of all kinds of groups, with random patterns among zeros after them.
template <floating_element T> std::vector<T> varied(uint64_t seed) {
  auto values = sample<quantize<T>>::tensor(brief ? 20'000 : 100'000, seed % 3 == 0 ? 0 : .4, pattern::clustered, seed);
  const auto more = sparse_tensor<T>(values.size() / 4, .8, pattern::iid, seed);
  values.insert(values.end(), more.begin(), more.end());
  return values;
}

template <class T> class quantize_suite : public ::testing::Test {};
using all_floats = ::testing::Types<f16, bf16, float, double>;
TYPED_TEST_SUITE(quantize_suite, all_floats, element_names);

TYPED_TEST(quantize_suite, every_value_is_within_the_bound_in_every_mode) {
  const auto a = varied<TypeParam>(1), b = varied<TypeParam>(3);
  for (const auto& of : {error_bound::absolute, error_bound::pointwise}) {
    tally seen;
    for (const double bound : {1e-300, 1e-40, 1e-30, 1e-5, 1e-3, 0x1p-7, .01, .05, .1, .3, 1., 5., 1e30, 1e300})
      for (const auto* values : {&a, &b})
        for (const predictor prediction : {predictor::automatic, predictor::none})
          try_frame(quantize<TypeParam>(of(bound), prediction), *values, seen);
    seen.expect_telling(.7, .65, .5);
  }
}

// Over finite values of a range that is not that of the type, a part of which the bound may be.
TYPED_TEST(quantize_suite, every_value_is_within_its_share_of_the_range) {
  using format = float_format<TypeParam>;
  auto values = varied<TypeParam>(1);
  for (TypeParam& x : values)
    if (format::is_finite(bits_of(x)) && std::fabs(exact_value<TypeParam>(bits_of(x))) > 400) x = TypeParam{};
  const auto range = value_range<TypeParam>::highest_of(host::detail::range_of<TypeParam>(values, 1)) -
                     value_range<TypeParam>::lowest_of(host::detail::range_of<TypeParam>(values, 1));
  tally seen;
  for (const double factor : {1e-12, 1e-6, 1e-4, 1e-3, .01, .1, .9, 3.}) {
    const auto stored = try_frame(quantize<TypeParam>(error_bound::range_relative(factor)), values, seen);
    EXPECT_LE(stored.effective_bound(), factor * static_cast<double>(range));
    EXPECT_GE(stored.effective_bound(), .9999 * factor * static_cast<double>(range));
    EXPECT_EQ(stored.requested_bound(), static_cast<float>(factor));
  }
  seen.expect_telling(.7, .8, .5);
}

// Any bytes end in a status in the other modes too.
TYPED_TEST(quantize_suite, any_bytes_end_in_a_status) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 10000; ++round) {
    quantize<TypeParam> codec(round % 2 == 0 ? error_bound::pointwise(1. / static_cast<double>(1 + random() % 1000))
                                             : error_bound::absolute(static_cast<double>(1 + random() % 100) * 0x1p-9));
    const auto values = sample<decltype(codec)>::tensor(1 + random() % 200, .3, pattern::clustered, random());
    std::vector<std::byte> room(codec.max_chunk_bytes(static_cast<uint32_t>(values.size())));
    room.resize(codec.encode_chunk(values, room));
    if (round % 4 == 0) room.resize(random() % 600);
    for (uint64_t changes = 1 + random() % 8; changes-- > 0 && !room.empty();)
      room[random() % room.size()] = static_cast<std::byte>(random());
    room.shrink_to_fit();
    std::vector<TypeParam> restored(values.size());
    const status s = codec.decode_chunk(room, restored);
    ASSERT_TRUE(s == status::ok || s == status::bad_payload);
  }
}

// -- refusals

TYPED_TEST(quantize_suite, bounds_that_are_none_are_refused_and_nothing_is_written) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto values = sample<quantize<TypeParam>>::tensor(1000, .3);
  const frame_bytes untouched(20000, std::byte{0x77});
  const auto attempt = [&](const quantize<TypeParam>& codec) {
    auto frame = untouched;
    const outcome o = host::encode(codec, values, frame);
    EXPECT_EQ(o.bytes, 0u);
    EXPECT_EQ(frame, untouched);
    EXPECT_EQ(host::encoded_bytes(codec, values).code, o.code);
    EXPECT_EQ(max_frame_bytes(codec, values.size()) == 0, codec.check() != status::ok);
    return o.code;
  };
  for (const auto& of : {error_bound::absolute, error_bound::range_relative, error_bound::pointwise}) {
    for (const double bound : {0., -0., -1., -1e-310, nan, -nan, inf, -inf})
      EXPECT_EQ(attempt(quantize<TypeParam>(of(bound))), status::bad_bound) << bound;
    for (const double bound : {std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max()})
      EXPECT_EQ(quantize<TypeParam>(of(bound)).check(), status::ok);
    error_bound elsewhere = of(.1);
    elsewhere.on_device = &elsewhere.value;
    EXPECT_EQ(attempt(quantize<TypeParam>(elsewhere)), status::invalid_argument);
  }
  EXPECT_EQ(attempt(quantize<TypeParam>{}), status::bad_bound);
  EXPECT_EQ(attempt(quantize<TypeParam>({static_cast<bound_mode>(3), 1})), status::invalid_argument);
  EXPECT_EQ(attempt(quantize<TypeParam>({static_cast<bound_mode>(255), 1})), status::invalid_argument);
  EXPECT_EQ(attempt(quantize<TypeParam>(error_bound::absolute(1), static_cast<predictor>(2))),
            status::invalid_argument);
}

TYPED_TEST(quantize_suite, extreme_bounds_work) {
  const auto values = sample<quantize<TypeParam>>::tensor(5000, .3);
  tally seen;
  for (const auto& of : {error_bound::absolute, error_bound::range_relative, error_bound::pointwise})
    for (const double bound : {std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::min(), 0x1p-1000,
                               0x1p-126, 0x1p-125, 0x1p120, 0x1p127, 0x1p1000, std::numeric_limits<double>::max()})
      try_frame(quantize<TypeParam>(of(bound)), values, seen);
  EXPECT_EQ(seen.wrong, 0u);
}

// -- bounds relative to ranges that are odd

template <class T> class odd_range : public ::testing::Test {
 protected:
  static T of(double x) {
    return __builtin_bit_cast(T, float_format<T>::narrow(static_cast<typename float_format<T>::real>(x)));
  }
  static T of_bits(bits_t<T> x) { return __builtin_bit_cast(T, x); }

  // The effective bound that the frame's header records; all values are checked against it.
  static double effective(const std::vector<T>& values, double factor = .01) {
    const auto frame = encoded(quantize<T>(error_bound::range_relative(factor)), values, {.checksums = true});
    const stage s = header_of(frame).stages.at[0];
    EXPECT_EQ(s.id, codec_id::quantize);
    EXPECT_EQ(s.mode & 15, 1);
    EXPECT_EQ(__builtin_bit_cast(float, s.small_value), static_cast<float>(factor));
    quantize<T> stored;
    EXPECT_EQ(quantize<T>::from_stages(header_of(frame).stages, stored), status::ok);
    EXPECT_EQ(bits_of(stored.effective_bound()), s.large);
    const auto restored = decoded(quantize<T>{}, frame);
    EXPECT_TRUE(restores(stored, values, restored));
    EXPECT_TRUE(s.large != 0 || same_bits(values, restored));
    return __builtin_bit_cast(double, s.large);
  }
  // A little less than `exact`, never more.
  static void expect_just_below(double bound, long double exact) {
    EXPECT_LE(bound, exact);
    EXPECT_GE(bound, exact * (1 - 0x1p-17L));
  }
  static std::vector<T> ramp(double from, double step, size_t count = 5000) {
    std::vector<T> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = of(from + step * static_cast<double>(i % 100));
    return values;
  }
};
TYPED_TEST_SUITE(odd_range, all_floats, element_names);

TYPED_TEST(odd_range, an_empty_tensor_has_none) { EXPECT_EQ(this->effective({}), 0); }

TYPED_TEST(odd_range, a_constant_tensor_has_none) {
  EXPECT_EQ(this->effective(std::vector<TypeParam>(5000, this->of(3.5))), 0);
  EXPECT_EQ(this->effective(std::vector<TypeParam>(5000, this->of(0))), 0);
  EXPECT_EQ(this->effective({this->of(-7)}), 0);
}

TYPED_TEST(odd_range, zeros_of_both_signs_have_none) {
  std::vector<TypeParam> values(5000, this->of(0));
  for (size_t i = 0; i < values.size(); i += 3) values[i] = this->of(-0.);
  EXPECT_EQ(this->effective(values), 0);
}

TYPED_TEST(odd_range, a_constant_among_what_is_not_finite_has_none) {
  using format = float_format<TypeParam>;
  std::vector<TypeParam> values(5000, this->of(3.5));
  values[7] = this->of_bits(format::infinity);
  values[8] = this->of_bits(format::infinity | 1);
  EXPECT_EQ(this->effective(values), 0);
}

TYPED_TEST(odd_range, of_nothing_finite_there_is_none) {
  using bits = bits_t<TypeParam>;
  std::vector<TypeParam> values;
  for (bits i = 0; i < 5000; ++i)
    values.push_back(this->of_bits(static_cast<bits>(float_format<TypeParam>::infinity + i % 100)));
  EXPECT_EQ(this->effective(values), 0);
}

TYPED_TEST(odd_range, is_that_of_the_finite_values) {
  auto values = this->ramp(-64, 1);
  this->expect_just_below(this->effective(values), .01L * 99);
  values[77] = this->of_bits(float_format<TypeParam>::infinity);
  values[99] = this->of_bits(float_format<TypeParam>::infinity | float_format<TypeParam>::sign);
  values[1234] = this->of_bits(float_format<TypeParam>::infinity + 5);
  this->expect_just_below(this->effective(values), .01L * 99);
  values[2000] = this->of(128);
  this->expect_just_below(this->effective(values), .01L * 192);
}

// One more value than the range of the type is not there to be had: high - low is infinite in it.
TYPED_TEST(odd_range, may_be_too_large_for_the_type) {
  using format = float_format<TypeParam>;
  const auto largest = static_cast<bits_t<TypeParam>>(format::infinity - 1);
  auto values = this->ramp(-64, 1);
  values[100] = this->of_bits(largest);
  values[4000] = this->of_bits(largest | format::sign);
  const long double range = 2 * static_cast<long double>(exact_value<TypeParam>(largest));
  // A bound that is beyond all sense is cut.
  const long double limit = sizeof(TypeParam) == 8 ? 0x1p1000L : 0x1p120L;
  for (const double factor : {1e-30, 1e-9, 1e-4, .01, .25, 1., 1e3, 1e30})
    this->expect_just_below(this->effective(values, factor), std::min(limit, factor * range));
}

// In the wide types they are less than the arithmetic can tell, and all is kept.
TYPED_TEST(odd_range, may_be_of_a_few_denormals) {
  for (const uint32_t ulps : {1, 10, 12, 13, 100}) {
    std::vector<TypeParam> values(5000);
    for (uint32_t i = 0; i < values.size(); ++i)
      values[i] = this->of_bits(static_cast<bits_t<TypeParam>>(i % (ulps + 1)));
    for (const double factor : {.01, .25, .5}) {
      const double bound = this->effective(values, factor);
      if (std::is_same_v<TypeParam, f16>)
        this->expect_just_below(bound, static_cast<long double>(factor) * ulps * 0x1p-24L);
      else
        EXPECT_EQ(bound, 0);
    }
  }
}

// Ends anywhere, denormals among them, and factors above one: never more than the true product, and little less where
// that is a bound that steps can have.
TYPED_TEST(odd_range, is_never_more_than_it_says) {
  using format = float_format<TypeParam>;
  std::mt19937_64 random(8);
  int told = 0;
  for (int round = 0; round < 200'000; ++round) {
    value_range<TypeParam> range;
    const auto some = static_cast<bits_t<TypeParam>>(random());
    const uint64_t near = random() % 8;
    range.add(near < 2 ? static_cast<bits_t<TypeParam>>(some % (4 * format::smallest_normal)) : some);
    range.add(near == 0   ? static_cast<bits_t<TypeParam>>(random() % (4 * format::smallest_normal))
              : near == 1 ? static_cast<bits_t<TypeParam>>(format::sign | random() % (4 * format::smallest_normal))
              : near == 2 ? static_cast<bits_t<TypeParam>>(some + random() % 5)
                          : static_cast<bits_t<TypeParam>>(random()));
    if (range.keys().highest == 0) continue;
    const double factor =
        std::ldexp(1 + static_cast<double>(random() % 1000) / 1000, static_cast<int>(random() % 200) - 60);
    quantize<TypeParam> codec(error_bound::range_relative(factor));
    ASSERT_EQ(codec.prepare({.range = range.keys()}, codec), status::ok);
    const long double product =
        static_cast<long double>(factor) * (static_cast<long double>(value_range<TypeParam>::highest_of(range.keys())) -
                                            static_cast<long double>(value_range<TypeParam>::lowest_of(range.keys())));
    ASSERT_LE(static_cast<long double>(codec.effective_bound()), product) << factor;
    told += codec.effective_bound() > 0;
  }
  EXPECT_GT(told, 100'000);
}

TYPED_TEST(odd_range, a_value_that_is_denormal_among_others_is_quantized) {
  auto values = this->ramp(-64, 1);
  values[5] = this->of_bits(1);
  this->expect_just_below(this->effective(values), .01L * 99);
}

}  // namespace
}  // namespace tuck::test
