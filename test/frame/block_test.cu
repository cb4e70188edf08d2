// The block codecs in kernels of one's own, with blocks of any size.
#include "support/block_payloads.hpp"

namespace tuck::test {
namespace {

struct place {
  uint64_t offset;
  uint32_t size;
};

// Changes the values of every other chunk in the registers, and encodes them into one buffer by all ways; one tile for
// all chunks. Stores what the tile then has.
template <class C>
__global__ void encode_to_places(const __grid_constant__ C codec, const value_t<C>* values, uint32_t chunk_values,
                                 uint32_t count, value_t<C>* stored, std::byte* out, uint64_t* used, place* places) {
  using encoder = block_encode<C>;
  using storage = typename encoder::TempStorage;
  TUCK_SHARED(storage, temp);
  TUCK_SHARED(place, at);
  typename encoder::tile tile;
  for (uint32_t chunk = blockIdx.x; chunk * chunk_values < count; chunk += gridDim.x) {
    const uint32_t first = chunk * chunk_values;
    tile.load(values + first, count - first < chunk_values ? count - first : chunk_values);
    if (chunk % 2 == 0)
      for (auto& word : tile.w) word &= encoder::tile::repeat(static_cast<bits_t<value_t<C>>>(~bits_t<value_t<C>>{3}));
    encoder encode(temp);
    const uint32_t size = encode.measure(codec, tile);
    if (threadIdx.x == 0) {
      at = {device::atomic_add(used, uint64_t{round_up_pow2(size, 4)}), size};
      places[chunk] = at;
    }
    device::sync_block();
    std::byte* const to = out + at.offset;
    if (chunk % 3 == 0) {
      encode.write(codec, tile, size, to);
    } else if (chunk % 3 == 1) {
      const std::byte* const encoded = encode.write(codec, tile, size);
      for (uint32_t i = threadIdx.x; i < round_up_pow2(size, 4); i += blockDim.x)
        to[i] = i < size ? encoded[i] : std::byte{};
    } else {
      device::sync_block();
      if (encoder(temp)(codec, tile, to) != size && threadIdx.x == 0) places[chunk].size = ~0u;
    }
    tile.store(reinterpret_cast<std::byte*>(stored + first));
    device::sync_block();
  }
}

constexpr uint32_t shared_chunk = 1024;  // values
template <element T> struct alignas(16) shared_row {
  T values[shared_chunk];
  std::byte after[16];
};

// Decodes each chunk of a frame to shared memory, or if there are `places` the same chunk bare. Copies all of that
// memory, which began as `guard`.
template <class C>
__global__ void decode_in_shared(const __grid_constant__ C codec, const __grid_constant__ frame_view frame,
                                 const std::byte* chunks, const place* places, shared_row<value_t<C>>* rows,
                                 status* statuses) {
  using decoder = block_decode<C>;
  using storage = typename decoder::TempStorage;
  using row = shared_row<value_t<C>>;
  TUCK_SHARED(storage, temp);
  TUCK_SHARED(row, shared);
  auto* const in_shared = reinterpret_cast<std::byte*>(&shared);
  for (uint64_t i = blockIdx.x; i < frame.chunks(); i += gridDim.x) {
    for (uint32_t k = threadIdx.x; k < sizeof(row); k += blockDim.x) in_shared[k] = guard;
    device::sync_block();
    const to_shared<value_t<C>> to(shared.values);
    const status s = places == nullptr ? decoder(temp)(codec, frame, i, to)
                                       : decoder(temp)(codec, {chunks + places[i].offset, places[i].size},
                                                       values_in_chunk(frame.header(), i), to);
    device::sync_block();
    for (uint32_t k = threadIdx.x; k < sizeof(row); k += blockDim.x)
      reinterpret_cast<std::byte*>(rows + i)[k] = in_shared[k];
    if (threadIdx.x == 0) statuses[i] = s;
    device::sync_block();
  }
}

// Passes the values of each chunk of a frame, then those of the same chunk bare, to a function.
template <class C>
__global__ void visit_chunks(const __grid_constant__ C codec, const __grid_constant__ frame_view frame,
                             value_t<C>* of_frame, value_t<C>* of_bare, uint32_t* visits, const std::byte* chunks,
                             const place* places, status* statuses) {
  using decoder = block_decode<C>;
  using storage = typename decoder::TempStorage;
  TUCK_SHARED(storage, temp);
  for (uint64_t i = 0; i < frame.chunks(); ++i) {
    const uint64_t first = i * frame.header().chunk_values;
    const uint32_t count = values_in_chunk(frame.header(), i);
    const auto visit_to = [&](value_t<C>* to) {
      return [=](uint32_t k, value_t<C> x) {
        to[first + k] = x;
        ++visits[first + k];
      };
    };
    status s = decoder(temp)(codec, frame, i, visit_to(of_frame));
    device::sync_block();
    if (s == status::ok)
      s = decoder(temp)(codec, {chunks + places[i].offset, places[i].size}, count, visit_to(of_bare));
    if (threadIdx.x == 0) statuses[i] = s;
    device::sync_block();
  }
}

template <class C> class block_suite : public chunks_by_blocks<C> {};
TYPED_TEST_SUITE(block_suite, framed_codecs, codec_names);

// Blocks of other than 128 threads, with a type of each codec: each is a kernel more.
template <class C> constexpr bool other_blocks = long_tests || sizeof(value_t<C>) == 4;

TYPED_TEST(block_suite, encodes_the_scalar_codec_s_bytes) {
  constexpr uint32_t chunk = tile_bytes / sizeof(value_t<TypeParam>);
  for_schedules(4, [] {
    for (const double sparsity : {0., .3, .9, 1.}) {
      const auto values = sample<TypeParam>::tensor(2 * chunk + 101, sparsity, pattern::clustered);
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values, chunk)) << sparsity;
      if constexpr (other_blocks<TypeParam>) {
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<256>(values, chunk)) << sparsity;
      }
      if constexpr (other_blocks<TypeParam> && tried<512>) {
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<512>(values, chunk / 2)) << sparsity;
      }
    }
  });
}

