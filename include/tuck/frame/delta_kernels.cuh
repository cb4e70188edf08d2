// Decoding deltas: what decoders hand over goes to the values XORed with the base's. The encode kernel reads them so.
#pragma once

#include <tuck/frame/decode_kernel.cuh>

namespace tuck::inline TUCK_ABI {

// What one launch does with a delta: find out whether frame and base are sound, apply what has been found sound, or
// both at once.
enum class delta_pass { verify, apply, both };

template <element T, int Threads, delta_pass Pass> class delta_output;

template <codec C, delta_pass Pass> struct decode_delta_job {
  template <int Threads> using output = delta_output<value_t<C>, Threads, Pass>;
  struct zero {
    __device__ constexpr operator uint64_t() const { return 0; }
  };

  C codec;
  const std::byte* frame;
  uint64_t frame_capacity;
  value_t<C>* out;
  zero first_value;
  uint64_t out_values;
  outcome* result;
  scratch_head* head;
  const value_t<C>* base;  // which may be out
  uint64_t base_values;
};

// What decoders hand words to, as block_output is: the words of a chunk of `count` values whose first has index `first`
// in base and out. A thread reads of the base only what it writes itself, so that out may be the base.
template <element T, int Threads, delta_pass Pass> class delta_output {
  using tile = block_tile<T, Threads>;
  using word = typename tile::word;

 public:
  static constexpr bool summed = Pass != delta_pass::apply;
  static constexpr bool writes = Pass != delta_pass::verify;

  word_sums sums;  // of what is handed over

  template <class Job>
  __device__ delta_output(const Job& job, base_sums& all, uint64_t first, uint32_t count)
      : base_(job.base + first),
        out_(job.out + first),
        first_word_(first * sizeof(T) / 4),
        count_(count),
        whole_(count % tile::lane_values == 0 &&
               (reinterpret_cast<uintptr_t>(base_) | (writes ? reinterpret_cast<uintptr_t>(out_) : 0)) % 16 == 0),
        all_(all) {}

  __device__ void operator()(uint32_t first, word x) {
    word b = 0;
#pragma unroll
    for (uint32_t k = 0; k < tile::per_word; ++k)
      if (first + k < count_) b |= static_cast<word>(read(bits(base_) + first + k)) << (8 * sizeof(T) * k % 64);
    if constexpr (summed) {
      tile::add_word(sums, x, first);
      tile::add_word(base_sums_, b, first_word_ * 4 / sizeof(T) + first);
    }
    if constexpr (writes)
      for (uint32_t k = 0; k < tile::per_word; ++k)
        if (first + k < count_) device::store(bits(out_) + first + k, tile::value(x ^ b, static_cast<int>(k)));
  }
  __device__ void operator()(uint32_t first, const device::vec128& x) {
    const device::vec128 one[] = {x};
    (*this)(first, one);
  }
  template <int Rows> __device__ void operator()(uint32_t first, const device::vec128 (&x)[Rows]) {
    if (whole_) return apply_rows(first, x);
#pragma unroll 1
    for (int r = 0; r < Rows; ++r) {
      uint64_t low = device::join_words(x[r].w[0], x[r].w[1]), high = device::join_words(x[r].w[2], x[r].w[3]);
      const uint32_t begin = first + static_cast<uint32_t>(r) * tile::row_values;
#pragma unroll 1
      for (uint32_t k = 0; k < tile::lane_values; k += tile::per_word) {
        (*this)(begin + k, static_cast<word>(low));
        low = sizeof(word) == 8 ? high : low >> 32 | high << 32;
        high >>= 32;
      }
    }
  }

  // After the last word of the chunk, by whole warps.
  __device__ void finish() {
    if constexpr (summed) all_.add(base_sums_);
  }
  // Of a chunk that could not be restored.
  __device__ void fill_zeros() const {
    if constexpr (writes)
      for (uint32_t i = threadIdx.x; i < count_; i += Threads) device::store(bits(out_) + i, bits_t<T>{0});
  }

 private:
  __device__ static const bits_t<T>* bits(const T* p) { return reinterpret_cast<const bits_t<T>*>(p); }
  __device__ static bits_t<T>* bits(T* p) { return reinterpret_cast<bits_t<T>*>(p); }
  template <class U> __device__ static U read(const U* p) { return writes ? device::load_written(p) : device::load(p); }

  template <int Rows> __device__ void apply_rows(uint32_t first, const device::vec128 (&x)[Rows]) {
    const auto* const from = reinterpret_cast<const device::vec128*>(base_ + first);
    device::vec128 b[Rows];
    bool wanted[Rows];  // what stays as it is need be neither read nor written in place
#pragma unroll
    for (int r = 0; r < Rows; ++r)
      wanted[r] = summed || base_ != out_ || (x[r].w[0] | x[r].w[1] | x[r].w[2] | x[r].w[3]) != 0;
#pragma unroll
    for (int r = 0; r < Rows; ++r)
      if (wanted[r]) b[r] = read(from + r * device::warp_size);
    if constexpr (summed) {
      const uint32_t at = first * uint32_t{sizeof(T)} / 4;
      tile::add_rows(sums, at, x);
      tile::add_rows(base_sums_, first_word_ + at, b);
    }
    if constexpr (writes) {
      auto* const to = reinterpret_cast<device::vec128*>(out_ + first);
#pragma unroll
      for (int r = 0; r < Rows; ++r)
        if (wanted[r])
          device::store(to + r * device::warp_size, device::vec128{{x[r].w[0] ^ b[r].w[0], x[r].w[1] ^ b[r].w[1],
                                                                    x[r].w[2] ^ b[r].w[2], x[r].w[3] ^ b[r].w[3]}});
    }
  }

  const T* base_;
  T* out_;
  uint64_t first_word_;
  uint32_t count_;
  bool whole_;
  base_sums& all_;
  word_sums base_sums_;
};

template <codec C, int Threads, delta_pass Pass>
TUCK_KERNEL void __launch_bounds__(Threads, detail::blocks_a_processor_of<block_decoder<C, Threads>>)
    decode_delta_kernel(const __grid_constant__ decode_delta_job<C, Pass> job) {
  using decoder = frame_decoder<C, Threads, decode_delta_job<C, Pass>>;
  using storage = typename decoder::TempStorage;
  TUCK_SHARED(storage, temp);
  if constexpr (Pass != delta_pass::apply)
    decoder(temp, job).run();
  else if (device::load(&job.result->code) == status::ok)
    decoder(temp, job).run_verified();
}

}  // namespace tuck::inline TUCK_ABI
