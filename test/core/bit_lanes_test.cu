// core/bit_lanes.cuh against plain C++: streams of bits that begin and end anywhere, tables by fields.
#include "support/device_memory.hpp"

#include <tuck/core/bit_lanes.cuh>

#include <random>

namespace tuck::test {
namespace {

constexpr uint32_t stream_threads = 128, codes = 24, stream_words = stream_threads * codes;

struct shared_bits {
  uint32_t staged[stream_words];
};

// Each thread's codes, the first `lengths` bits of these. Streams of codes are apart, word by word, or right behind
// each other. All other streams are right behind each other, too.
enum class writer { bits, pairs, pairs_apart, fours_apart };
// Returns whether four codes were appended. They are not if one of them has a mark.
__device__ inline bool put_four(device::codes_to_shared& to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  if ((c & 15) != 0 && to.put_four(a, b, c | 32, d)) to.put(d, a);  // must not happen
  return to.put_four(a, b, c, d);
}
template <writer Writer>
__global__ void __launch_bounds__(stream_threads)
    write_streams(const uint32_t* bits, const uint32_t* lengths, const uint32_t* first_bit, uint32_t* out) {
  TUCK_SHARED(shared_bits, temp);
  for (uint32_t i = threadIdx.x; i < stream_words; i += stream_threads) temp.staged[i] = 0;
  device::sync_block();
  const uint32_t t = threadIdx.x, begin = t * codes, first = first_bit[t];
  if constexpr (Writer == writer::bits) {
    device::shared_bit_writer to(temp.staged, first);
    for (uint32_t at = begin; at < begin + codes; ++at) to.put(bits[at], lengths[at]);
    to.finish();
  } else {
    constexpr bool apart = Writer >= writer::pairs_apart;
    device::codes_to_shared to(apart ? temp.staged + t : temp.staged, apart ? 0 : first, apart ? stream_threads : 1);
    const auto code = [&](uint32_t at) { return bits[at] | lengths[at]; };
    for (uint32_t at = begin; at < begin + codes; at += 2) {
      if constexpr (Writer == writer::fours_apart)
        if (at % 4 == 0 && put_four(to, code(at), code(at + 1), code(at + 2), code(at + 3))) {
          at += 2;
          continue;
        }
      to.put(code(at), code(at + 1));
    }
    if (apart) to.finish();
    device::sync_block();
    if (!apart) to.merge();
    out[stream_words + t] = to.bits();
  }
  device::sync_block();
  for (uint32_t i = threadIdx.x; i < stream_words; i += stream_threads) out[i] = temp.staged[i];
}

// Each thread's words, the first `lengths` bits of these, and what it reads back. Streams of 4-byte words begin at
// bytes.
constexpr uint32_t words_each = 8, some_words = stream_threads * words_each;
template <class Word>
__global__ void __launch_bounds__(stream_threads)
    write_words(const Word* words, const uint32_t* lengths, const uint32_t* first_bit, uint32_t* out, Word* read) {
  TUCK_SHARED(shared_bits, temp);
  for (uint32_t i = threadIdx.x; i < stream_words; i += stream_threads) temp.staged[i] = 0;
  device::sync_block();
  const uint32_t begin = threadIdx.x * words_each;
  uint32_t bit = first_bit[threadIdx.x];
  device::shared_bit_writer to(temp.staged, bit);
  if (sizeof(Word) == 4) to = device::shared_bit_writer(device::shared_position<uint8_t>(temp.staged, bit / 8));
  for (uint32_t at = begin; at < begin + words_each; ++at) to.put_word(words[at], lengths[at]);
  to.finish();
  device::sync_block();
  for (uint32_t at = begin; at < begin + words_each; bit += lengths[at++])
    read[at] = device::shared_bits<Word>(temp.staged, bit, lengths[at]);
  for (uint32_t i = threadIdx.x; i < stream_words; i += stream_threads) out[i] = temp.staged[i];
}

// A sum over what each thread reads from its bit on. There are other bits behind the last word.
__global__ void __launch_bounds__(stream_threads)
    read_streams(const uint32_t* bits, uint32_t count, const uint32_t* first_bit, const uint32_t* steps,
                 uint32_t* out) {
  TUCK_SHARED(shared_bits, temp);
  for (uint32_t i = threadIdx.x; i <= count; i += stream_threads) temp.staged[i] = i < count ? bits[i] : ~0u;
  device::sync_block();
  const device::bits_in_shared in(temp.staged, count);
  uint32_t sum = 0, at = first_bit[threadIdx.x];
  for (uint32_t k = 0; k < codes; ++k) {
    sum = 31 * sum + in.from(at);
    at += steps[threadIdx.x * codes + k];
  }
  out[threadIdx.x] = sum;
}

struct shared_table {
  uint32_t of[256], counts[256];
};
__global__ void __launch_bounds__(stream_threads) look_up(const uint32_t* in, uint32_t* out) {
  TUCK_SHARED(shared_table, temp);
  for (uint32_t i = threadIdx.x; i < 256; i += stream_threads) {
    temp.of[i] = i * i;
    temp.counts[i] = 0;
  }
  device::sync_block();
  const device::shared_words table(temp.of), counts(temp.counts);
  const uint32_t x = in[threadIdx.x];
  out[threadIdx.x] = table.of<0, 8>(x) + 3 * table.of<24, 8>(x) + 5 * table.of<12, 4>(x);
  counts.count<8, 8>(x);
  counts.count<28, 4>(x);
  device::sync_block();
  for (uint32_t i = threadIdx.x; i < 256; i += stream_threads) out[stream_threads + i] = temp.counts[i];
}

// Each thread's words of some, and these with one more; then what windows begin with, and what is behind it.
struct shared_walk {
  uint32_t words[stream_words];
  uint16_t entries[1024];
};
__global__ void __launch_bounds__(stream_threads)
    walk(uint32_t end, uint32_t step, const uint32_t* windows, uint32_t* out) {
  TUCK_SHARED(shared_walk, temp);
  for (uint32_t i = threadIdx.x; i < stream_words; i += stream_threads) temp.words[i] = 3 * i;
  for (uint32_t i = threadIdx.x; i < 1024; i += stream_threads)
    temp.entries[i] = static_cast<uint16_t>(i % 256 << 8 | i % 11);
  device::sync_block();
  uint32_t sum = 0;
  device::shared_steps from(temp.words, threadIdx.x, end, step), to(temp.words, threadIdx.x, end, step);
  while (from.has_more()) {
    const uint32_t word = from.get();
    sum += word;
    to.put(word + 1);
  }
  const device::shared_codes<10> table(temp.entries);
  const uint32_t window = windows[threadIdx.x], entry = table.of(window);
  out[stream_words + threadIdx.x] = sum;
  out[stream_words + stream_threads + threadIdx.x] = entry;
  out[stream_words + 2 * stream_threads + threadIdx.x] = device::shared_codes<10>::behind(window, entry);
  device::sync_block();
  for (uint32_t i = threadIdx.x; i < stream_words; i += stream_threads) out[i] = temp.words[i];
}

// What calls make of operands that are equal, which the compiler may keep in one register: at the beginning of a stream
// some are known to be 0. A kernel for each pair of operands: with more calls in one, nvcc found other registers.
constexpr uint32_t equal_words = 4, equal_rounds = 3, equal_calls = 11;
struct shared_equal {
  uint32_t words[equal_words];
};
template <writer Writer, uint32_t A, uint32_t B> __global__ void put_equal(uint32_t* out) {
  TUCK_SHARED(shared_equal, temp);
  if (threadIdx.x < equal_words) temp.words[threadIdx.x] = 0;
  device::sync_block();
  if (threadIdx.x == 0) {
    if constexpr (Writer == writer::bits) {
      device::shared_bit_writer to(temp.words, 0);
#pragma unroll
      for (uint32_t k = 0; k < equal_rounds; ++k) to.put(A, B);
      to.finish();
    } else {
      device::codes_to_shared to(temp.words, 0, 1);
#pragma unroll
      for (uint32_t k = 0; k < equal_rounds; ++k)
        if constexpr (Writer == writer::pairs)
          to.put(A, B);
        else
          to.put_four(A, B, B, A);
      to.finish();
      temp.words[equal_words - 1] = to.bits();
    }
  }
  device::sync_block();
  if (threadIdx.x < equal_words) out[threadIdx.x] = temp.words[threadIdx.x];
}
__global__ void call_equal(uint32_t x, uint32_t* out) {
  uint32_t piece = x, bits = 0, window = x;
  device::join_if_not_zero(x, x, piece, bits, x, x);
  out[0] = piece;
  out[1] = bits;
  piece = bits = 0;
  device::join_if_not_zero(x, x, piece, bits, x, 0);
  out[2] = piece;
  out[3] = bits;
  out[4] = device::unpack_if<3>(x, window, x, x, x, x);
  out[5] = window;
  out[6] = device::unpack_if<4>(x, x, x, x, x, x);
  out[7] = device::or_if_differ<4>(x, x, x);
  out[8] = device::or_differences<1>(x, {x, x, x, x});
  out[9] = device::any_above({x, x, x, x}, x);
  out[10] = static_cast<uint32_t>(device::add_product(x, x, x));
}

struct streams {
  std::vector<uint32_t> bits, lengths, first_bit, expected;
  uint32_t bits_written = 0;
};
streams make_streams(bool from_highest, uint32_t longest, uint32_t seed) {
  std::mt19937 random(seed);
  streams all{std::vector<uint32_t>(stream_words),
              std::vector<uint32_t>(stream_words),
              {},
              std::vector<uint32_t>(stream_words)};
  uint32_t& at = all.bits_written;
  for (uint32_t i = 0; i < stream_words; ++i) {
    if (i % codes == 0) all.first_bit.push_back(at);
    const uint32_t length = all.lengths[i] = random() % 9 == 0 ? 0 : static_cast<uint32_t>(random()) % (longest + 1);
    // From the lowest bit on, the writer ignores the others.
    all.bits[i] = static_cast<uint32_t>(random()) & (from_highest ? ~low_mask(32 - length) : ~0u);
    for (uint32_t k = 0; k < length; ++k, ++at)
      if (from_highest)
        all.expected[at / 32] |= (all.bits[i] << k >> 31) << (31 - at % 32);
      else
        all.expected[at / 32] |= (all.bits[i] >> k & 1) << at % 32;
  }
  return all;
}

// The words of streams that are apart: word k of stream t is word k * stream_threads + t.
std::vector<uint32_t> words_apart(const streams& all) {
  std::vector<uint32_t> words(stream_words);
  for (uint32_t t = 0; t < stream_threads; ++t) {
    const uint32_t begin = all.first_bit[t], end = t + 1 < stream_threads ? all.first_bit[t + 1] : all.bits_written;
    for (uint32_t i = 0; i < end - begin; ++i) {
      const uint32_t from = begin + i;
      words[i / 32 * stream_threads + t] |= (all.expected[from / 32] << from % 32 >> 31) << (31 - i % 32);
    }
  }
  return words;
}

template <writer Writer> void expect_streams(uint32_t longest) {
  for_schedules(3, [&] {
    const auto all = make_streams(Writer != writer::bits, longest, longest);
    const device_stream stream;
    const device_array<uint32_t> bits(all.bits, stream), lengths(all.lengths, stream), first(all.first_bit, stream),
        out(stream_words + stream_threads);
    launch_on(stream, 1, stream_threads, write_streams<Writer>, static_cast<const uint32_t*>(bits.data()),
              static_cast<const uint32_t*>(lengths.data()), static_cast<const uint32_t*>(first.data()), out.data());
    auto written = out.download(stream);
    if (Writer != writer::bits)
      for (uint32_t t = 0, bit = 0; t < stream_threads; ++t) {
        ASSERT_EQ(bit, all.first_bit[t]) << t;
        bit += written[stream_words + t];
      }
    written.resize(stream_words);
    ASSERT_EQ(written, Writer >= writer::pairs_apart ? words_apart(all) : all.expected);
  });
}
TEST(bit_lanes, writes_streams) {
  expect_streams<writer::bits>(32);
  expect_streams<writer::pairs>(10);
  expect_streams<writer::pairs_apart>(10);
  expect_streams<writer::fours_apart>(10);
}

template <class Word> void expect_words() {
  constexpr uint32_t most = 8 * sizeof(Word);
  std::mt19937_64 random(most);
  std::vector<Word> words(some_words), low(some_words);
  std::vector<uint32_t> lengths(some_words), first_bit, expected(stream_words);
  uint32_t end = 0;
  for (uint32_t i = 0; i < some_words; ++i) {
    if (most == 32) end = i % words_each == 0 ? (end + 7) / 8 * 8 : end;
    if (i % words_each == 0) first_bit.push_back(end);
    words[i] = static_cast<Word>(random());
    const uint32_t length = lengths[i] =
        i % 9 == 0 ? i / 9 % 3 * (most / 2) : static_cast<uint32_t>(random() % (most + 1));
    for (uint32_t k = 0; k < length; ++k, ++end) {
      low[i] |= words[i] & Word{1} << k;
      expected[end / 32] |= static_cast<uint32_t>(words[i] >> k & 1) << end % 32;
    }
  }
  for_schedules(2, [&] {
    const device_stream stream;
    const device_array<Word> from(words, stream), read(some_words);
    const device_array<uint32_t> by(lengths, stream), first(first_bit, stream), out(stream_words);
    launch_on(stream, 1, stream_threads, write_words<Word>, static_cast<const Word*>(from.data()),
              static_cast<const uint32_t*>(by.data()), static_cast<const uint32_t*>(first.data()), out.data(),
              read.data());
    ASSERT_EQ(out.download(stream), expected);
    ASSERT_EQ(read.download(stream), low);
  });
}
TEST(bit_lanes, writes_words_and_reads_them_back) {
  expect_words<uint32_t>();
  expect_words<uint64_t>();
}

TEST(bit_lanes, walks_by_steps_and_looks_up_windows) {
  std::mt19937 random(5);
  std::vector<uint32_t> windows(stream_threads);
  for (uint32_t& x : windows) x = static_cast<uint32_t>(random());
  for (const uint32_t end : {0u, 5u, 200u, stream_words})
    for (const uint32_t step : {stream_threads, 2 * stream_threads}) {
      const device_stream stream;
      const device_array<uint32_t> from(windows, stream), out(stream_words + 3 * stream_threads);
      launch_on(stream, 1, stream_threads, walk, end, step, static_cast<const uint32_t*>(from.data()), out.data());
      const auto found = out.download(stream);
      std::vector<uint32_t> expected(stream_words), sums(stream_threads);
      for (uint32_t i = 0; i < stream_words; ++i) expected[i] = 3 * i;
      for (uint32_t t = 0; t < stream_threads; ++t) {
        for (uint32_t i = t; i < end; i += step) sums[t] += expected[i]++;
        ASSERT_EQ(found[stream_words + t], sums[t]) << t << " to " << end;
        const uint32_t slot = windows[t] >> 22;
        ASSERT_EQ(found[stream_words + stream_threads + t], slot % 256 << 8 | slot % 11);
        ASSERT_EQ(found[stream_words + 2 * stream_threads + t], windows[t] << slot % 11);
      }
      for (uint32_t i = 0; i < stream_words; ++i) ASSERT_EQ(found[i], expected[i]) << i << " to " << end;
    }
}

TEST(bit_lanes, reads_streams_and_no_further_than_a_word_behind_them) {
  std::mt19937 random(3);
  for (const uint32_t count : {1u, 2u, 40u}) {
    std::vector<uint32_t> bits(count), first(stream_threads), steps(stream_words);
    for (uint32_t& x : bits) x = static_cast<uint32_t>(random());
    for (uint32_t& x : first) x = static_cast<uint32_t>(random()) % (32 * count + 1);
    for (uint32_t& x : steps) x = static_cast<uint32_t>(random()) % 21;
    const device_stream stream;
    const device_array<uint32_t> from(bits, stream), begins(first, stream), by(steps, stream), out(stream_threads);
    launch_on(stream, 1, stream_threads, read_streams, static_cast<const uint32_t*>(from.data()), count,
              static_cast<const uint32_t*>(begins.data()), static_cast<const uint32_t*>(by.data()), out.data());
    const auto found = out.download(stream);
    for (uint32_t t = 0; t < stream_threads; ++t) {
      uint32_t at = first[t], sum = 0;
      for (uint32_t k = 0; k < codes; ++k) {
        const uint32_t i = std::min(at / 32, count - 1), next = i + 1 < count ? bits[i + 1] : ~0u;
        sum = 31 * sum + static_cast<uint32_t>((uint64_t{bits[i]} << 32 | next) << at % 32 >> 32);
        at += steps[t * codes + k];
      }
      ASSERT_EQ(found[t], sum) << t << " of " << count;
    }
  }
}

template <writer Writer, uint32_t A, uint32_t B> void expect_equal() {
  const device_stream stream;
  const device_array<uint32_t> out(equal_words);
  launch_on(stream, 1, device::warp_size, put_equal<Writer, A, B>, out.data());
  std::vector<uint32_t> expected(equal_words);
  uint32_t at = 0;
  const auto append = [&](uint32_t code) {
    for (uint32_t k = 0; k < code % 16; ++k, ++at) expected[at / 32] |= (code << k >> 31) << (31 - at % 32);
  };
  for (uint32_t k = 0; k < equal_rounds; ++k)
    if (Writer == writer::bits) {
      for (uint32_t b = 0; b != B; ++b, ++at) expected[at / 32] |= (A >> b & 1) << at % 32;
    } else {
      append(A);
      append(B);
      if (Writer == writer::fours_apart) append(B);
      if (Writer == writer::fours_apart) append(A);
    }
  if (Writer != writer::bits) expected.back() = at;
  EXPECT_EQ(out.download(stream), expected) << static_cast<int>(Writer) << ": " << A << ", " << B;
}
template <writer Writer, uint32_t X> void expect_equal_pairs() {
  expect_equal<Writer, 0, 0>();
  expect_equal<Writer, 0, X>();
  expect_equal<Writer, X, 0>();
  expect_equal<Writer, X, X>();
}
TEST(bit_lanes, operands_that_are_equal) {
  constexpr uint32_t code = 0xa8000005;
  expect_equal_pairs<writer::bits, 29>();  // shorter ones touch only bits of positions that do not count
  expect_equal_pairs<writer::pairs, code>();
  expect_equal_pairs<writer::fours_apart, code>();
  const device_stream stream;
  const device_array<uint32_t> out(equal_calls);
  launch_on(stream, 1, 1, call_equal, 3u, out.data());
  EXPECT_EQ(out.download(stream), (std::vector<uint32_t>{12, 3, 3, 0, 6, 0, 3, 3, 3, 0, 12}));
}

TEST(bit_lanes, words_of_fields) {
  std::mt19937 random(4);
  std::vector<uint32_t> in(stream_threads), counts(256);
  for (uint32_t& x : in) {
    x = static_cast<uint32_t>(random());
    ++counts[x >> 8 & 255];
    ++counts[x >> 28];
  }
  const device_stream stream;
  const device_array<uint32_t> from(in, stream), out(stream_threads + 256);
  launch_on(stream, 1, stream_threads, look_up, static_cast<const uint32_t*>(from.data()), out.data());
  const auto found = out.download(stream);
  const auto square = [](uint32_t x) { return x * x; };
  for (uint32_t t = 0; t < stream_threads; ++t)
    ASSERT_EQ(found[t], square(in[t] & 255) + 3 * square(in[t] >> 24) + 5 * square(in[t] >> 12 & 15));
  for (uint32_t i = 0; i < 256; ++i) ASSERT_EQ(found[stream_threads + i], counts[i]) << i;
}

}  // namespace
}  // namespace tuck::test
