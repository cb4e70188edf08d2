// Single chunks by one thread block, beside what the scalar codec makes of them: its bytes, its verdict on anything.
#pragma once

#include "support/device.hpp"

#include <algorithm>

namespace tuck::test {

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
__global__ void decode_payloads(const payload* payloads, uint32_t number, const std::byte* encoded, value_t<C>* out,
                                uint32_t slot, status* statuses) {
  using decoder = block_decoder<C, Threads>;
  using storage = typename decoder::TempStorage;
  TUCK_SHARED(storage, temp);
  for (uint32_t i = blockIdx.x; i < number; i += gridDim.x) {
    const payload p = payloads[i];
    block_output<value_t<C>, Threads> sink(out + uint64_t{i} * slot, 0, p.count, p.count, false);
    const status s = decoder(temp).decode(C{}, {encoded + p.begin, p.size}, p.count, sink);
    if (threadIdx.x == 0) statuses[i] = s;
    device::sync_block();
  }
}

// Sanitizers see no blocks of more than 256 threads, which take them long and do the same.
template <int Threads> constexpr bool tried = Threads <= 256 || !brief;

// A fixture that compares the two.
template <class C> class block_against_scalar : public ::testing::Test {
 protected:
  using T = value_t<C>;
  static constexpr uint32_t capacity = max_device_chunk_values<C>;

  template <int Threads> static void expect_scalar_bytes(const std::vector<T>& values, const C& codec = {}) {
    if constexpr (tried<Threads>) expect_scalar_bytes_of<Threads>(values, codec);
  }
  // Decodes all payloads in one launch; each has the scalar codec's status and, if that is ok, its values.
  template <int Threads>
  static void expect_scalar_verdicts(const std::vector<std::vector<std::byte>>& encoded,
                                     const std::vector<uint32_t>& counts, int& accepted) {
    if constexpr (tried<Threads>) expect_scalar_verdicts_of<Threads>(encoded, counts, accepted);
  }

  static std::vector<std::byte> encode(const std::vector<T>& values, const C& codec = {}) {
    std::vector<std::byte> encoded(codec.max_chunk_bytes(static_cast<uint32_t>(values.size())));
    encoded.resize(codec.encode_chunk(values, encoded));
    return encoded;
  }

 private:
  template <int Threads> static void expect_scalar_bytes_of(const std::vector<T>& values, const C& codec) {
    const device_stream stream;
    const device_array<T> in(values, stream);
    const device_array<std::byte> out(capacity * sizeof(T));
    const device_array<uint32_t> size(1);
    launch_on(stream, 1, Threads, encode_chunk<C, Threads>, codec, static_cast<const T*>(in.data()),
              static_cast<uint32_t>(values.size()), out.data(), size.data());
    const auto expected = encode(values, codec);
    ASSERT_EQ(size.download(stream)[0], expected.size());
    ASSERT_EQ(out.download(expected.size(), stream), expected);
  }

  template <int Threads>
  static void expect_scalar_verdicts_of(const std::vector<std::vector<std::byte>>& encoded,
                                        const std::vector<uint32_t>& counts, int& accepted) {
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
    launch_on(stream, 2, Threads, decode_payloads<C, Threads>, static_cast<const payload*>(where.data()), number,
              static_cast<const std::byte*>(in.data()), out.data(), slot, statuses.data());
    const auto got = statuses.download(stream);
    const auto got_values = out.download(stream);
    for (uint32_t i = 0; i < number; ++i) {
      std::vector<T> expected(counts[i]);
      const status s = C{}.decode_chunk(encoded[i], expected);
      ASSERT_EQ(got[i], s) << "payload " << i << " of " << counts[i] << " values";
      if (s != status::ok) continue;
      ++accepted;
      ASSERT_EQ(std::memcmp(&got_values[uint64_t{i} * slot], expected.data(), counts[i] * sizeof(T)), 0) << i;
    }
  }
};

}  // namespace tuck::test
