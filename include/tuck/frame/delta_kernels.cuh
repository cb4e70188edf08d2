// Kernels of deltas. The encode kernel XORs values and base as it reads them. Decoders give XOR values to a
// delta_output, which XORs them with the base and writes the tensor.
#pragma once

#include <tuck/frame/decode_kernel.cuh>
#include <tuck/frame/encode_kernel.cuh>

namespace tuck::inline TUCK_ABI {

// What one launch does with a delta: verify frame and base, apply a verified delta, or both at once.
enum class delta_pass { verify, apply, both };

template <class Job, int Threads> class delta_output;

template <codec C, delta_pass Pass> struct decode_delta_job {
  template <int Threads> using output = delta_output<decode_delta_job, Threads>;
  using value = value_t<C>;
  static constexpr delta_pass pass = Pass;

  C codec;
  const std::byte* frame;
  uint64_t frame_capacity;
  value_t<C>* out;
  known_zero first_value;
  uint64_t out_values;
  outcome* result;
  scratch_head* head;
  const value_t<C>* base;  // may be `out`
  uint64_t base_values;
};

// The output of decoders, with the interface of block_output. It gets the words of a chunk with `count` values, which
// begins at value `first` of base and out. A thread reads only those values of the base that it writes itself, so `out`
// may be the base. Members do not repeat what the job has, to save registers.
template <class Job, int Threads> class delta_output {
  using T = typename Job::value;
  using tile = block_tile<T, Threads>;
  using word = typename tile::word;

 public:
  static constexpr bool summed = Job::pass != delta_pass::apply;
  static constexpr bool writes = Job::pass != delta_pass::verify;

  word_sum sums;  // of the XOR values

  __device__ delta_output(const Job& job, delta_digests& all, uint64_t first, uint32_t count)
      : job_(job), all_(all), first_(first), count_(count) {}

  __device__ void operator()(uint32_t first, word x) {
    word b = 0;
#pragma unroll
    for (uint32_t k = 0; k < tile::per_word; ++k)
      if (first + k < count_) b |= static_cast<word>(read(base() + first + k)) << (8 * sizeof(T) * k % 64);
    if constexpr (summed) {
      tile::add_word(sums, x, first);
      tile::add_word(of_base_, b, first);
    }
    if constexpr (writes) {
#pragma unroll
      for (uint32_t k = 0; k < tile::per_word; ++k)
        if (first + k < count_) device::store(out() + first + k, tile::value(x ^ b, static_cast<int>(k)));
    }
  }
  __device__ void operator()(uint32_t first, const device::vec128& x) {
    const device::vec128 one[] = {x};
    (*this)(first, one);
  }
  template <int Rows> __device__ void operator()(uint32_t first, const device::vec128 (&x)[Rows]) {
    // Chunks begin at multiples of 32 values.
    const uintptr_t places =
        reinterpret_cast<uintptr_t>(job_.base) | (writes ? reinterpret_cast<uintptr_t>(job_.out) : 0);
    if (count_ % tile::lane_values == 0 && places % 16 == 0) return apply_rows(first, x);
#pragma unroll
    for (int r = 0; r < Rows; ++r) apply_words(first + static_cast<uint32_t>(r) * tile::row_values, x[r]);
  }

  // The sum of this thread's values of the base.
  __device__ word_sum of_base() const { return of_base_; }
  // Adds a share to the digest of the base. Call it with one thread.
  __device__ void add_base(uint64_t share) const { all_.of_base.get() += share; }
  // Writes zeros for a chunk that cannot be restored.
  __device__ void fill_zeros() const {
    if constexpr (writes)
      for (uint32_t i = threadIdx.x; i < count_; i += Threads) device::store(out() + i, bits_t<T>{0});
  }

 private:
  __device__ const bits_t<T>* base() const { return reinterpret_cast<const bits_t<T>*>(job_.base) + first_; }
  __device__ bits_t<T>* out() const { return reinterpret_cast<bits_t<T>*>(job_.out) + first_; }
  template <class U> __device__ static U read(const U* p) { return writes ? device::load_written(p) : device::load(p); }

  __device__ void apply_words(uint32_t first, const device::vec128& x) {
    uint64_t low = device::join_words(x.w[0], x.w[1]), high = device::join_words(x.w[2], x.w[3]);
#pragma unroll 1
    for (uint32_t k = 0; k < tile::lane_values; k += tile::per_word) {
      (*this)(first + k, static_cast<word>(low));
      low = sizeof(word) == 8 ? high : low >> 32 | high << 32;
      high >>= 32;
    }
  }

  template <int Rows> __device__ void apply_rows(uint32_t first, const device::vec128 (&x)[Rows]) {
    const auto* const from = reinterpret_cast<const device::vec128*>(base() + first);
    auto* const to = reinterpret_cast<device::vec128*>(out() + first);
    const auto apply = [&](int r, const device::vec128& b) {
      device::store(to + r * device::warp_size,
                    device::vec128{{x[r].w[0] ^ b.w[0], x[r].w[1] ^ b.w[1], x[r].w[2] ^ b.w[2], x[r].w[3] ^ b.w[3]}});
    };
    if constexpr (summed) {
      device::vec128 b[Rows];
#pragma unroll
      for (int r = 0; r < Rows; ++r) b[r] = read(from + r * device::warp_size);
      tile::template with_keys<Rows>(first * uint32_t{sizeof(T)} / 4, [&]<int R, int K>(uint32_t key) {
        sums.sum = device::add_product(sums.sum, x[R].w[K], key);
        of_base_.sum = device::add_product(of_base_.sum, b[R].w[K], key);
      });
#pragma unroll
      for (int r = 0; r < Rows; ++r)
        if constexpr (writes) apply(r, b[r]);
    } else {  // in place, rows without changes are neither read nor written
#pragma unroll
      for (int r = 0; r < Rows; ++r)
        if (job_.base != job_.out || (x[r].w[0] | x[r].w[1] | x[r].w[2] | x[r].w[3]) != 0)
          apply(r, read(from + r * device::warp_size));
    }
  }

  const Job& job_;
  delta_digests& all_;
  uint64_t first_;
  uint32_t count_;
  word_sum of_base_;
};

namespace detail {
// Values of the base take registers too: at 5 blocks per processor a thread has 96, at 4 it has 128.
template <class B>
inline constexpr int delta_blocks_of = blocks_a_processor_of<B> > 5 ? 5 : blocks_a_processor_of<B> - 1;
}  // namespace detail

// What one block of a decoding launch does.
template <codec C, int Threads, delta_pass Pass>
__device__ __forceinline__ void run_delta(const decode_delta_job<C, Pass>& job) {
  using decoder = frame_decoder<C, Threads, decode_delta_job<C, Pass>>;
  using storage = typename decoder::TempStorage;
  TUCK_SHARED(storage, temp);
  if constexpr (Pass != delta_pass::apply)
    decoder(temp, job).run();
  else if (device::load(&job.result->code) == status::ok)
    decoder(temp, job).run_verified();
}

inline namespace TUCK_ARCH {

template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::delta_blocks_of<block_codec<C, Threads>>)
    encode_delta_kernel(const __grid_constant__ encode_delta_job<C> job) {
  using encoder = frame_encoder<C, Threads, encode_delta_job<C>>;
  using storage = typename encoder::TempStorage;
  TUCK_SHARED(storage, temp);
  encoder(temp, job).run();
}
template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::delta_blocks_of<block_decoder<C, Threads>>)
    verify_delta_kernel(const __grid_constant__ decode_delta_job<C, delta_pass::verify> job) {
  run_delta<C, Threads>(job);
}
template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::delta_blocks_of<block_decoder<C, Threads>>)
    apply_delta_kernel(const __grid_constant__ decode_delta_job<C, delta_pass::apply> job) {
  run_delta<C, Threads>(job);
}
template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::delta_blocks_of<block_decoder<C, Threads>> - 1)
    decode_delta_kernel(const __grid_constant__ decode_delta_job<C, delta_pass::both> job) {
  run_delta<C, Threads>(job);
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
