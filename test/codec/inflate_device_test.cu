// inflate_batch beside inflate on the host: the same verdicts, counts and bytes for any stream.
#include "support/deflate_samples.hpp"
#include "support/device.hpp"

#include <tuck/host.hpp>

namespace tuck::test {
namespace {

using specimen = damaged_streams::specimen;

constexpr std::byte untouched{0xee};
constexpr uint64_t guard = 5;  // bytes before and behind each output

// Streams and outputs side by side on the device, at any address.
class device_batch {
 public:
  device_batch(const std::vector<specimen>& specimens, cudaStream_t stream)
      : streams_(joined(specimens), stream),
        outputs_(byte_vector(output_bytes(specimens), untouched), stream),
        items_(items_of(specimens), stream),
        results_(specimens.size()) {}

  span<const inflate_item> items() const { return items_.all(); }
  span<inflate_result> results() const { return results_.all(); }

  // Compares with the host's all that a call has written.
  void expect_as_on_host(const std::vector<specimen>& specimens, cudaStream_t stream) const {
    const auto results = results_.download(stream);
    const byte_vector outputs = outputs_.download(stream);
    byte_vector expected(outputs.size(), untouched), room;
    uint64_t at = guard;
    for (size_t i = 0; i < specimens.size(); ++i) {
      room.resize(specimens[i].room);
      const inflate_result on_host = inflate(specimens[i].stream, room);
      ASSERT_EQ(results[i].code, on_host.code) << i << ": " << message(results[i].code);
      ASSERT_EQ(results[i].consumed, on_host.consumed) << i;
      ASSERT_EQ(results[i].bytes, on_host.bytes) << i;
      std::copy_n(room.begin(), on_host.bytes, expected.begin() + static_cast<std::ptrdiff_t>(at));
      at += specimens[i].room + guard;
    }
    ASSERT_TRUE(outputs == expected);
  }

 private:
  static byte_vector joined(const std::vector<specimen>& specimens) {
    byte_vector all;
    for (const auto& s : specimens) all.insert(all.end(), s.stream.begin(), s.stream.end());
    return all;
  }
  static uint64_t output_bytes(const std::vector<specimen>& specimens) {
    uint64_t size = guard;
    for (const auto& s : specimens) size += s.room + guard;
    return size;
  }
  std::vector<inflate_item> items_of(const std::vector<specimen>& specimens) const {
    std::vector<inflate_item> items;
    uint64_t from = 0, to = guard;
    for (const auto& s : specimens) {
      items.push_back({{streams_.data() + from, s.stream.size()}, {outputs_.data() + to, s.room}});
      from += s.stream.size();
      to += s.room + guard;
    }
    return items;
  }