// Chunks of shared_chunk values, one of them incompressible; the last one is not full.
template <codec C> std::vector<value_t<C>> chunks_of_all_kinds() {
  auto values = sample<C>::tensor(5 * shared_chunk - 11, .7, pattern::clustered);
  std::fill_n(values.begin() + shared_chunk, shared_chunk, values[0]);
  const auto noise = sample<C>::noise(shared_chunk);
  std::copy(noise.begin(), noise.end(), values.begin() + 3 * shared_chunk);
  return values;
}
template <element T> span<const T> chunk_of(const std::vector<T>& values, size_t i) {
  return span<const T>(values).subspan(i * shared_chunk,
                                       std::min<size_t>(shared_chunk, values.size() - i * shared_chunk));
}
// Each chunk by itself, at a multiple of 16 bytes.
struct bare_chunks {
  std::vector<std::byte> bytes;
  std::vector<place> places;
};
template <codec C> bare_chunks bare_chunks_of(const C& codec, const std::vector<value_t<C>>& values) {
  bare_chunks all;
  for (size_t i = 0; i * shared_chunk < values.size(); ++i) {
    const auto chunk = bare_chunk(codec, chunk_of(values, i));
    all.places.push_back({all.bytes.size(), static_cast<uint32_t>(chunk.size())});
    all.bytes.insert(all.bytes.end(), chunk.begin(), chunk.end());
    all.bytes.resize(round_up_pow2(all.bytes.size(), 4), guard);
  }
  return all;
}

template <codec C> void expect_placed_chunks(const C& codec) {
  using value = value_t<C>;
  const auto values = chunks_of_all_kinds<C>();
  const auto count = static_cast<uint32_t>(values.size());
  auto expected = values;
  for (size_t i = 0; i < values.size(); ++i)
    if (i / shared_chunk % 2 == 0)
      expected[i] = __builtin_bit_cast(
          value, static_cast<bits_t<value>>(bits_of(values[i]) & static_cast<bits_t<value>>(~bits_t<value>{3})));
  const device_stream stream;
  const device_array<value> in(values, stream), stored(count);
  const device_array<std::byte> out(std::vector<std::byte>(count * sizeof(value) + 80, guard), stream);
  const device_array<uint64_t> used(std::vector<uint64_t>{0}, stream);
  const device_array<place> places(5);
  launch_on(stream, 2, block_threads, encode_to_places<C>, codec, static_cast<const value*>(in.data()), shared_chunk,
            count, stored.data(), out.data(), used.data(), places.data());
  EXPECT_TRUE(same_bits(stored.download(stream), expected));
  const auto got = out.download(stream);
  std::vector<std::byte> wanted(out.download(used.download(stream)[0], stream).size());
  uint64_t all = 0;
  int raw = 0;
  const auto got_places = places.download(stream);
  for (size_t i = 0; i < 5; ++i) {
    const auto chunk = bare_chunk(codec, chunk_of(expected, i));
    raw += chunk.size() == chunk_of(expected, i).size_bytes();
    ASSERT_EQ(got_places[i].size, chunk.size()) << i;
    ASSERT_LE(got_places[i].offset + chunk.size(), wanted.size());
    std::copy(chunk.begin(), chunk.end(), wanted.begin() + static_cast<std::ptrdiff_t>(got_places[i].offset));
    all += round_up_pow2(chunk.size(), 4);
  }
  EXPECT_EQ(raw, 1);
  ASSERT_EQ(wanted.size(), all);
  wanted.resize(got.size(), guard);
  EXPECT_EQ(got, wanted);
}

