// SPDX-License-Identifier: Apache-2.0
// Statistics of a tensor on the device: its share of zeros, for tuck::advisor, and the mean magnitude of its values,
// for tuck::bound_controller.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/frame/device.cuh>

namespace tuck::inline TUCK_ABI {

/// What gather_statistics writes.
struct tensor_statistics {
  uint64_t count = 0;  ///< values that were read
  uint64_t zeros = 0;  ///< values whose bits are all zero, as ZVC counts them
  /// Sum of the magnitudes of finite values; 0 for integers. Each thread sums its 128 bytes of each piece in f32 (f64
  /// values in f64). The result is infinity if such a sum overflows.
  double magnitudes = 0;

  /// Share of zeros, from 0 to 1; 0 if no value was read.
  TUCK_HD double sparsity() const noexcept {
    return count == 0 ? 0 : static_cast<double>(zeros) / static_cast<double>(count);
  }
  /// Mean magnitude; values that are not finite count as 0. 0 if no value was read.
  TUCK_HD double mean_magnitude() const noexcept { return count == 0 ? 0 : magnitudes / static_cast<double>(count); }
};

/// How gather_statistics samples.
struct statistics_options {
  uint32_t sample_every = 1;  ///< read 1 of every N pieces of 16 KiB; 0 counts as 1
};

inline constexpr unsigned most_statistics_blocks = 1024;  ///< maximum number of blocks of a launch
inline constexpr uint64_t statistics_scratch_bytes =
    scratch_head_bytes + most_statistics_blocks * sizeof(tensor_statistics);  ///< scratch of gather_statistics

namespace detail {

template <element T> struct statistics_job {
  const T* values;  // aligned to a word of block_tile
  uint64_t count;
  uint64_t pieces;  // one in `every` is read
  uint32_t every;
  tensor_statistics* partial;  // one per block
  tensor_statistics* whole;
  scratch_head* head;
};

// Sums over the threads of a block, always in the same order. Returns the result to thread 0.
template <int Threads> struct block_statistics {
  struct TempStorage {
    device::uninitialized<tensor_statistics> of_warp[Threads / device::warp_size];
  };

  __device__ static tensor_statistics sum(TempStorage& temp, tensor_statistics s) {
    s.count = device::warp_sum(s.count);
    s.zeros = device::warp_sum(s.zeros);
    for (int lanes = device::warp_size / 2; lanes > 0; lanes /= 2)
      s.magnitudes = exact::add(s.magnitudes, device::shfl_xor(s.magnitudes, lanes));
    if (device::lane_id() == 0) temp.of_warp[device::warp_id()].get() = s;
    device::sync_block();
    s = {};
    if (threadIdx.x != 0) return s;
#pragma unroll 1
    for (auto& warp : temp.of_warp) add(s, warp.get());
    return s;
  }
  __device__ static void add(tensor_statistics& to, const tensor_statistics& s) {
    to.count += s.count;
    to.zeros += s.zeros;
    to.magnitudes = exact::add(to.magnitudes, s.magnitudes);
  }
};

// Returns the piece that is read of the `every` pieces from `first` on. A hash chooses it, so that periodic tensors are
// sampled well. A plain product would choose pieces at equal distances.
TUCK_HD inline uint64_t sampled_piece(uint64_t first, uint32_t every, uint64_t pieces) noexcept {
  const uint64_t hash = mix((first + 1) * 0x9e3779b97f4a7c15);
  const uint64_t left = pieces - first < every ? pieces - first : every;
  return first + (hash >> 32) * left / (uint64_t{1} << 32);  // both factors have 32 bits; so it is below first + left
}

inline namespace TUCK_ARCH {

template <element T, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::blocks_with(64))
    statistics_kernel(const __grid_constant__ statistics_job<T> job) {
  using tile = block_tile<T, Threads>;
  using of_block = block_statistics<Threads>;
  using storage = typename of_block::TempStorage;
  TUCK_SHARED(storage, temp);
  TUCK_SHARED(bool, last);
  tensor_statistics mine;
  uint64_t looked_at = 0;
  uint64_t nonzeros = 0;
  for (uint64_t first = uint64_t{blockIdx.x} * job.every; first < job.pieces;
       first += uint64_t{gridDim.x} * job.every) {
    const uint64_t begin = sampled_piece(first, job.every, job.pieces) * tile::capacity;
    // A sampled piece is one of `pieces`, so it begins before the tensor's end.
    const uint64_t left = job.count - begin;
    tile values;  // zero past the tensor's end
    values.load(job.values + begin, left < tile::capacity ? static_cast<uint32_t>(left) : tile::capacity);
    looked_at += values.count;
    uint32_t of_piece = 0;
    [[maybe_unused]] float magnitudes = 0;
#pragma unroll
    for (int j = 0; j < tile::words; ++j)
#pragma unroll
      for (int k = 0; k < tile::per_word; ++k) {
        const bits_t<T> x = tile::value(values.w[j], k);
        of_piece += x != 0;
        if constexpr (floating_element<T>) {
          using format = float_format<T>;
          const bits_t<T> magnitude = format::magnitude(x);
          const auto real = magnitude < format::infinity ? format::widen(magnitude) : typename format::real{0};
          if constexpr (sizeof(T) == 8)
            mine.magnitudes = exact::add(mine.magnitudes, real);
          else
            magnitudes = exact::add(magnitudes, real);
        }
      }
    nonzeros += of_piece;
    if constexpr (floating_element<T> && sizeof(T) < 8)
      mine.magnitudes = exact::add(mine.magnitudes, static_cast<double>(magnitudes));
  }
  mine.zeros = nonzeros;
  mine = of_block::sum(temp, mine);
  if (threadIdx.x == 0) {
    mine.count = looked_at;  // each thread has counted all values of the block
    mine.zeros = mine.count - mine.zeros;
    job.partial[blockIdx.x] = mine;  // the launch has at most most_statistics_blocks
    last = finish_shares(*job.head, 1, gridDim.x);
  }
  device::sync_block();
  if (!last) return;
  mine = {};
  for (uint32_t i = threadIdx.x; i < gridDim.x; i += Threads) {
    of_block::add(mine, job.partial[i]);
    job.partial[i] = {};  // other calls have the states of chunks there
  }
  mine = of_block::sum(temp, mine);
  if (threadIdx.x != 0) return;
  *job.whole = mine;
  reset(*job.head, device::load_relaxed(&job.head->epoch));
}

}  // namespace TUCK_ARCH
}  // namespace detail

