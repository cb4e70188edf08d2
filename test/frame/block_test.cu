// The block codecs in kernels of one's own, with blocks of any size.
#include "support/block_payloads.hpp"

namespace tuck::test {
namespace {

// Changes the values in the registers, stores them and encodes them; one tile for all chunks.
template <class C>
__global__ void clear_low_bits(const __grid_constant__ C codec, const value_t<C>* values, uint32_t chunk_values,
                               uint32_t count, value_t<C>* changed, std::byte* slots, uint32_t* sizes) {
  using encoder = block_encode<C>;
  using storage = typename encoder::TempStorage;
  TUCK_SHARED(storage, temp);
  typename encoder::tile tile;
  for (uint32_t chunk = blockIdx.x; chunk * chunk_values < count; chunk += gridDim.x) {
    const uint32_t first = chunk * chunk_values;
    tile.load(values + first, count - first < chunk_values ? count - first : chunk_values);
    for (auto& word : tile.w) word &= encoder::tile::repeat(static_cast<bits_t<value_t<C>>>(~bits_t<value_t<C>>{3}));
    tile.store(reinterpret_cast<std::byte*>(changed + first));
    const uint32_t size = encoder(temp)(codec, tile, slots + size_t{chunk} * tile_bytes);
    if (threadIdx.x == 0) sizes[chunk] = size;
    device::sync_block();
  }
}

// Passes the values of each chunk of a frame, then those of the same chunk bare, to a function.
template <class C>
__global__ void visit_chunks(const __grid_constant__ C codec, const __grid_constant__ frame_view frame,
                             value_t<C>* of_frame, value_t<C>* of_bare, uint32_t* visits, const std::byte* chunks,
                             const uint32_t* sizes, status* statuses) {
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
    if (s == status::ok) s = decoder(temp)(codec, {chunks + i * tile_bytes, sizes[i]}, count, visit_to(of_bare));
    if (threadIdx.x == 0) statuses[i] = s;
    device::sync_block();
  }
}

template <class C> class block_suite : public chunks_by_blocks<C> {};
TYPED_TEST_SUITE(block_suite, tested_codecs, codec_names);

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

template <element T> std::vector<T> without_low_bits(const std::vector<T>& values) {
  std::vector<T> cleared;
  for (const T v : values)
    cleared.push_back(
        __builtin_bit_cast(T, static_cast<bits_t<T>>(bits_of(v) & static_cast<bits_t<T>>(~bits_t<T>{3}))));
  return cleared;
}

TYPED_TEST(block_suite, a_tile_may_be_changed_and_used_again) {
  using value = value_t<TypeParam>;
  constexpr uint32_t chunk = 1024;
  const auto codec = sample<TypeParam>::codec();
  const auto values = sample<TypeParam>::tensor(3 * chunk + 519, .5);
  const auto count = static_cast<uint32_t>(values.size());
  const auto expected = without_low_bits(values);
  const device_stream stream;
  const device_array<value> in(values, stream), changed(count);
  const device_array<std::byte> slots(4 * tile_bytes);
  const device_array<uint32_t> sizes(4);
  launch_on(stream, 1, block_threads, clear_low_bits<TypeParam>, codec, static_cast<const value*>(in.data()), chunk,
            count, changed.data(), slots.data(), sizes.data());
  EXPECT_TRUE(same_bits(changed.download(stream), expected));
  const auto got = slots.download(stream);
  const auto got_sizes = sizes.download(stream);
  for (uint32_t i = 0; i < 4; ++i) {
    const std::vector<value> part(expected.begin() + i * chunk, expected.begin() + std::min(count, (i + 1) * chunk));
    std::vector<value> restored(part.size());
    ASSERT_NE(got_sizes[i], incompressible);
    const const_bytes encoded = const_bytes(got).subspan(uint64_t{i} * tile_bytes, got_sizes[i]);
    ASSERT_EQ(codec.decode_chunk(encoded, restored), status::ok);
    ASSERT_TRUE(restores(codec, part, restored));
  }
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
  auto values = sample<TypeParam>::tensor(5 * 1024 - 11, .7, pattern::clustered);
  std::fill_n(values.begin() + 1024, 1024, values[0]);
  std::vector<std::byte> chunks(5 * tile_bytes);
  std::vector<uint32_t> sizes;
  for (size_t i = 0; i < 5; ++i) {
    const auto part = span<const value>(values).subspan(1024 * i, std::min<size_t>(1024, values.size() - 1024 * i));
    std::vector<std::byte> chunk(codec.max_chunk_bytes(1024));
    sizes.push_back(codec.encode_chunk(part, chunk));
    ASSERT_NE(sizes.back(), incompressible);
    std::copy_n(chunk.begin(), sizes.back(), chunks.begin() + static_cast<std::ptrdiff_t>(i * tile_bytes));
  }
  for (const bool checksums : {false, true}) {
    const auto frame = encoded(codec, values, {.chunk_values = 1024, .checksums = checksums});
    const auto restored = expected_values<TypeParam>(values, frame);
    for_schedules(2, [&] {
      const device_stream stream;
      const device_array<std::byte> in(frame, stream), bare(chunks, stream);
      const device_array<uint32_t> bare_sizes(sizes, stream);
      const frame_view view(in.data(), header_of(frame));
      const device_array<value> of_frame(values.size()), of_bare(values.size());
      const device_array<uint32_t> visits(std::vector<uint32_t>(values.size()), stream);
      const device_array<status> statuses(5);
      launch_on(stream, 1, block_threads, visit_chunks<TypeParam>, codec, view, of_frame.data(), of_bare.data(),
                visits.data(), static_cast<const std::byte*>(bare.data()),
                static_cast<const uint32_t*>(bare_sizes.data()), statuses.data());
      ASSERT_EQ(statuses.download(stream), std::vector<status>(5, status::ok));
      ASSERT_EQ(visits.download(stream), std::vector<uint32_t>(values.size(), 2));
      ASSERT_TRUE(same_bits(of_frame.download(stream), restored));
      ASSERT_TRUE(same_bits(of_bare.download(stream), restored));
    });
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
