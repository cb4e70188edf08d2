// SPDX-License-Identifier: Apache-2.0
// Frames on a CUDA stream.
//
// decode launches one kernel. encode, append and encoded_bytes launch one kernel, or two if the codec must see the
// whole tensor first, as quantize with a range-relative bound must. The calls do nothing else. They neither allocate
// nor synchronize, so CUDA Graphs can capture them.
//
// Any stream is accepted. Its device must be the current one. The null stream, cudaStreamLegacy and
// cudaStreamPerThread have their usual meaning. For cuda::stream_ref pass get(), for rmm::cuda_stream value(). The
// caller owns all memory. It must be device memory or mapped host memory; below, both are called device memory. The
// types cannot check this: a host vector also converts to a span. Until the stream has done the work, all memory must
// stay valid, and inputs must not change.
#pragma once

#include <tuck/core/cuda_result.hpp>
#include <tuck/frame/any_codec.hpp>
#include <tuck/frame/decode_kernel.cuh>
#include <tuck/frame/encode_kernel.cuh>
#include <tuck/frame/launch.hpp>
#include <tuck/frame/profiler.hpp>

#include <algorithm>

namespace tuck::inline TUCK_ABI {

/// Maximum number of chunks of a frame that is encoded on the device. Blocks take chunk numbers from a 32-bit
/// atomic counter. Each block takes one number too many at the end, so the limit is less than 2^32.
inline constexpr uint64_t max_device_chunks = uint64_t{1} << 31;

/// Returns how many bytes of scratch encoding `count` values needs. Returns 0 if the options or the size are invalid.
/// Decoding needs scratch_head_bytes with every codec.
///
/// The same scratch can be used for any codec and any size that fits, but for only one call at a time. Always pass the
/// whole span that was initialized. If scratch was not initialized, or if two calls use it at the same time, the
/// outcome may never be written.
template <codec C>
constexpr uint64_t scratch_bytes(const C& codec, uint64_t count, const frame_options& options = {}) noexcept {
  frame_header header;
  if (tuck::plan_header(codec, count, options, header) != status::ok) return 0;
  return scratch_head_bytes + 8 * layout_of(header).chunks;
}

/// Returns the same for a codec that was chosen at run time; 0 also if none was chosen.
template <codec... Cs>
uint64_t scratch_bytes(const any_codec<codec_list<Cs...>>& codec, uint64_t count,
                       const frame_options& options = {}) noexcept {
  uint64_t most = 0;
  codec.visit([&](const auto& chosen) { most = tuck::scratch_bytes(chosen, count, codec.typed(options)); });
  return most;
}

namespace detail {

// Sets the grid of a kernel: `useful_blocks` blocks, at most as many as fit on the device, and at most how.max_blocks
// (0: no limit). If `possible_blocks` are more, these instead, up to two on each multiprocessor.
inline result configure(cudaLaunchConfig_t& config, const void* kernel, uint64_t useful_blocks,
                        const launch_options& how, cudaStream_t stream, uint64_t possible_blocks) noexcept {
  int device = 0, processors = 0, resident = 0;
  cudaError_t e = cudaGetDevice(&device);
  if (e == cudaSuccess) e = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (e == cudaSuccess)
    e = cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&resident, kernel, block_threads, 0,
                                                               cudaOccupancyDefault);
  if (e != cudaSuccess) return from_cuda(e);
  useful_blocks = (std::max)(useful_blocks, (std::min)(possible_blocks, 2 * static_cast<uint64_t>(processors)));
  uint64_t blocks = std::max<uint64_t>(static_cast<uint64_t>(processors) * static_cast<uint64_t>(resident), 1);
  if (how.max_blocks != 0) blocks = std::min<uint64_t>(blocks, how.max_blocks);
  config.gridDim = dim3(static_cast<unsigned>(std::clamp<uint64_t>(useful_blocks, 1, blocks)));
  config.blockDim = dim3(block_threads);
  config.stream = stream;
  return {};
}
template <class Job>
result launch(void (*kernel)(Job), const Job& job, uint64_t useful_blocks, const launch_options& how,
              cudaStream_t stream, uint64_t possible_blocks = 0) noexcept {
  cudaLaunchConfig_t config{};
  const result r =
      configure(config, reinterpret_cast<const void*>(kernel), useful_blocks, how, stream, possible_blocks);
  return r ? from_cuda(cudaLaunchKernelEx(&config, kernel, job)) : r;
}

// The same values, items of a batch or codec, for the codec that does the work on the device: by_width<C>.
template <codec C> const value_t<by_width<C>>* by_width_of(const value_t<C>* values) noexcept {
  return reinterpret_cast<const value_t<by_width<C>>*>(values);
}
template <codec C> value_t<by_width<C>>* by_width_of(value_t<C>* values) noexcept {
  return reinterpret_cast<value_t<by_width<C>>*>(values);
}
template <class To, class From> span<const To> by_width_of(span<const From> items) noexcept {
  static_assert(sizeof(To) == sizeof(From), "tuck: spans of any type have the same members");
  return {reinterpret_cast<const To*>(items.data()), items.size()};
}
template <codec C> status by_width_of(const C& codec, by_width<C>& made) noexcept {
  if constexpr (!std::is_same_v<C, by_width<C>>)
    return by_width<C>::from_stages(codec.stages(), made);
  else
    made = codec;
  return status::ok;
}

// Sets what the jobs of a tensor and of each item of a batch have in common: header, codec and metadata.
template <class Job, codec C>
status prepare_job(Job& job, const C& codec, uint64_t count, const frame_options& options) noexcept {
  if (const status s = tuck::make_header(codec, count, options, job.header); s != status::ok) return s;
  if constexpr (is_delta_job<Job>) job.header.flags |= flag_delta;
  if (!options.metadata.empty()) return status::wrong_metadata;
  if (options.metadata_on_device.is_null()) return status::invalid_argument;
  if (job.header.chunk_values > max_device_chunk_values<C>) return status::unsupported;
  if constexpr (adaptive_codec<C>)
    if (!tuck::aligned(codec.device_parameter(), sizeof(double))) return status::misaligned;
  if (const status s = detail::by_width_of(codec, job.codec); s != status::ok) return s;
  job.codec = codec_of_values(job.codec, job.header);
  job.metadata = options.metadata_on_device.data();
  return status::ok;
}

inline namespace TUCK_ARCH {

// `job` has what only the caller knows: the base of a delta, the target of an appended frame. `counts`: there is no
// buffer, and only the size of the frame is computed.
template <codec C, class Job>
result encode(Job job, const C& codec, span<const value_t<C>> values, bytes frame, scratch_span scratch,
              outcome* written, cudaStream_t stream, const frame_options& options, const launch_options& how,
              bool counts = false) noexcept {
  const char* const call = is_delta_job<Job>     ? "encode_delta"
                           : counts              ? "encoded_bytes"
                           : job.used != nullptr ? "append"
                                                 : "encode";
  const profiler_range range(call, codec.stages(), dtype_of<value_t<C>>);
  if (const status s = detail::prepare_job(job, codec, values.size(), options); s != status::ok) return {s};
  job.at = layout_of(job.header);
  if (!counts && (frame.data() == nullptr || frame.size() < job.at.payloads)) return {status::output_too_small};
  if (written == nullptr || values.is_null()) return {status::invalid_argument};
  if (!tuck::aligned(values.data(), sizeof(typename block_tile<value_t<C>, block_threads>::word)) ||
      !tuck::aligned(frame.data(), device_alignment) || !tuck::aligned(written, alignof(outcome)))
    return {status::misaligned};
  if (job.at.chunks > max_device_chunks) return {status::size_overflow};
  if (const status s = scratch.check(scratch_head_bytes + 8 * job.at.chunks); s != status::ok) return {s};
  job.values = detail::by_width_of<C>(values.data());
  job.frame = frame.data();
  job.capacity = frame.size();
  job.result = written;
  job.head = reinterpret_cast<scratch_head*>(scratch.memory().data());
  job.states = reinterpret_cast<uint64_t*>(scratch.memory().data() + scratch_head_bytes);
  job.state_count = (scratch.memory().size() - scratch_head_bytes) / 8;
  if constexpr (adaptive_codec<C> && floating_element<value_t<C>>)
    if (codec.needs_range()) {
      const prepass_job<value_t<C>> prepass{job.values, values.size(), job.head};
      const uint64_t useful = ceil_div(values.size_bytes(), uint64_t{tile_bytes});
      const result r = launch(prepass_kernel<prepass_job<value_t<C>>, block_threads>, prepass, useful, how, stream);
      if (!r) return r;
    }
  return launch(encode_kernel<Job, block_threads>, job, job.at.chunks, how, stream);
}

template <codec C>
result append(const C& codec, span<const value_t<C>> values, bytes buffer, append_target target, scratch_span scratch,
              outcome* written, cudaStream_t stream, const frame_options& options, const launch_options& how) noexcept {
  encode_job<by_width<C>> job{};
  job.used = target.used;
  job.offset = target.offset;
  return detail::encode(job, codec, values, buffer, scratch, written, stream, options, how);
}

// `job` has what only the caller knows: the first value, or the base of a delta.
template <codec C, class Job>
result decode(Job job, const C& codec, const_bytes frame, span<value_t<C>> out, scratch_span scratch, outcome* restored,
              cudaStream_t stream, const launch_options& how) noexcept {
  const profiler_range range(is_delta_job<Job> ? "decode_delta" : "decode", codec.stages(), dtype_of<value_t<C>>);
  if (restored == nullptr || frame.is_null() || out.is_null()) return {status::invalid_argument};
  if (!tuck::aligned(out.data(), sizeof(value_t<C>)) || !tuck::aligned(frame.data(), device_alignment) ||
      !tuck::aligned(restored, alignof(outcome)))
    return {status::misaligned};
  if (const status s = scratch.check(scratch_head_bytes); s != status::ok) return {s};
  if constexpr (std::is_same_v<C, by_width<C>>) job.codec = codec;
  job.type = dtype_of<value_t<C>>;
  job.frame = frame.data();
  job.frame_capacity = frame.size();
  job.out = detail::by_width_of<C>(out.data());
  job.out_values = out.size();
  job.result = restored;
  job.head = reinterpret_cast<scratch_head*>(scratch.memory().data());
  // Blocks have work if they decode a chunk or verify the directory. The directory is the larger part if only few
  // values are decoded. Chunks may be smaller than the host assumes, so it launches more blocks where those without a
  // chunk cost no time: up to two on each multiprocessor, but none where a whole call has one chunk.
  constexpr uint64_t frame_bytes_a_block = 4 << 20, bytes_of_small_chunk = 2 << 10;
  const uint64_t chunk = how.chunk_values != 0 ? how.chunk_values : max_device_chunk_values<C>;
  const uint64_t chunks = ceil_div(job.first_value % chunk + out.size(), chunk);
  const bool may_be_small = how.chunk_values == 0 && chunks > 1;
  return launch(decode_kernel<Job, block_threads>, job, (std::max)(chunks, ceil_div(frame.size(), frame_bytes_a_block)),
                how, stream, may_be_small ? ceil_div(out.size_bytes(), bytes_of_small_chunk) : 0);
}

}  // namespace TUCK_ARCH
}  // namespace detail

