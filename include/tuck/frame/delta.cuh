// SPDX-License-Identifier: Apache-2.0
// Deltas on a CUDA stream. A delta is a tensor encoded relative to a base, and is decoded with that base, also in
// place. A batch of deltas is encoded in one launch and decoded in two. What frame/device.cuh and frame/batch.cuh say
// about calls holds here too.
//
// The encode kernel XORs values and base as it reads them. Decoders give XOR values to a delta_output, which XORs them
// with the base and writes the tensor.
#pragma once

#include <tuck/frame/batch.cuh>

namespace tuck::inline TUCK_ABI {

/// @cond
// What one launch does with a delta: verify frame and base, apply a verified delta, or both at once.
enum class delta_pass { verify, apply, both };

template <class Job, int Threads> class delta_output;

template <codec C, delta_pass Pass> struct decode_delta_job : decode_job<C, known_zero> {
  template <int Threads> using output = delta_output<decode_delta_job, Threads>;
  using item = decode_delta_item<value_t<C>>;
  using value = value_t<C>;
  static constexpr bool writes = Pass != delta_pass::verify, verified = Pass == delta_pass::apply;

  const value_t<C>* base;  // may be `out`
  uint64_t base_values;
};

// The output of decoders, with the interface of block_output. It gets the values of a chunk with `count` values, which
// begins at value `first` of base and out. A thread reads only those values of the base that it writes itself, so `out`
// may be the base. Members do not repeat what the job has, to save registers.
template <class Job, int Threads> class delta_output {
  using T = typename Job::value;
  using tile = block_tile<T, Threads>;
  using word = typename tile::word;

 public:
  static constexpr bool summed = !Job::verified, writes = Job::writes;

  word_sum sums;  // of the XOR values

  __device__ delta_output(const Job& job, delta_digests& all, uint64_t first, uint32_t count)
      : job_(job), all_(all), first_(first), count_(count) {}

  __device__ void operator()(uint32_t first, const device::vec128& x) {
    const device::vec128 one[] = {x};
    (*this)(first, one);
  }
  template <int Rows> __device__ void operator()(uint32_t first, const device::vec128 (&x)[Rows]) {
    // Chunks begin at multiples of 32 values.
    const uintptr_t addresses =
        reinterpret_cast<uintptr_t>(job_.base) | (writes ? reinterpret_cast<uintptr_t>(job_.out) : 0);
    if (count_ % tile::lane_values == 0 && addresses % 16 == 0) return apply_rows(first, x);
#pragma unroll
    for (int r = 0; r < Rows; ++r) apply_words(first + static_cast<uint32_t>(r) * tile::row_values, x[r]);
  }

  // Bytes of the chunk's values.
  __device__ uint64_t bytes() const { return count_ * uint64_t{sizeof(T)}; }
  // The values of the base.
  __device__ const T* base_of_chunk() const { return job_.base + first_; }
  // The sum of this thread's values of the base.
  __device__ word_sum of_base() const { return of_base_; }
  // Returns the sum of a part of the base, for a chunk whose values did not all come.
  __device__ word_sum sum_base() const {
    word_sum sum;
#pragma unroll 1
    for (uint32_t first = tile::per_word * threadIdx.x; first < count_; first += tile::per_word * Threads) {
      word b = 0;
#pragma unroll
      for (uint32_t k = 0; k < tile::per_word; ++k)
        if (first + k < count_) b |= static_cast<word>(read(base() + first + k)) << (8 * sizeof(T) * k % 64);
      tile::add_word(sum, b, first);
    }
    return sum;
  }
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

  __device__ void apply_word(uint32_t first, word x) {
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
  __device__ void apply_words(uint32_t first, const device::vec128& x) {
    uint64_t low = device::join_words(x.w[0], x.w[1]), high = device::join_words(x.w[2], x.w[3]);
#pragma unroll 1
    for (uint32_t k = 0; k < tile::lane_values; k += tile::per_word) {
      apply_word(first + k, static_cast<word>(low));
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
// Calls run(pass) for the one launch of a decoding call, or for both. `pass` is a constant.
template <class Run> result run_delta_passes(const delta_options& options, const Run& run) noexcept {
  using enum delta_pass;
  if (options.chunk_by_chunk) {
    if (options.passes != delta_passes::both) return {status::invalid_argument};
    return run(std::integral_constant<delta_pass, both>{});
  }
  if (options.passes != delta_passes::write) {
    const result verified = run(std::integral_constant<delta_pass, verify>{});
    if (!verified || options.passes == delta_passes::verify) return verified;
  }
  return run(std::integral_constant<delta_pass, apply>{});
}
}  // namespace detail

/// @endcond

inline namespace TUCK_ARCH {

/// Encodes `values` relative to `base`. The bytes are those that host::encode_delta writes. Asynchronous on `stream`:
/// one launch, which reads values and base once. They must not change until the launch is done.
///
/// @param codec    a codec for which supports_deltas is true: lossless and not adaptive
/// @param base     as many values as `values`; device memory, aligned to 4 bytes (8 for 8-byte values)
/// @param frame    max_delta_bytes(codec, values.size(), options) bytes are always enough
/// @param scratch  scratch_bytes(codec, values.size(), options) bytes, aligned to 16, initialized once
/// @param written  as for encode. If the outcome is output_too_small, `frame` holds no frame
/// @return the errors of encode; lossy_delta if the codec cannot encode deltas; wrong_base if the base has another
///         number of values. After an error that is returned, nothing is written
template <codec C>
result encode_delta(const C& codec, span<const value_t<C>> values, span<const value_t<C>> base, bytes frame,
                    scratch_span scratch, outcome* written, cudaStream_t stream, frame_options options = {},
                    const launch_options& how = {}) noexcept {
  if constexpr (!supports_deltas<C>) {
    return {status::lossy_delta};
  } else {
    options.checksums = true;
    if (base.is_null()) return {status::invalid_argument};
    if (base.size() != values.size()) return {status::wrong_base};
    if (!tuck::aligned(base.data(), sizeof(typename block_tile<value_t<C>, block_threads>::word)))
      return {status::misaligned};
    encode_delta_job<by_width<C>> job{};
    job.base = detail::by_width_of<C>(base.data());
    return detail::encode(job, codec, values, frame, scratch, written, stream, options, how);
  }
}

/// Encodes a delta with a codec that was chosen at run time.
/// @param values  the bytes of whole elements of the codec's type, else invalid_argument
/// @param base    as many bytes
/// @return as for a known codec; unknown_codec if none was chosen
template <codec... Cs>
result encode_delta(const any_codec<codec_list<Cs...>>& codec, const_bytes values, const_bytes base, bytes frame,
                    scratch_span scratch, outcome* written, cudaStream_t stream, const frame_options& options = {},
                    const launch_options& how = {}) noexcept {
  result answer;
  const status found = codec.visit(values, base, [&](const auto& chosen, auto elements, auto of_base) {
    answer = tuck::encode_delta(chosen, elements, of_base, frame, scratch, written, stream, codec.typed(options), how);
  });
  return found == status::ok ? answer : result{found};
}

/// Encodes the values of each item relative to its base. The frames are those that encode_delta writes. Outcome i is
/// what encode_delta writes or returns for item i. Arguments and errors are those of encode_batch, and lossy_delta.
/// Bases need the same alignment as values.
template <codec C>
result encode_delta_batch(const C& codec, span<const encode_delta_item<value_t<C>>> items, const batch_sizes& sizes,
                          scratch_span scratch, span<outcome> outcomes, cudaStream_t stream, frame_options options = {},
                          const launch_options& how = {}) noexcept {
  if constexpr (!supports_deltas<C>) {
    return {status::lossy_delta};
  } else {
    options.checksums = true;
    return detail::encode_batch<encode_delta_job<by_width<C>>>(codec, items, sizes, scratch, outcomes, stream, options,
                                                               how);
  }
}

/// Encodes each item relative to its base, with a codec that was chosen at run time.
/// @return as for a known codec; unknown_codec if none was chosen; type_mismatch if it takes values of another type
template <codec... Cs, element T>
result encode_delta_batch(const any_codec<codec_list<Cs...>>& codec, span<const encode_delta_item<T>> items,
                          const batch_sizes& sizes, scratch_span scratch, span<outcome> outcomes, cudaStream_t stream,
                          const frame_options& options = {}, const launch_options& how = {}) noexcept {
  result answer;
  const status found = codec.template visit_as<T>([&](const auto& chosen) {
    answer = tuck::encode_delta_batch(chosen, items, sizes, scratch, outcomes, stream, codec.typed(options), how);
  });
  return found == status::ok ? answer : result{found};
}

/// Restores the tensor of a delta from its base. Other arguments and outcomes are those of decode and
/// host::decode_delta. Asynchronous, two launches. The first verifies frame and base and writes `*restored`. If that is
/// ok, the second writes `out`. The frame, and a base other than `out`, must not change until the second launch is
/// done.
///
/// With `chunk_by_chunk` there is one launch. `out` does not change if the frame is truncated, or if its header is
/// damaged or does not fit the call. Otherwise all of `out` is written, and damaged chunks become zeros. Two errors are
/// found only at the end (on the host before, without changes). bad_directory: all of `out` becomes zeros. A base with
/// a wrong digest: the outcome is wrong_base, or that of a damaged chunk, and `out` is wrong.
///
/// @param base  device memory, aligned to sizeof(value). The call is faster if `base` and `out` are aligned to 16 bytes
/// @param out   as many values as the frame. It may be `base` itself; otherwise they must not overlap
/// @return the errors of decode; lossy_delta. After an error that is returned, `out` does not change. If only the
///         second launch fails, `*restored` may still become ok: rely on the returned error
template <codec C>
result decode_delta(const C& codec, const_bytes frame, span<const value_t<C>> base, span<value_t<C>> out,
                    scratch_span scratch, outcome* restored, cudaStream_t stream, const delta_options& options = {},
                    const launch_options& how = {}) noexcept {
  if constexpr (!supports_deltas<C>) {
    return {status::lossy_delta};
  } else {
    if (base.is_null()) return {status::invalid_argument};
    if (!tuck::aligned(base.data(), sizeof(value_t<C>))) return {status::misaligned};
    return detail::run_delta_passes(options, [&](auto pass) {
      decode_delta_job<by_width<C>, pass> job{};
      job.base = detail::by_width_of<C>(base.data());
      job.base_values = base.size();
      return detail::decode(job, codec, frame, out, scratch, restored, stream, how);
    });
  }
}

/// Restores the values of each item from its frame and its base. Two launches: the first verifies all items, the second
/// writes the items that are valid. Outcome i is what decode_delta writes or returns for item i. Unless it is ok, no
/// value of item i is written. A failed item does not affect other items. With `chunk_by_chunk` there is one launch,
/// which writes what decode_delta writes with this option.
///
/// To restore all items or none, call it with delta_passes::verify, check all outcomes on the host, then call it with
/// delta_passes::write.
///
/// @param items  the values of an item may be its base itself; otherwise they must not overlap anything. Kernels do not
///               check this: they read the items when they run, and to compare each with each would take long.
///               delta_writers finds overlaps, and the same values twice, in a copy of the items on the host. Leave out
///               an item whose writer is another one: host::decode_delta_batch does the same
/// @return the errors of decode_batch; lossy_delta. After an error no values are written
template <codec C>
result decode_delta_batch(const C& codec, span<const decode_delta_item<value_t<C>>> items, const batch_sizes& sizes,
                          scratch_span scratch, span<outcome> outcomes, cudaStream_t stream,
                          const delta_options& options = {}, const launch_options& how = {}) noexcept {
  if constexpr (!supports_deltas<C>) {
    return {status::lossy_delta};
  } else {
    return detail::run_delta_passes(options, [&](auto pass) {
      return detail::decode_batch<decode_delta_job<by_width<C>, pass>>(codec, items, sizes, scratch, outcomes, stream,
                                                                       how);
    });
  }
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
