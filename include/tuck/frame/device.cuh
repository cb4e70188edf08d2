// Frames on a stream. Each call is one kernel launch and nothing else: no allocation and no synchronisation, so that
// CUDA Graphs can capture it. (Two launches where a codec must see the whole tensor first, as quantize with a
// range-relative bound.) Any stream will do: null, legacy and per-thread ones mean what they mean to CUDA. All memory
// is the caller's and is on the device (or mapped), which no type can check: a host vector converts to a span too. It
// must stay as it is until the stream has done the work.
#pragma once

#include <tuck/core/cuda_result.cuh>
#include <tuck/frame/decode_kernel.cuh>
#include <tuck/frame/encode_kernel.cuh>
#include <tuck/frame/survey_kernel.cuh>

#include <algorithm>

namespace tuck::inline TUCK_ABI {

struct launch_options {
  unsigned max_blocks = 0;  // leaves the rest of the GPU to others; 0: as many as there is room for
};

inline constexpr uint64_t device_alignment = 16;  // of frames, scratch and outcomes

// The working memory of a call, on the device: a type of its own, so that it cannot be taken for a frame. scratch_bytes
// says how much a call needs, initialize prepares it for its first use.
class scratch_span {
 public:
  constexpr scratch_span() = default;
  constexpr explicit scratch_span(bytes memory) noexcept : memory_(memory) {}

  constexpr bytes memory() const noexcept { return memory_; }

 private:
  bytes memory_;
};

// Blocks draw chunks by a ticket of 32 bits, each one more than there are.
inline constexpr uint64_t max_device_chunks = uint64_t{1} << 31;

// Bytes of scratch that encoding `count` values needs; decoding needs those of count = 0, whatever the codec. A scratch
// serves one call at a time, of any codec and size that it is enough for; it is one span, always passed whole. Without
// initialize, or shared by two calls at once, the outcome may never be written. 0 where the options or the size are
// impossible.
template <codec C>
constexpr uint64_t scratch_bytes(const C& codec, uint64_t count, const frame_options& options = {}) noexcept {
  frame_header header;
  if (tuck::plan_header(codec, count, options, header) != status::ok) return 0;
  return scratch_head_bytes + 8 * layout_of(header).chunks;
}

namespace detail {

// Launches as many blocks as the device has room for, the work has use for and the options allow; `launched` is told.
template <class Job>
result launch(void (*kernel)(Job), const Job& job, uint64_t useful_blocks, const launch_options& how,
              cudaStream_t stream, unsigned* launched = nullptr) noexcept {
  int device = 0, processors = 0, resident = 0;
  if (const auto e = cudaGetDevice(&device); e != cudaSuccess) return from_cuda(e);
  if (const auto e = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device); e != cudaSuccess)
    return from_cuda(e);
  if (const auto e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, block_threads, 0);
      e != cudaSuccess)
    return from_cuda(e);
  uint64_t blocks = std::max<uint64_t>(static_cast<uint64_t>(processors) * static_cast<uint64_t>(resident), 1);
  if (how.max_blocks != 0) blocks = std::min<uint64_t>(blocks, how.max_blocks);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(std::clamp<uint64_t>(useful_blocks, 1, blocks)));
  config.blockDim = dim3(block_threads);
  config.stream = stream;
  if (launched != nullptr) *launched = config.gridDim.x;
  return from_cuda(cudaLaunchKernelEx(&config, kernel, job));
}

// Where in the room for frames the frame goes: behind `used`, or where that is null, at the begin.
struct frame_place {
  uint64_t* used = nullptr;
  uint64_t* offset = nullptr;
};

// Why there is no room for a frame.
template <codec C> status why_no_room(const C& codec, uint64_t count, const frame_options& options) noexcept {
  frame_header header;
  const status s = tuck::make_header(codec, count, options, header);
  return s != status::ok ? s : status::output_too_small;
}

