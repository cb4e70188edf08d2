// Each function of core/device.cuh against plain C++: bits, warps, blocks, vectors of 16 bytes, and what blocks tell
// each other through memory.
#include "support/device_memory.hpp"

#include <array>
#include <bit>
#include <numeric>
#include <random>

namespace tuck::test {
namespace {

constexpr uint32_t threads = 256, blocks = 3, total = threads * blocks;

std::vector<uint32_t> random_words(std::size_t n, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<uint32_t> all(n);
  for (std::size_t i = 0; i < n; ++i) all[i] = i % 7 == 0 ? 0u : i % 11 == 0 ? ~0u : static_cast<uint32_t>(generator());
  return all;
}

// Runs Op::run(words in, thread) on each thread; what it returns comes back.
template <class Op> __global__ void __launch_bounds__(threads) apply_kernel(const uint32_t* in, uint32_t* out) {
  const uint32_t i = blockIdx.x * threads + threadIdx.x;
  out[i] = Op::run(in, i);
}

template <class Op, class Expected> void expect_everywhere(const Expected& expected) {
  for_schedules(4, [&] {
    const device_stream stream;
    const auto in = random_words(3 * total, 5);
    const device_array<uint32_t> from(in, stream), to(total);
    launch_on(stream, blocks, threads, apply_kernel<Op>, static_cast<const uint32_t*>(from.data()), to.data());
    const auto out = to.download(stream);
    for (uint32_t i = 0; i < total; ++i) ASSERT_EQ(out[i], expected(in, i)) << "thread " << i;
  });
}

// --- bits ------------------------------------------------------------------------------------------------------------

struct funnel {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) {
    return device::funnel_shift_right(in[i], in[total + i], in[2 * total + i]);
  }
};
TEST(device_functions, funnel_shift_right) {
  expect_everywhere<funnel>([](const auto& in, uint32_t i) {
    const uint64_t both = uint64_t{in[total + i]} << 32 | in[i];
    return static_cast<uint32_t>(both >> (in[2 * total + i] % 32));
  });
}

struct fixed_perm {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) {
    return device::byte_perm<0x7140>(in[i], in[total + i]);
  }
};
TEST(device_functions, byte_perm_by_a_constant) {
  expect_everywhere<fixed_perm>([](const auto& in, uint32_t i) {
    const uint32_t a = in[i], b = in[total + i];
    return (a & 255) | (b & 255) << 8 | (a >> 8 & 255) << 16 | (b >> 24) << 24;
  });
}

struct signs {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) {
    return device::byte_signs<0x7140>(in[i], in[total + i]) ^ select_bits<uint32_t>(in[2 * total + i], in[i], ~in[i]);
  }
};
TEST(device_functions, byte_signs_and_select_bits) {
  expect_everywhere<signs>([](const auto& in, uint32_t i) {
    const uint32_t bytes[] = {in[i], in[total + i], in[i] >> 8, in[total + i] >> 24};
    uint32_t spread = 0;
    for (uint32_t k = 0; k < 4; ++k)
      if ((bytes[k] & 128) != 0) spread |= 255u << 8 * k;
    return spread ^ ((in[i] & in[2 * total + i]) | (~in[i] & ~in[2 * total + i]));
  });
}

struct perm {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) {
    return device::byte_perm(in[i], in[total + i], in[2 * total + i] & 0x7777);
  }
};
TEST(device_functions, byte_perm) {
  expect_everywhere<perm>([](const auto& in, uint32_t i) {
    const uint64_t both = uint64_t{in[total + i]} << 32 | in[i];
    uint32_t r = 0;
    for (uint32_t k = 0; k < 4; ++k)
      r |= static_cast<uint32_t>(both >> (8 * (in[2 * total + i] >> (4 * k) & 7)) & 255) << (8 * k);
    return r;
  });
}