  device_array<std::byte> streams_, outputs_;
  device_array<inflate_item> items_;
  device_array<inflate_result> results_;
};

void expect_as_on_host(const std::vector<specimen>& specimens, launch_options how = {}) {
  const device_stream stream;
  const device_batch batch(specimens, stream);
  const result started = inflate_batch(batch.items(), batch.results(), stream, how);
  ASSERT_EQ(started.code, status::ok) << message(started);
  batch.expect_as_on_host(specimens, stream);
}

std::vector<specimen> damaged(uint64_t seed, int count) {
  damaged_streams source(seed);
  std::vector<specimen> specimens;
  for (int i = 0; i < count; ++i) specimens.push_back(source.next());
  return specimens;
}

// Of all kinds of blocks, content and sizes.
std::vector<specimen> sound() {
  std::vector<specimen> specimens;
  for (const content what : contents)
    for (const uint64_t size : {0, 1, 33, 1000, 70000})
      for (const zlib_settings& how : {zlib_settings{0}, {6}, {6, Z_FIXED}, {9, Z_RLE, 1}})
        if (size <= 1000 || how.strategy == Z_DEFAULT_STRATEGY)
          specimens.push_back({zlib_deflated(data_of(what, size), how), size});
  return specimens;
}

TEST(inflate_device, restores_what_zlib_deflated) {
  for (const auto& s : sound()) {
    byte_vector out(s.room);
    ASSERT_TRUE(inflate(s.stream, out));
  }
  for_schedules(2, [] { expect_as_on_host(sound()); });
}

TEST(inflate_device, damaged_streams_fail_as_on_the_host) {
  const int streams = long_run() ? 1000000 : brief ? 2000 : 20000;
  damaged_streams source(2);
  for (int done = 0; done < streams; done += 1000) {
    std::vector<specimen> specimens;
    for (int i = 0; i < 1000; ++i) specimens.push_back(source.next());
    SCOPED_TRACE("streams from " + std::to_string(done));
    expect_as_on_host(specimens);
    if (HasFatalFailure()) return;
  }
}

TEST(inflate_device, any_schedule_gives_the_same) {
  const auto specimens = damaged(3, 100);
  for_schedules(20, [&] { expect_as_on_host(specimens); });
}

TEST(inflate_device, any_number_of_streams_and_blocks) {
  for (const int count : {0, 1, 7, 8, 9, 1000})
    for (const unsigned max_blocks : {0u, 1u}) expect_as_on_host(damaged(4, count), {.max_blocks = max_blocks});
}

TEST(inflate_device, empty_streams_and_empty_outputs) {
  const byte_vector end = deflate_writer().begin_fixed(true).end(), some = zlib_deflated(bytes_of("some"));
  expect_as_on_host({{{}, 0}, {{}, 10}, {end, 0}, {some, 0}, {some, 4}});

  const device_stream stream;
  const device_array<std::byte> in(end, stream);
  const device_array<inflate_item> items({{{}, {}}, {in.all(), {}}}, stream);
  const device_array<inflate_result> results(2);
  ASSERT_TRUE(inflate_batch(items.all(), results.all(), stream));
  const auto found = results.download(stream);
  EXPECT_EQ(found[0].code, status::deflate_ends_early);
  EXPECT_EQ(found[1].code, status::ok);
  EXPECT_EQ(found[1].consumed, 2u);
}

// In memory of its own, each byte of which begins a stream and ends one.
TEST(inflate_device, reads_nothing_but_the_stream) {
  const byte_vector whole = zlib_deflated(data_of(content::text, 300));
  const device_stream stream;
  for (uint64_t size = 16; size <= whole.size(); size += size < 40 ? 1 : 13) {
    const device_array<std::byte> in({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}, stream);
    const device_array<std::byte> out(300 * 8);
    std::vector<inflate_item> shifted;
    for (uint64_t from = 0; from < 8; ++from)
      shifted.push_back({in.all().subspan(from), out.all().subspan(300 * from, 300)});
    const device_array<inflate_item> items(shifted, stream);
    const device_array<inflate_result> results(8);
    ASSERT_TRUE(inflate_batch(items.all(), results.all(), stream));
    const auto found = results.download(stream);
    for (uint64_t from = 0; from < 8; ++from) {
      byte_vector room(300);
      const inflate_result on_host = inflate(const_bytes(whole).subspan(from, size - from), room);
      ASSERT_EQ(found[from].code, on_host.code) << size << ' ' << from;
      ASSERT_EQ(found[from].bytes, on_host.bytes) << size << ' ' << from;
    }
  }
}

// What lane 0 reads at once is never more than the warp has brought.
TEST(inflate_device, headers_and_tokens_of_the_most_bits) {
  dynamic_header header{29, 29, code_with(19, {{8, 7}, {9, 7}, {4, 6}, {5, 5}, {0, 4}, {1, 3}, {2, 2}, {3, 1}}), {}};
  std::vector<uint32_t> literals(226, 8), distances(2, 4);
  literals.resize(286, 9);
  distances.resize(30, 5);
  for (const auto* lengths : {&literals, &distances})
    for (const uint32_t length : *lengths) header.lengths.push_back({length});
  deflate_writer headers;
  for (int i = 0; i < 20; ++i)
    headers.begin_dynamic(false, header).codes(literals, distances).text("abcde").match(227, 5).end();

  literals = code_with(286, {{256, 15}, {284, 15}});
  distances = code_with(30, {{28, 15}, {29, 15}});
  for (uint32_t i = 0; i < 14; ++i) literals[i] = distances[i] = i + 1;
  deflate_writer tokens;
  tokens.stored(false, data_of(content::random, 33000)).begin_dynamic(true, literals, distances);
  for (uint32_t i = 0; i < 200; ++i) tokens.symbol(284).bits(i, 5).distance_symbol(29).bits(8191 - i, 13);
  const std::vector<specimen> specimens{{headers.begin_fixed(true).end(), 20 * 232}, {tokens.end(), 90000}};
  for (const auto& s : specimens) {
    byte_vector out(s.room);
    ASSERT_TRUE(inflate(s.stream, out));
  }
  expect_as_on_host(specimens);
}

// Stored blocks, which the warp copies from wherever they are, between blocks that lane 0 reads from shared memory.
TEST(inflate_device, stored_blocks_of_any_size_among_others) {
  std::vector<specimen> specimens;
  for (const uint64_t size : {0, 1, 2, 3, 5, 31, 64, 250, 291, 299, 300, 301, 430, 511, 512, 513, 3000, 65535}) {
    deflate_writer w;
    const byte_vector data = data_of(content::random, size);
    w.begin_fixed(false).text("begin").end().stored(false, data).begin_fixed(false).match(100, 5).end();
    w.stored(false, data).stored(false, data).begin_fixed(true).text("end").end();
    specimens.push_back({w, 5 + 3 * size + 103});
    specimens.push_back({w, 2 * size});
  }
  expect_as_on_host(specimens);
}

TEST(inflate_device, misuse_is_refused) {
  using enum status;
  const device_stream stream;
  const device_array<inflate_item> items(4);
  const device_array<inflate_result> results(4);
  const span<const inflate_item> all = items.all();
  const span<const inflate_item> odd(
      reinterpret_cast<const inflate_item*>(reinterpret_cast<const std::byte*>(all.data()) + 4), 2);
  const span<inflate_result> odd_results(
      reinterpret_cast<inflate_result*>(reinterpret_cast<std::byte*>(results.data()) + 4), 2);
  EXPECT_EQ(inflate_batch({nullptr, 4}, results.all(), stream).code, invalid_argument);
  EXPECT_EQ(inflate_batch(all, {nullptr, 4}, stream).code, invalid_argument);
  EXPECT_EQ(inflate_batch(odd, results.all(), stream).code, misaligned);
  EXPECT_EQ(inflate_batch(all.subspan(0, 2), odd_results, stream).code, misaligned);
  EXPECT_EQ(inflate_batch(all, results.all().subspan(1), stream).code, output_too_small);
  EXPECT_EQ(inflate_batch(all, {}, stream).code, output_too_small);
  EXPECT_EQ(inflate_batch({}, {}, stream).code, ok);
}

#if defined(TUCK_CUDASIM)
TEST(inflate_device, is_one_launch_and_nothing_else) {
  const device_stream stream;
  const auto specimens = damaged(5, 30);
  const device_batch batch(specimens, stream);
  cudasim::clear_counters();
  ASSERT_TRUE(inflate_batch(batch.items(), batch.results(), stream));
  const auto counters = cudasim::snapshot();
  EXPECT_EQ(counters.launches, 1u);
  EXPECT_EQ(counters.allocations, 0u);
  EXPECT_EQ(counters.synchronisations, 0u);
  batch.expect_as_on_host(specimens, stream);
}
#endif

}  // namespace
}  // namespace tuck::test