TYPED_TEST(block_suite, chunks_get_their_place_by_their_size) {
  for_schedules(2, [] { expect_placed_chunks(sample<TypeParam>::codec()); });
}

TEST(block_encode, takes_a_prepared_codec) {
  const quantize<float> codec(error_bound::range_relative(1e-4));
  ASSERT_TRUE(codec.needs_range());
  quantize<float> prepared;
  value_range<float> range;
  for (const float x : {-100.f, 100.f}) range.add(bits_of(x));
  prepass_result seen;
  seen.range = range.keys();
  ASSERT_EQ(codec.prepare(seen, prepared), status::ok);
  expect_placed_chunks(prepared);
}

TYPED_TEST(block_suite, decodes_frames_of_any_kind_of_chunk) {
  auto values = sample<TypeParam>::tensor(5 * 256 - 11, .5);
  std::fill_n(values.begin() + 256, 256, values[0]);
  for (const bool checksums : {false, true}) {
    const auto frame = encoded(sample<TypeParam>::codec(), values, {.chunk_values = 256, .checksums = checksums});
    const auto restored = expected_values<TypeParam>(values, frame);
    for_schedules(4, [&] {
      auto out = sparse_tensor<value_t<TypeParam>>(values.size(), 0, pattern::iid, 9);
      ASSERT_EQ(TestFixture::template decode<128>(frame, out), std::vector<status>(5, status::ok));
      ASSERT_TRUE(same_bits(out, restored));
      if constexpr (other_blocks<TypeParam>) {
        out.assign(values.size(), value_t<TypeParam>{});
        ASSERT_EQ(TestFixture::template decode<256>(frame, out), std::vector<status>(5, status::ok));
        ASSERT_TRUE(same_bits(out, restored));
      }
    });
  }
}

TYPED_TEST(block_suite, each_value_is_visited_once) {
  using value = value_t<TypeParam>;
  const auto codec = sample<TypeParam>::codec();
  const auto values = chunks_of_all_kinds<TypeParam>();
  const auto chunks = bare_chunks_of(codec, values);
  for (const bool checksums : {false, true}) {
    const auto frame = encoded(codec, values, {.chunk_values = shared_chunk, .checksums = checksums});
    const auto restored = expected_values<TypeParam>(values, frame);
    for_schedules(2, [&] {
      const device_stream stream;
      const device_array<std::byte> in(frame, stream), bare(chunks.bytes, stream);
      const device_array<place> places(chunks.places, stream);
      const frame_view view(in.data(), header_of(frame));
      const device_array<value> of_frame(values.size()), of_bare(values.size());
      const device_array<uint32_t> visits(std::vector<uint32_t>(values.size()), stream);
      const device_array<status> statuses(5);
      launch_on(stream, 1, block_threads, visit_chunks<TypeParam>, codec, view, of_frame.data(), of_bare.data(),
                visits.data(), static_cast<const std::byte*>(bare.data()), static_cast<const place*>(places.data()),
                statuses.data());
      ASSERT_EQ(statuses.download(stream), std::vector<status>(5, status::ok));
      ASSERT_EQ(visits.download(stream), std::vector<uint32_t>(values.size(), 2));
      ASSERT_TRUE(same_bits(of_frame.download(stream), restored));
      ASSERT_TRUE(same_bits(of_bare.download(stream), restored));
    });
  }
}

