// Single chunks by one thread block, beside what the scalar codec makes of them: its bytes, its verdict on anything.
#pragma once

#include "support/codecs.hpp"
#include "support/device.hpp"

#include <algorithm>

namespace tuck::test {

// What block_encode writes: the scalar codec's chunk, or the values if that is no smaller.
template <codec C> std::vector<std::byte> bare_chunk(const C& codec, span<const value_t<C>> values) {
  std::vector<std::byte> chunk(codec.max_chunk_bytes(static_cast<uint32_t>(values.size())));
  chunk.resize(codec.encode_chunk(values, chunk));
  const const_bytes raw = as_bytes(values);
  if (chunk.empty() || chunk.size() >= raw.size()) chunk.assign(raw.begin(), raw.end());
  return chunk;
}
// What is in memory that began as `guard`: the chunk, and zeros up to a multiple of 16.
constexpr std::byte guard{0xa5};
inline std::vector<std::byte> guarded(std::vector<std::byte> chunk, size_t size) {
  chunk.resize(round_up_pow2(chunk.size(), 4));
  chunk.resize(size, guard);
  return chunk;
}

template <class C, int Threads>
__global__ void encode_chunk(C codec, const value_t<C>* values, uint32_t count, std::byte* out, uint32_t* size) {
  using encoder = block_encode<C, Threads>;
  using storage = typename encoder::TempStorage;
  TUCK_SHARED(storage, temp);
  const uint32_t used = encoder(temp)(codec, values, count, out);
  if (threadIdx.x == 0) *size = used;
}

struct payload {
  uint64_t begin;
  uint32_t size, count;
};

template <class C, int Threads>
__global__ void decode_payloads(C codec, const payload* payloads, uint32_t number, const std::byte* encoded,
                                value_t<C>* out, uint32_t slot, status* statuses) {
  using decoder = block_decode<C, Threads>;
  using storage = typename decoder::TempStorage;
  TUCK_SHARED(storage, temp);
  for (uint32_t i = blockIdx.x; i < number; i += gridDim.x) {
    const payload p = payloads[i];
    const status s = decoder(temp)(codec, {encoded + p.begin, p.size}, p.count, out + uint64_t{i} * slot);
    if (threadIdx.x == 0) statuses[i] = s;
    device::sync_block();
  }
}

// Sanitizers see no blocks of more than 256 threads, which take them long and do the same.
template <int Threads> constexpr bool tried = Threads <= 256 || !slow;

// A fixture that compares the two, of the codec of sample<C> unless a call has another.
template <class C> class block_against_scalar : public ::testing::Test {
 protected:
  using T = value_t<C>;
  static constexpr uint32_t capacity = max_device_chunk_values<C>;

  template <int Threads>
  static void expect_scalar_bytes(const std::vector<T>& values, const C& codec = sample<C>::codec()) {
    if constexpr (tried<Threads>) expect_scalar_bytes_of<Threads>(values, codec);
  }
  // Decodes all payloads in one launch; each has the scalar codec's status and its values, or zeros if it fails.
  template <int Threads>
  static void expect_scalar_verdicts(const std::vector<std::vector<std::byte>>& encoded,
                                     const std::vector<uint32_t>& counts, int& accepted,
                                     const C& codec = sample<C>::codec()) {
    if constexpr (tried<Threads>) expect_scalar_verdicts_of<Threads>(encoded, counts, accepted, codec);
  }
  // The same for chunks of sparsity(round) with up to two wrong bits each, half of these in the first 12 bytes.
  // More than one of `least` is accepted.
  template <class Sparsity>
  static void expect_scalar_verdicts_on_damage(uint64_t seed, int rounds, const Sparsity& sparsity, int least = 4) {
    std::mt19937_64 random(seed);
    std::vector<std::vector<std::byte>> encoded;
    std::vector<uint32_t> counts;
    for (int round = 0; round < rounds; ++round) {
      const uint64_t count = 1 + random() % (round % 64 == 0 ? capacity : 300);
      auto bytes = encode(sample<C>::tensor(count, sparsity(round), pattern::iid, random()));
      const auto in_front = std::min<size_t>(bytes.size(), 12);
      for (uint64_t changes = random() % 3; changes-- > 0 && !bytes.empty();)
        bytes[random() % (random() % 2 == 0 ? in_front : bytes.size())] ^= static_cast<std::byte>(1 << random() % 8);
      encoded.push_back(std::move(bytes));
      counts.push_back(static_cast<uint32_t>(count));
    }
    for_schedules(2, [&] {
      int accepted = 0;
      ASSERT_NO_FATAL_FAILURE(expect_scalar_verdicts<128>(encoded, counts, accepted));
      EXPECT_GT(accepted, rounds / least);
      EXPECT_LT(accepted, rounds);
    });
  }

  static std::vector<std::byte> encode(const std::vector<T>& values, const C& codec = sample<C>::codec()) {
    std::vector<std::byte> encoded(codec.max_chunk_bytes(static_cast<uint32_t>(values.size())));
    encoded.resize(codec.encode_chunk(values, encoded));
    return encoded;
  }

 private:
  template <int Threads> static void expect_scalar_bytes_of(const std::vector<T>& values, const C& codec) {
    const device_stream stream;
    const device_array<T> in(values, stream);
    const device_array<std::byte> out(std::vector<std::byte>(capacity * sizeof(T), guard), stream);
    const device_array<uint32_t> size(1);
    launch_on(stream, 1, Threads, encode_chunk<C, Threads>, codec, static_cast<const T*>(in.data()),
              static_cast<uint32_t>(values.size()), out.data(), size.data());
    const auto expected = bare_chunk(codec, span<const T>(values));
    ASSERT_EQ(size.download(stream)[0], expected.size());
    ASSERT_EQ(out.download(stream), guarded(expected, capacity * sizeof(T)));
  }

  template <int Threads>
  static void expect_scalar_verdicts_of(const std::vector<std::vector<std::byte>>& encoded,
                                        const std::vector<uint32_t>& counts, int& accepted, const C& codec) {
    std::vector<payload> payloads;
    std::vector<std::byte> all;
    for (size_t i = 0; i < encoded.size(); ++i) {
      payloads.push_back({all.size(), static_cast<uint32_t>(encoded[i].size()), counts[i]});
      all.insert(all.end(), encoded[i].begin(), encoded[i].end());
      all.resize((all.size() + 15) / 16 * 16, std::byte{0xa5});
    }
    const auto number = static_cast<uint32_t>(payloads.size());
    const uint32_t slot = (*std::max_element(counts.begin(), counts.end()) + 15) / 16 * 16;  // values
    const device_stream stream;
    const device_array<payload> where(payloads, stream);
    const device_array<std::byte> in(all, stream);
    const device_array<T> out(uint64_t{number} * slot);
    const device_array<status> statuses(number);
    launch_on(stream, 2, Threads, decode_payloads<C, Threads>, codec, static_cast<const payload*>(where.data()), number,
              static_cast<const std::byte*>(in.data()), out.data(), slot, statuses.data());
    const auto got = statuses.download(stream);
    const auto got_values = out.download(stream);
    for (uint32_t i = 0; i < number; ++i) {
      std::vector<T> expected(counts[i]);
      const size_t raw = counts[i] * sizeof(T);
      const status s = encoded[i].size() > raw   ? status::bad_payload
                       : encoded[i].size() < raw ? codec.decode_chunk(encoded[i], expected)
                                                 : status::ok;
      if (encoded[i].size() == raw) std::memcpy(expected.data(), encoded[i].data(), raw);
      ASSERT_EQ(got[i], s) << "payload " << i << " of " << counts[i] << " values";
      if (s == status::ok)
        ++accepted;
      else
        std::fill(expected.begin(), expected.end(), T{});
      ASSERT_EQ(std::memcmp(&got_values[uint64_t{i} * slot], expected.data(), counts[i] * sizeof(T)), 0) << i;
    }
  }
};

template <class C, int Threads>
__global__ void encode_chunks(const __grid_constant__ C codec, const value_t<C>* values, uint32_t chunk_values,
                              uint32_t count, std::byte* slots, uint32_t* sizes) {
  using encoder = block_encode<C, Threads>;
  using storage = typename encoder::TempStorage;
  TUCK_SHARED(storage, temp);
  // Two chunks a block, one after the other in the same storage.
  for (uint32_t chunk = blockIdx.x; chunk * chunk_values < count; chunk += gridDim.x) {
    const uint32_t first = chunk * chunk_values;
    const uint32_t length = count - first < chunk_values ? count - first : chunk_values;
    const uint32_t size = encoder(temp)(codec, values + first, length, slots + size_t{chunk} * tile_bytes);
    if (threadIdx.x == 0) sizes[chunk] = size;
    device::sync_block();
  }
}

template <class C, int Threads>
__global__ void decode_chunks(const __grid_constant__ C codec, const __grid_constant__ frame_view frame,
                              value_t<C>* out, status* statuses) {
  using decoder = block_decode<C, Threads>;
  using storage = typename decoder::TempStorage;
  TUCK_SHARED(storage, temp);
  for (uint64_t chunk = blockIdx.x; chunk < frame.chunks(); chunk += gridDim.x) {
    const status s = decoder(temp)(codec, frame, chunk, out + chunk * frame.header().chunk_values);
    if (threadIdx.x == 0) statuses[chunk] = s;
    device::sync_block();
  }
}

// A fixture of kernels of one's own that encode chunks and decode those of a frame.
template <class C> class chunks_by_blocks : public ::testing::Test {
 protected:
  using T = value_t<C>;

  // What each block writes is what the scalar codec writes.
  template <int Threads> static void expect_scalar_bytes(const std::vector<T>& values, uint32_t chunk_values) {
    const device_stream stream;
    const C codec = sample<C>::codec();
    const auto count = static_cast<uint32_t>(values.size());
    const uint32_t chunks = ceil_div(count, chunk_values);
    const device_array<T> in(values, stream);
    const device_array<std::byte> slots(std::vector<std::byte>(size_t{chunks} * tile_bytes, guard), stream);
    const device_array<uint32_t> sizes(chunks);
    launch_on(stream, ceil_div(chunks, 2u), Threads, encode_chunks<C, Threads>, codec, static_cast<const T*>(in.data()),
              chunk_values, count, slots.data(), sizes.data());
    const auto got = slots.download(stream);
    const auto got_sizes = sizes.download(stream);
    for (uint32_t i = 0; i < chunks; ++i) {
      const uint64_t first = uint64_t{i} * chunk_values;
      const auto expected =
          bare_chunk(codec, span<const T>(values).subspan(first, std::min<uint64_t>(chunk_values, count - first)));
      ASSERT_EQ(got_sizes[i], expected.size());
      ASSERT_EQ(std::memcmp(got.data() + uint64_t{i} * tile_bytes, guarded(expected, tile_bytes).data(), tile_bytes),
                0);
    }
  }

  template <int Threads> static std::vector<status> decode(const frame_bytes& frame, std::vector<T>& out) {
    const device_stream stream;
    const device_array<std::byte> in(frame, stream);
    const frame_view view(in.data(), header_of(frame));
    const device_array<T> room(out, stream);
    const device_array<status> statuses(view.chunks());
    launch_on(stream, 2, Threads, decode_chunks<C, Threads>, sample<C>::codec(), view, room.data(), statuses.data());
    out = room.download(stream);
    return statuses.download(stream);
  }
};

}  // namespace tuck::test