inline namespace TUCK_ARCH {

// `job` has what sets a delta apart, and its kernel.
template <codec C, class Job = encode_job<C>>
result encode(const C& codec, span<const value_t<C>> values, bytes frame, frame_place place, scratch_span scratch,
              outcome* written, cudaStream_t stream, const frame_options& options, const launch_options& how,
              void (*kernel)(Job) = encode_kernel<C, block_threads>, Job job = Job{}) noexcept {
  job.codec = codec;
  if (const status s = tuck::make_header(codec, values.size(), options, job.header); s != status::ok) return {s};
  if constexpr (is_delta_job<Job>) job.header.flags |= flag_delta;
  job.at = layout_of(job.header);
  if (!options.metadata.empty()) return {status::wrong_metadata};
  if (written == nullptr || scratch.memory().data() == nullptr || values.is_null() ||
      options.metadata_on_device.is_null())
    return {status::invalid_argument};
  if (!tuck::aligned(values.data(), sizeof(typename block_tile<value_t<C>, block_threads>::word)) ||
      !tuck::aligned(frame.data(), device_alignment) || !tuck::aligned(scratch.memory().data(), device_alignment) ||
      !tuck::aligned(written, alignof(outcome)))
    return {status::misaligned};
  if (job.header.chunk_values > max_device_chunk_values<C>) return {status::unsupported};
  if (job.at.chunks > max_device_chunks) return {status::size_overflow};
  if (scratch.memory().size() < scratch_head_bytes + 8 * job.at.chunks) return {status::scratch_too_small};
  if (frame.data() != nullptr && frame.size() < job.at.payloads) return {status::output_too_small};
  job.values = values.data();
  job.metadata = options.metadata_on_device.data();
  job.frame = frame.data();
  job.capacity = frame.size();
  job.used = place.used;
  job.offset = place.offset;
  job.result = written;
  job.head = reinterpret_cast<scratch_head*>(scratch.memory().data());
  job.states = reinterpret_cast<uint64_t*>(scratch.memory().data() + scratch_head_bytes);
  job.state_count = (scratch.memory().size() - scratch_head_bytes) / 8;
  if constexpr (adaptive_codec<C>) {
    if (!tuck::aligned(codec.device_parameter(), sizeof(double))) return {status::misaligned};
    using T = value_t<C>;
    if constexpr (floating_element<T>)
      if (codec.needs_range()) {
        const survey_job<T> survey{job.values, values.size(), job.head};
        const uint64_t useful = ceil_div(values.size_bytes(), uint64_t{tile_bytes});
        if (const result r = launch(survey_kernel<T, block_threads>, survey, useful, how, stream); !r) return r;
      }
  }
  return launch(kernel, job, job.at.chunks, how, stream);
}

}  // namespace TUCK_ARCH
}  // namespace detail

// Prepares fresh scratch for its first use, once; after a kernel was aborted or a launch failed, again.
inline result initialize(scratch_span scratch, cudaStream_t stream) noexcept {
  if (scratch.memory().data() == nullptr) return {status::invalid_argument};
  if (!tuck::aligned(scratch.memory().data(), device_alignment)) return {status::misaligned};
  if (scratch.memory().size() < scratch_head_bytes) return {status::scratch_too_small};
  return from_cuda(cudaMemsetAsync(scratch.memory().data(), 0, scratch.memory().size(), stream));
}

namespace detail {
// What decoding asks of its arguments.
template <class T>
status check_decode(const_bytes frame, span<T> out, scratch_span scratch, const outcome* restored) noexcept {
  if (restored == nullptr || scratch.memory().data() == nullptr || frame.is_null() || out.is_null())
    return status::invalid_argument;
  if (!tuck::aligned(out.data(), sizeof(T)) || !tuck::aligned(frame.data(), device_alignment) ||
      !tuck::aligned(scratch.memory().data(), device_alignment) || !tuck::aligned(restored, alignof(outcome)))
    return status::misaligned;
  return scratch.memory().size() < scratch_head_bytes ? status::scratch_too_small : status::ok;
}

// Blocks for the chunks, and for the directory, of which there may be much more than is wanted of the values.
inline uint64_t useful_decoders(const_bytes frame, uint64_t out_bytes) noexcept {
  constexpr uint64_t frame_bytes_a_block = 4 << 20;
  return std::max(ceil_div(out_bytes, uint64_t{tile_bytes}), ceil_div(frame.size(), frame_bytes_a_block));
}
}  // namespace detail

// Frames that are appended begin at a multiple of this many bytes of the room for them.
inline constexpr uint64_t append_alignment = uint64_t{1} << append_alignment_log2;