// Decodes a frame of chunks of shared_chunk values, or its bare chunks. Checks that zeros and then nothing else follow
// the values of a chunk.
template <codec C>
std::vector<value_t<C>> decoded_in_shared(const frame_bytes& frame, const bare_chunks* bare,
                                          std::vector<status>& statuses) {
  using row = shared_row<value_t<C>>;
  const device_stream stream;
  const bare_chunks none;
  const device_array<std::byte> in(frame, stream), bytes(bare != nullptr ? bare->bytes : none.bytes, stream);
  const device_array<place> places(bare != nullptr ? bare->places : none.places, stream);
  const frame_view view(in.data(), header_of(frame));
  const device_array<row> rows(view.chunks());
  const device_array<status> verdicts(view.chunks());
  launch_on(stream, 2, block_threads, decode_in_shared<C>, sample<C>::codec(), view,
            static_cast<const std::byte*>(bytes.data()),
            static_cast<const place*>(bare != nullptr ? places.data() : nullptr), rows.data(), verdicts.data());
  statuses = verdicts.download(stream);
  std::vector<value_t<C>> all;
  for (const row& r : rows.download(stream)) {
    const uint32_t count = values_in_chunk(view.header(), all.size() / shared_chunk);
    const auto* const first = reinterpret_cast<const std::byte*>(&r);
    const std::vector<std::byte> own(first, first + count * sizeof(value_t<C>));
    EXPECT_EQ(std::vector<std::byte>(first, first + sizeof r), guarded(own, sizeof r));
    all.insert(all.end(), r.values, r.values + count);
  }
  return all;
}

TYPED_TEST(block_suite, decodes_to_shared_memory) {
  const auto codec = sample<TypeParam>::codec();
  const auto values = chunks_of_all_kinds<TypeParam>();
  auto chunks = bare_chunks_of(codec, values);
  const std::vector<status> all_ok(5, status::ok);
  std::vector<status> statuses;
  for (const bool checksums : {false, true}) {
    auto frame = encoded(codec, values, {.chunk_values = shared_chunk, .checksums = checksums});
    auto restored = expected_values<TypeParam>(values, frame);
    for_schedules(2, [&] {
      EXPECT_TRUE(same_bits(decoded_in_shared<TypeParam>(frame, nullptr, statuses), restored));
      EXPECT_EQ(statuses, all_ok);
    });
    if (!checksums) {
      EXPECT_TRUE(same_bits(decoded_in_shared<TypeParam>(frame, &chunks, statuses), restored));
      EXPECT_EQ(statuses, all_ok);
      continue;
    }
    // Damage: a bit of a chunk of the frame, a bare chunk that is too short, and one that is too long.
    frame_view view;
    chunk_view chunk;
    ASSERT_EQ(frame_view::open(frame, view), status::ok);
    ASSERT_EQ(view.chunk(2, chunk), status::ok);
    frame[static_cast<size_t>(chunk.payload.data() - frame.data()) + chunk.payload.size() / 2] ^= std::byte{1};
    std::fill_n(restored.begin() + 2 * shared_chunk, shared_chunk, value_t<TypeParam>{});
    EXPECT_TRUE(same_bits(decoded_in_shared<TypeParam>(frame, nullptr, statuses), restored));
    EXPECT_TRUE(statuses[2] == status::bad_checksum || is_payload_error(statuses[2])) << message(statuses[2]);
    chunks.places[2].size = 0;
    ++chunks.places[3].size;
    std::fill_n(restored.begin() + 3 * shared_chunk, shared_chunk, value_t<TypeParam>{});
    EXPECT_TRUE(same_bits(decoded_in_shared<TypeParam>(frame, &chunks, statuses), restored));
    for (const size_t i : {2, 3}) EXPECT_EQ(statuses[i], status::bad_payload);
  }
}

TYPED_TEST(block_suite, a_damaged_chunk_is_zero_and_harms_no_other) {
  const auto values = sample<TypeParam>::tensor(4 * 256, .5);
  auto frame = encoded(sample<TypeParam>::codec(), values, {.chunk_values = 256, .checksums = true});
  auto expected = expected_values<TypeParam>(values, frame);
  frame_view view;
  ASSERT_EQ(frame_view::open(frame, view), status::ok);
  chunk_view chunk;
  ASSERT_EQ(view.chunk(2, chunk), status::ok);
  frame[static_cast<size_t>(chunk.payload.data() - frame.data()) + chunk.payload.size() / 2] ^= std::byte{1};
  auto out = sparse_tensor<value_t<TypeParam>>(values.size(), 0, pattern::iid, 9);
  const auto statuses = TestFixture::template decode<128>(frame, out);
  ASSERT_EQ(statuses.size(), 4u);
  for (const size_t i : {0, 1, 3}) EXPECT_EQ(statuses[i], status::ok);
  EXPECT_TRUE(statuses[2] == status::bad_checksum || is_payload_error(statuses[2])) << message(statuses[2]);
  std::fill_n(expected.begin() + 512, 256, value_t<TypeParam>{});
  EXPECT_TRUE(same_bits(out, expected));
}

}  // namespace
}  // namespace tuck::test