template <class Op> struct pairs {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) { return Op::of(in[i], in[total + i]); }
};
struct least {
  __device__ static uint32_t of(uint32_t a, uint32_t b) { return device::least_pair(a, b); }
};
struct most {
  __device__ static uint32_t of(uint32_t a, uint32_t b) { return device::most_pair(a, b); }
};
struct sum {
  __device__ static uint32_t of(uint32_t a, uint32_t b) { return device::add_pair(a, b); }
};
struct non_zero_halves {  // of a word that often has a half of zeros
  __device__ static uint32_t of(uint32_t a, uint32_t b) {
    return device::non_zero_pair(a & (b << 16 | (b & 0x8000u ? 0xffffu : 0)));
  }
};
template <class Op, class Of> void expect_pairs(const Of& of) {
  expect_everywhere<pairs<Op>>([&](const auto& in, uint32_t i) {
    const auto half = [&](int k) {
      const auto a = static_cast<int16_t>(in[i] >> 16 * k), b = static_cast<int16_t>(in[total + i] >> 16 * k);
      return uint32_t{static_cast<uint16_t>(of(a, b))};
    };
    return half(1) << 16 | half(0);
  });
}
TEST(device_functions, pairs_of_16_bits) {
  expect_pairs<least>([](int16_t a, int16_t b) { return std::min(a, b); });
  expect_pairs<most>([](int16_t a, int16_t b) { return std::max(a, b); });
  expect_pairs<sum>([](int16_t a, int16_t b) { return a + b; });
  expect_everywhere<pairs<non_zero_halves>>([](const auto& in, uint32_t i) {
    const uint32_t b = in[total + i], x = in[i] & (b << 16 | (b & 0x8000u ? 0xffffu : 0));
    return ((x & 0xffffu) != 0 ? 1u : 0) | (x >> 16 != 0 ? 0x10000u : 0);
  });
}

struct products {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) {
    const uint32_t a = in[i], b = in[total + i], c = in[2 * total + i], four[4] = {a, b, c, a ^ c};
    return device::dot4(a, b, c) ^ device::xor_masked(c, a, b) ^ device::or_differences<0x4b400000>(b, four) ^
           device::or_differences<0>(0, {a & 2, c & 4, c & 8, c & 16});
  }
};
TEST(device_functions, dot_products_and_masks) {
  expect_everywhere<products>([](const auto& in, uint32_t i) {
    const uint32_t a = in[i], b = in[total + i], c = in[2 * total + i];
    uint32_t dot = c;
    for (uint32_t k = 0; k < 32; k += 8) dot += (a >> k & 255) * (b >> k & 255);
    const uint32_t k = 0x4b400000, differences = b | (a ^ k) | (c ^ k) | (b ^ k) | (a ^ c ^ k);
    return dot ^ c ^ (a & b) ^ differences ^ ((a & 2) | (c & 28));
  });
}

struct counts {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) {
    return popcount(in[i]) + 64 * static_cast<uint32_t>(device::ffs(in[i])) + 4096 * tuck::bit_width(in[i]);
  }
};
TEST(device_functions, popcount_ffs_and_bit_width) {
  expect_everywhere<counts>([](const auto& in, uint32_t i) {
    const int first = in[i] == 0 ? 0 : std::countr_zero(in[i]) + 1;
    return static_cast<uint32_t>(std::popcount(in[i]) + 64 * first) + 4096 * uint32_t(std::bit_width(in[i]));
  });
}

// --- warps -----------------------------------------------------------------------------------------------------------

template <int lanes> struct up {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) { return device::shfl_up(in[i], lanes); }
};
template <int lanes> struct down {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) { return device::shfl_down(in[i], lanes); }
};
template <int lanes> struct across {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) { return device::shfl_xor(in[i], lanes); }
};
struct from_lane {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) {
    return device::shfl(in[i], static_cast<int>((i * 5 + 3) % 32));
  }
};
TEST(device_functions, shuffles) {
  expect_everywhere<up<1>>([](const auto& in, uint32_t i) { return in[i % 32 < 1 ? i : i - 1]; });
  expect_everywhere<up<7>>([](const auto& in, uint32_t i) { return in[i % 32 < 7 ? i : i - 7]; });
  expect_everywhere<down<3>>([](const auto& in, uint32_t i) { return in[i % 32 + 3 > 31 ? i : i + 3]; });
  expect_everywhere<across<5>>([](const auto& in, uint32_t i) { return in[i ^ 5]; });
  expect_everywhere<from_lane>([](const auto& in, uint32_t i) { return in[i / 32 * 32 + (i * 5 + 3) % 32]; });
}

struct votes {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) {
    const uint32_t odd = device::ballot((in[i] & 1) != 0);
    const bool any = device::any(in[i] == ~0u), all = device::all(in[i] != 1);
    return odd ^ (any ? 0x10000u : 0) ^ (all ? 0x20000u : 0);
  }
};
// Of all values, by what the warps know of them.
template <class Fold>
uint32_t over_warp(const std::vector<uint32_t>& in, uint32_t i, uint32_t start, const Fold& fold) {
  const auto first = in.begin() + i / 32 * 32;
  return std::accumulate(first, first + 32, start, fold);
}
TEST(device_functions, votes) {
  expect_everywhere<votes>([](const auto& in, uint32_t i) {
    uint32_t odd = 0;
    bool any = false, all = true;
    for (uint32_t l = 0; l < 32; ++l) {
      const uint32_t v = in[i / 32 * 32 + l];
      odd |= (v & 1) << l;
      any = any || v == ~0u;
      all = all && v != 1;
    }
    return odd ^ (any ? 0x10000u : 0) ^ (all ? 0x20000u : 0);
  });
}