inline namespace TUCK_ARCH {

/// Counts zeros and sums magnitudes of `values`, in one pass over the tensor or over a sample of it. Asynchronous on
/// `stream`: one launch, capturable. The same values on the same GPU with the same options give the same bits. With a
/// sample of n pieces, the standard error of the share of zeros is s / sqrt(n), where s is the standard deviation of
/// the share between pieces.
///
/// @param values   device memory, aligned as for encode
/// @param seen     device memory; receives the statistics
/// @param scratch  statistics_scratch_bytes, aligned to 16, initialized once
/// @return invalid_argument, misaligned, scratch_too_small or a CUDA error
template <element T>
result gather_statistics(span<const T> values, tensor_statistics* seen, scratch_span scratch, cudaStream_t stream,
                         const statistics_options& options = {}, const launch_options& how = {}) noexcept {
  using tile = block_tile<T, block_threads>;
  const detail::profiler_range range("gather_statistics", stage_list(), dtype_of<T>);
  if (seen == nullptr || values.is_null()) return {status::invalid_argument};
  if (!tuck::aligned(values.data(), sizeof(typename tile::word)) || !tuck::aligned(seen, alignof(tensor_statistics)))
    return {status::misaligned};
  if (const status s = scratch.check(statistics_scratch_bytes); s != status::ok) return {s};
  auto* const head = reinterpret_cast<scratch_head*>(scratch.memory().data());
  auto* const partial = reinterpret_cast<tensor_statistics*>(head + 1);
  const uint64_t pieces = ceil_div(values.size(), uint64_t{tile::capacity});
  const uint32_t every = (std::max)(options.sample_every, 1u);
  const uint64_t useful = std::min<uint64_t>(ceil_div(pieces, uint64_t{every}), most_statistics_blocks);
  const detail::statistics_job<T> job{values.data(), values.size(), pieces, every, partial, seen, head};
  return detail::launch(detail::statistics_kernel<T, block_threads>, job, useful, how, stream);
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