/// Prepares scratch for its first use. Call it once, and again after a kernel was aborted or a launch failed.
/// Asynchronous: one memset on `stream`.
/// @return invalid_argument, misaligned, scratch_too_small or a CUDA error
inline result initialize(scratch_span scratch, cudaStream_t stream) noexcept {
  if (const status s = scratch.check(scratch_head_bytes); s != status::ok) return {s};
  return from_cuda(cudaMemsetAsync(scratch.memory().data(), 0, scratch.memory().size(), stream));
}

/// Appended frames start at multiples of this many bytes.
inline constexpr uint64_t append_alignment = uint64_t{1} << append_alignment_log2;

inline namespace TUCK_ARCH {

/// Encodes `values` into `frame`. The bytes are those that host::encode writes. Asynchronous on `stream`. Values,
/// metadata, frame, scratch and `*written` must not overlap.
///
/// @param values   device memory, aligned to 4 bytes (8 for 8-byte values)
/// @param frame    device memory, aligned to 16 bytes. max_frame_bytes(codec, values.size(), options) is always enough
/// @param scratch  scratch_bytes(codec, values.size(), options) bytes, aligned to 16, initialized once
/// @param written  device memory, aligned to 16. Receives ok and the size of the frame in bytes. Receives
///                 output_too_small and the size that is needed if the frame does not fit, or bad_bound if the bound
///                 in device memory is invalid. After these two errors `frame` holds no frame
/// @param options  pass metadata in `metadata_on_device`, which must be memory that the device can read
/// @return errors that are known before the launch: misaligned, invalid_argument, bad_bound, wrong_metadata,
///         size_overflow, unsupported, scratch_too_small, output_too_small (`frame` is null or ends before the payloads
///         begin), or
///         a CUDA error. After these errors `*written` does not change
template <codec C>
result encode(const C& codec, span<const value_t<C>> values, bytes frame, scratch_span scratch, outcome* written,
              cudaStream_t stream, const frame_options& options = {}, const launch_options& how = {}) noexcept {
  return detail::append(codec, values, frame, {}, scratch, written, stream, options, how);
}

/// Encodes with a codec that was chosen at run time.
/// @param values  the bytes of whole elements of the codec's type, else invalid_argument
/// @return what encode for a known codec returns; unknown_codec if none was chosen
template <codec... Cs>
result encode(const any_codec<codec_list<Cs...>>& codec, const_bytes values, bytes frame, scratch_span scratch,
              outcome* written, cudaStream_t stream, const frame_options& options = {},
              const launch_options& how = {}) noexcept {
  result answer;
  const status found = codec.visit(values, [&](const auto& chosen, auto elements) {
    answer = tuck::encode(chosen, elements, frame, scratch, written, stream, codec.typed(options), how);
  });
  return found == status::ok ? answer : result{found};
}

/// Encodes a frame and appends it to the frames in a buffer. The host need not know the sizes of the earlier frames.
///
/// The frame starts at `*used`. Its offset is written to `*offset`, and its size, rounded up to append_alignment, is
/// added to `*used`. If it does not fit, `written` receives output_too_small, and `*used` and `*offset` do not change;
/// what lies behind `*used` may be anything then.
///
/// @param buffer  device memory, aligned to append_alignment
/// @param used    device memory, aligned to 8: bytes in use, initially 0 or a multiple of append_alignment. The kernel
///                reads and writes it, so calls with the same `used` must run one after the other
/// @param offset  device memory, aligned to 8
/// Everything else is as for encode.
template <codec C>
result append(const C& codec, span<const value_t<C>> values, bytes buffer, uint64_t* used, uint64_t* offset,
              scratch_span scratch, outcome* written, cudaStream_t stream, const frame_options& options = {},
              const launch_options& how = {}) noexcept {
  if (used == nullptr || offset == nullptr) return {status::invalid_argument};
  if (!tuck::aligned(buffer.data(), append_alignment) || !tuck::aligned(used, 8) || !tuck::aligned(offset, 8))
    return {status::misaligned};
  return detail::append(codec, values, buffer, {used, offset}, scratch, written, stream, options, how);
}

/// Computes the size in bytes of the frame that encode would write. Writes it to `needed->bytes`, with code ok. Other
/// arguments and errors are those of encode.
template <codec C>
result encoded_bytes(const C& codec, span<const value_t<C>> values, scratch_span scratch, outcome* needed,
                     cudaStream_t stream, const frame_options& options = {}, const launch_options& how = {}) noexcept {
  return detail::encode(encode_job<by_width<C>>{}, codec, values, {}, scratch, needed, stream, options, how, true);
}

/// Decodes values [first_value, first_value + out.size()) of a frame. Asynchronous on `stream`: one launch.
///
/// @param codec     of the same type as the encoder's; its parameters come from the frame
/// @param frame     device memory, aligned to 16. May be longer than the frame that it contains, and may come from an
///                  untrusted source
/// @param out       device memory, aligned to sizeof(value)
/// @param scratch   scratch_head_bytes, aligned to 16, initialized once
/// @param restored  device memory, aligned to 16. Receives the outcome that host::decode would return. `out` receives
///                  the values that host::decode would write. If chunks have more than max_device_chunk_values<C>
///                  values, the outcome is `unsupported`, and `out` does not change
/// @return errors that are known before the launch: misaligned, invalid_argument, scratch_too_small, or a CUDA error
template <codec C>
result decode(const C& codec, const_bytes frame, span<value_t<C>> out, scratch_span scratch, outcome* restored,
              cudaStream_t stream, uint64_t first_value = 0, const launch_options& how = {}) noexcept {
  decode_job<by_width<C>> job{};
  job.first_value = first_value;
  return detail::decode(job, codec, frame, out, scratch, restored, stream, how);
}

/// Decodes a frame whose codec is known only at run time. Uses the codec of `codecs` that can have written the frame.
///
/// @param header  of the frame, from inspect. The host needs no other bytes of the frame. Replaces how.chunk_values
/// @param out     receives the values from `first_value` on, as many as fit. Its size is a multiple of the element
///                size, else invalid_argument
/// @return what decode for a known codec returns. If no codec of the list can have written the frame: the error of
///         visit, and `out` does not change
template <codec... Cs>
result decode(codec_list<Cs...> codecs, const frame_header& header, const_bytes frame, bytes out, scratch_span scratch,
              outcome* restored, cudaStream_t stream, uint64_t first_value = 0, launch_options how = {}) noexcept {
  how.chunk_values = header.chunk_values;
  result answer;
  const status found = tuck::visit(codecs, header, [&]<class C>(const C& codec) {
    using T = value_t<C>;
    if (out.size() % sizeof(T) != 0)
      answer = {status::invalid_argument};
    else
      answer = tuck::decode(codec, frame, span<T>(reinterpret_cast<T*>(out.data()), out.size() / sizeof(T)), scratch,
                            restored, stream, first_value, how);
  });
  return found == status::ok ? answer : result{found};
}

template <no_codec X>
codec_missing<X> encode(const X&, const auto&, bytes, scratch_span, outcome*, cudaStream_t, const frame_options& = {},
                        const launch_options& = {});
template <no_codec X>
codec_missing<X> decode(const X&, const_bytes, const auto&, scratch_span, outcome*, cudaStream_t, uint64_t = 0,
                        const launch_options& = {});

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