struct sum_of_warp {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) { return device::warp_sum(in[i]); }
};
struct max_of_warp {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) { return device::warp_max(in[i]); }
};
struct min_of_warp {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) { return device::warp_min(in[i] | 1u); }
};
struct or_of_warp {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) { return device::warp_or(in[i] & 1u << i % 32); }
};
struct wide_sum_of_warp {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) {
    return static_cast<uint32_t>(device::warp_sum(uint64_t{in[i]} << 16) >> 16);
  }
};
struct running_sum {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) { return device::warp_inclusive_sum(in[i]); }
};
struct uniform {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) { return device::load_uniform(in + i / 32); }
};
TEST(device_functions, reductions) {
  expect_everywhere<sum_of_warp>([](const auto& in, uint32_t i) { return over_warp(in, i, 0, std::plus<uint32_t>()); });
  expect_everywhere<max_of_warp>([](const auto& in, uint32_t i) {
    return over_warp(in, i, 0, [](uint32_t a, uint32_t b) { return std::max(a, b); });
  });
  expect_everywhere<min_of_warp>([](const auto& in, uint32_t i) {
    return over_warp(in, i, ~0u, [](uint32_t a, uint32_t b) { return std::min(a, b | 1u); });
  });
  expect_everywhere<or_of_warp>([](const auto& in, uint32_t i) {
    uint32_t r = 0;
    for (uint32_t l = 0; l < 32; ++l) r |= in[i / 32 * 32 + l] & 1u << l;
    return r;
  });
  expect_everywhere<wide_sum_of_warp>([](const auto& in, uint32_t i) {
    uint64_t r = 0;
    for (uint32_t l = 0; l < 32; ++l) r += uint64_t{in[i / 32 * 32 + l]} << 16;
    return static_cast<uint32_t>(r >> 16);
  });
  expect_everywhere<running_sum>(
      [](const auto& in, uint32_t i) { return std::accumulate(in.begin() + i / 32 * 32, in.begin() + i + 1, 0u); });
  expect_everywhere<uniform>([](const auto& in, uint32_t i) { return in[i / 32]; });
}

// --- blocks ----------------------------------------------------------------------------------------------------------

template <class T> struct scan_of_block {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) {
    TUCK_SHARED(typename device::block_scan<threads>::TempStorage, storage);
    T all = 0;
    const T before = device::block_scan<threads>::exclusive_sum(storage, static_cast<T>(in[i]), all);
    return static_cast<uint32_t>(before ^ (all << 1));
  }
};
template <class T> uint32_t scanned(const std::vector<uint32_t>& in, uint32_t i) {
  const auto first = in.begin() + i / threads * threads;
  const T before = std::accumulate(first, in.begin() + i, T{0}), all = std::accumulate(first, first + threads, T{0});
  return static_cast<uint32_t>(before ^ (all << 1));
}
TEST(device_functions, block_scan) {
  expect_everywhere<scan_of_block<uint32_t>>(scanned<uint32_t>);
  expect_everywhere<scan_of_block<uint64_t>>(scanned<uint64_t>);
}

struct any_of_block {
  __device__ static uint32_t run(const uint32_t* in, uint32_t i) {
    const bool first = device::sync_block_or(in[i] == 0x12345678u), second = device::sync_block_or(i == 300);
    return (first ? 1u : 0u) + (second ? 2u : 0u);
  }
};
TEST(device_functions, sync_block_or) {
  expect_everywhere<any_of_block>([](const auto&, uint32_t i) { return i / threads == 1 ? 2u : 0u; });
}

// --- memory ----------------------------------------------------------------------------------------------------------

template <class T> __global__ void __launch_bounds__(threads) copy_kernel(const T* in, T* out) {
  const uint32_t i = blockIdx.x * threads + threadIdx.x;
  device::store(out + i, device::load(in + i));
}
template <class T> void expect_copied() {
  const device_stream stream;
  const auto words = random_words(total * sizeof(T) / 4, 9);
  const device_array<uint32_t> from(words, stream), to(words.size());
  launch_on(stream, blocks, threads, copy_kernel<T>, reinterpret_cast<const T*>(from.data()),
            reinterpret_cast<T*>(to.data()));
  EXPECT_EQ(to.download(stream), words);
}
TEST(device_functions, load_and_store) {
  expect_copied<uint8_t>();
  expect_copied<uint16_t>();
  expect_copied<uint32_t>();
  expect_copied<uint64_t>();
  expect_copied<device::vec128>();
}