inline namespace TUCK_ARCH {

// Encodes `values` into `frame`, both on the device: the bytes that host::encode writes. `written` gets the frame's
// bytes; output_too_small there: `bytes` says how many are needed, and `frame` holds no frame; nor does it where a
// bound in device memory is none, bad_bound. Where `frame` has no room for what precedes the payloads, that is refused
// at once, and `written` left alone. max_frame_bytes is always enough. `values` begin at a multiple of 4 bytes (8 for
// 8-byte values), frame, scratch and outcome at one of 16; else misaligned. Metadata must be readable by the device and
// stay until the stream has done the work. Nothing may overlap.
template <codec C>
result encode(const C& codec, span<const value_t<C>> values, bytes frame, scratch_span scratch, outcome* written,
              cudaStream_t stream, const frame_options& options = {}, const launch_options& how = {}) noexcept {
  if (frame.data() == nullptr) return {detail::why_no_room(codec, values.size(), options)};
  return detail::encode(codec, values, frame, {}, scratch, written, stream, options, how);
}

// As encode, of many frames one behind the other, although the host knows no sizes: the frame goes behind the first
// `*used` bytes of `room`, its begin is written to `*offset`, and its bytes, rounded up to append_alignment, are added
// to `*used`. Where it does not fit, output_too_small, `used` and `offset` stay as they were. `used` is in device
// memory, a multiple of append_alignment or 0 in the beginning, and read when the kernel runs: calls that share it run
// one after the other. `room` is a multiple of append_alignment; both numbers are of 8.
template <codec C>
result append(const C& codec, span<const value_t<C>> values, bytes room, uint64_t* used, uint64_t* offset,
              scratch_span scratch, outcome* written, cudaStream_t stream, const frame_options& options = {},
              const launch_options& how = {}) noexcept {
  if (room.data() == nullptr) return {detail::why_no_room(codec, values.size(), options)};
  if (used == nullptr || offset == nullptr) return {status::invalid_argument};
  if (!tuck::aligned(room.data(), append_alignment) || !tuck::aligned(used, 8) || !tuck::aligned(offset, 8))
    return {status::misaligned};
  return detail::encode(codec, values, room, {used, offset}, scratch, written, stream, options, how);
}

// The bytes of the frame that encode would write, into `needed`.
template <codec C>
result encoded_bytes(const C& codec, span<const value_t<C>> values, scratch_span scratch, outcome* needed,
                     cudaStream_t stream, const frame_options& options = {}, const launch_options& how = {}) noexcept {
  return detail::encode(codec, values, {}, {}, scratch, needed, stream, options, how);
}

// Restores values [first_value, first_value + out.size()) of the frame, which may be shorter than `frame` and
// whose size need not be known to the host. `restored` gets what host::decode returns, and `out` what it writes. One
// case differs: if the frame's chunks have more than max_device_chunk_values<C>, `restored` gets `unsupported` and
// `out` stays as it was.
template <codec C>
result decode(const C& codec, const_bytes frame, span<value_t<C>> out, scratch_span scratch, outcome* restored,
              cudaStream_t stream, uint64_t first_value = 0, const launch_options& how = {}) noexcept {
  if (const status s = detail::check_decode(frame, out, scratch, restored); s != status::ok) return {s};
  const decode_job<C> job{
      codec,       frame.data(), frame.size(), out.data(),
      first_value, out.size(),   restored,     reinterpret_cast<scratch_head*>(scratch.memory().data())};
  return detail::launch(decode_kernel<C, block_threads>, job, detail::useful_decoders(frame, out.size_bytes()), how,
                        stream);
}

// The same where the frame says at run time which codec of the list it needs: `info` is what inspect says of its
// header, which is all that the host must have seen of it. `out` is as long as the values wanted, else
// invalid_argument. A frame that no codec of the list can have written is refused with what visit says of it, and `out`
// left alone.
template <codec... Cs>
result decode(codec_list<Cs...> codecs, const frame_info& info, const_bytes frame, bytes out, scratch_span scratch,
              outcome* restored, cudaStream_t stream, uint64_t first_value = 0,
              const launch_options& how = {}) noexcept {
  result answer;
  const status found = tuck::visit(codecs, info, [&]<class C>(const C& codec) {
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
result encode(const X&, const auto&, bytes, scratch_span, outcome*, cudaStream_t, const frame_options& = {},
              const launch_options& = {}) noexcept {
  static_assert(codec<X>, TUCK_NO_CODEC);
  return {};
}
template <no_codec X>
result append(const X&, const auto&, bytes, uint64_t*, uint64_t*, scratch_span, outcome*, cudaStream_t,
              const frame_options& = {}, const launch_options& = {}) noexcept {
  static_assert(codec<X>, TUCK_NO_CODEC);
  return {};
}
template <no_codec X>
result encoded_bytes(const X&, const auto&, scratch_span, outcome*, cudaStream_t, const frame_options& = {},
                     const launch_options& = {}) noexcept {
  static_assert(codec<X>, TUCK_NO_CODEC);
  return {};
}
template <no_codec X>
result decode(const X&, const_bytes, const auto&, scratch_span, outcome*, cudaStream_t, uint64_t = 0,
              const launch_options& = {}) noexcept {
  static_assert(codec<X>, TUCK_NO_CODEC);
  return {};
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