__global__ void __launch_bounds__(threads) atomics_kernel(uint32_t* words, uint64_t* wide) {
  const uint32_t i = blockIdx.x * threads + threadIdx.x;
  device::atomic_add(words, i);
  device::atomic_max(words + 1, i * 2654435761u);
  device::atomic_min(words + 2, i * 2654435761u);
  device::atomic_or(words + 3, 1u << i % 29);
  device::atomic_add(wide, uint64_t{i} << 32);
  device::atomic_max(wide + 1, uint64_t{i} << 33);
}
TEST(device_functions, atomics) {
  const device_stream stream;
  const device_array<uint32_t> words({0, 0, ~0u, 0}, stream);
  const device_array<uint64_t> wide({0, 0}, stream);
  launch_on(stream, blocks, threads, atomics_kernel, words.data(), wide.data());
  uint32_t most = 0, least = ~0u, sum = 0;
  for (uint32_t i = 0; i < total; ++i) {
    most = std::max(most, i * 2654435761u);
    least = std::min(least, i * 2654435761u);
    sum += i;
  }
  EXPECT_EQ(words.download(stream), (std::vector<uint32_t>{sum, most, least, (1u << 29) - 1}));
  EXPECT_EQ(wide.download(stream), (std::vector<uint64_t>{uint64_t{sum} << 32, uint64_t{total - 1} << 33}));
}

// A chain of blocks: each waits for the one before, reads what that wrote, and hands on one more of everything. Blocks
// are numbered as they start, so that each waits for one that runs.
constexpr uint32_t links = 6;
__global__ void __launch_bounds__(threads) chain_kernel(uint32_t* ticket, uint64_t* flags, uint32_t* data) {
  TUCK_SHARED(uint32_t, number);
  if (threadIdx.x == 0) number = device::atomic_add(ticket, 1u);
  device::sync_block();
  const uint32_t mine = number;
  if (mine != 0) {
    if (threadIdx.x == 0)
      while (device::load_acquire(flags + mine - 1) == 0) device::backoff(20);
    device::sync_block();
    data[mine * threads + threadIdx.x] = device::load_written(data + (mine - 1) * threads + (threadIdx.x ^ 77)) + 1;
  } else {
    data[threadIdx.x] = 1000;
  }
  device::sync_block();
  if (threadIdx.x == 0) device::store_release(flags + mine, uint64_t{1});
}
TEST(device_functions, release_and_acquire) {
  for_schedules(40, [&] {
    const device_stream stream;
    const device_array<uint32_t> ticket(std::vector<uint32_t>(1), stream);
    const device_array<uint64_t> flags(std::vector<uint64_t>(links), stream);
    const device_array<uint32_t> data(std::vector<uint32_t>(links * threads), stream);
    launch_on(stream, links, threads, chain_kernel, ticket.data(), flags.data(), data.data());
    const auto out = data.download(stream);
    for (uint32_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], 1000 + i / threads) << i;
  });
}

// Whoever counts last sees what all the others did before they counted.
__global__ void __launch_bounds__(threads)
    last_kernel(uint32_t* counter, const uint32_t* in, uint32_t* parts, uint32_t* sum) {
  TUCK_SHARED(uint32_t, position);
  parts[blockIdx.x * threads + threadIdx.x] = in[blockIdx.x * threads + threadIdx.x];
  device::sync_block();
  if (threadIdx.x == 0) position = device::atomic_add_acq_rel(counter, 1);
  device::sync_block();
  if (position != gridDim.x - 1) return;
  uint32_t mine = 0;
  for (uint32_t b = 0; b < gridDim.x; ++b) mine += device::load_written(parts + b * threads + threadIdx.x);
  sum[threadIdx.x] = mine;
}
TEST(device_functions, atomic_count_acq_rel) {
  for_schedules(20, [&] {
    const device_stream stream;
    const auto values = random_words(links * threads, 11);
    const device_array<uint32_t> counter(std::vector<uint32_t>(1), stream), in(values, stream);
    const device_array<uint32_t> parts(std::vector<uint32_t>(links * threads), stream), sum(threads);
    launch_on(stream, links, threads, last_kernel, counter.data(), static_cast<const uint32_t*>(in.data()),
              parts.data(), sum.data());
    const auto out = sum.download(stream);
    for (uint32_t t = 0; t < threads; ++t) {
      uint32_t expected = 0;
      for (uint32_t b = 0; b < links; ++b) expected += values[b * threads + t];
      ASSERT_EQ(out[t], expected) << t;
    }
  });
}

}  // namespace
}  // namespace tuck::test
