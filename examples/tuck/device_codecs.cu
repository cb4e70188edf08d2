// Codecs on the device, for the option --on device, the demo, and tuck-bench.
#include "device_codecs.cuh"

#include "codec_list.hpp"

#include <tuck/frame/delta.cuh>

namespace tuck::tools {
namespace {

static_assert(most_device_chunk_bytes == tile_bytes);

// Those of device_delta_codecs. More would take long to compile.
template <codec C> inline constexpr bool has_delta_kernels = false;
template <element T> inline constexpr bool has_delta_kernels<rle<T>> = true;
template <element T> inline constexpr bool has_delta_kernels<steps<T>> = true;
template <element T> inline constexpr bool has_delta_kernels<zvc<T>> = true;
template <element T> inline constexpr bool has_delta_kernels<zvc_huffman<T>> = true;

template <codec C> class chosen_on_device final : public chosen_device_codec {
 public:
  chosen_on_device(const C& codec, dtype type) : codec_(codec), type_(type) {}

  uint64_t max_frame_bytes(uint64_t count, const frame_options& options) const override {
    return tuck::max_frame_bytes(codec_, count, typed(options));
  }
  uint64_t scratch_bytes(uint64_t count, const frame_options& options) const override {
    return tuck::scratch_bytes(codec_, count, typed(options));
  }
  result encode(const_bytes values, bytes frame, scratch_span scratch, outcome* written, cudaStream_t stream,
                const frame_options& options, const launch_options& how) const override {
    return tuck::encode(codec_, elements(values), frame, scratch, written, stream, typed(options), how);
  }
  result decode(const_bytes frame, bytes values, scratch_span scratch, outcome* restored, cudaStream_t stream,
                const launch_options& how) const override {
    return tuck::decode(codec_, frame, elements(values), scratch, restored, stream, 0, how);
  }
  result encode_delta(const_bytes values, const_bytes base, bytes frame, scratch_span scratch, outcome* written,
                      cudaStream_t stream, const frame_options& options) const override {
    if constexpr (has_delta_kernels<C>)
      return tuck::encode_delta(codec_, elements(values), elements(base), frame, scratch, written, stream,
                                typed(options));
    else
      return {status::codec_mismatch};
  }
  result decode_delta(const_bytes frame, const_bytes base, bytes values, scratch_span scratch, outcome* restored,
                      cudaStream_t stream, const delta_options& options) const override {
    if constexpr (has_delta_kernels<C>)
      return tuck::decode_delta(codec_, frame, elements(base), elements(values), scratch, restored, stream, options);
    else
      return {status::codec_mismatch};
  }

 private:
  using T = value_t<C>;

  static span<const T> elements(const_bytes b) { return {reinterpret_cast<const T*>(b.data()), b.size() / sizeof(T)}; }
  static span<T> elements(bytes b) { return {reinterpret_cast<T*>(b.data()), b.size() / sizeof(T)}; }
  frame_options typed(frame_options options) const {
    options.type = type_;
    return options;
  }

  C codec_;
  dtype type_;
};

outcome* outcome_in(const device_memory& m) noexcept { return reinterpret_cast<outcome*>(m.all().data()); }

}  // namespace

template <class Call> outcome device_session::timed(const Call& call) {
  const device_memory memory(sizeof(outcome));
#if defined(TUCK_CUDASIM)
  count_traffic();
#else
  const device_stopwatch watch;
  watch.begin(stream_);
#endif
  const result started = call(outcome_in(memory));
  if (!started && started.code != status::cuda_error) return {.code = started.code};
  require(started);
#if defined(TUCK_CUDASIM)
  stream_.wait();
  cost_ = moved_bytes(cudasim::snapshot());
#else
  watch.end(stream_);
  cost_ = watch.seconds();
#endif
  outcome done;
  memory.download(as_writable_bytes(span<outcome>(&done, 1)), stream_);
  return done;
}

outcome device_session::encode(const chosen_device_codec& codec, const_bytes values, uint64_t count, bytes frame,
                               frame_options options, const const_bytes* base) {
  const device_memory in(values.size()), before(base == nullptr ? 0 : base->size()), metadata(options.metadata.size()),
      out(frame.size());
  const device_memory scratch(codec.scratch_bytes(count, options));
  in.upload(values, stream_);
  if (base != nullptr) before.upload(*base, stream_);
  metadata.upload(options.metadata, stream_);
  options.metadata = {};
  options.metadata_on_device = metadata.all();
  require(initialize(scratch.scratch(), stream_));
  const outcome done = timed([&](outcome* written) {
    if (base == nullptr) return codec.encode(in.all(), out.all(), scratch.scratch(), written, stream_, options);
    return codec.encode_delta(in.all(), before.all(), out.all(), scratch.scratch(), written, stream_, options);
  });
  if (done) out.download(frame.subspan(0, done.bytes), stream_);
  return done;
}

outcome device_session::decode(const chosen_device_codec& codec, const_bytes frame, bytes values, bool is_delta) {
  const device_memory in(frame.size()), out(values.size()), scratch(scratch_head_bytes);
  in.upload(frame, stream_);
  out.upload(values, stream_);  // values that decoding does not write stay as they were; those of a delta's base
  require(initialize(scratch.scratch(), stream_));
  const outcome done = timed([&](outcome* restored) {
    return is_delta ? codec.decode_delta(in.all(), out.all(), out.all(), scratch.scratch(), restored, stream_)
                    : codec.decode(in.all(), out.all(), scratch.scratch(), restored, stream_);
  });
  out.download(values, stream_);
  return done;
}

std::unique_ptr<chosen_device_codec> choose_device_codec(const codec_choice& choice, dtype type) {
  std::unique_ptr<chosen_device_codec> found;
  with_codec(choice, type,
             [&]<codec C>(const C& codec) { found = std::make_unique<chosen_on_device<C>>(codec, type); });
  return found;
}

outcome encode_on_device(const codec_choice& choice, dtype type, const_bytes values, bytes frame,
                         const frame_options& options, const const_bytes* base) {
  const auto codec = choose_device_codec(choice, type);
  if (codec == nullptr) return {.code = status::codec_mismatch};
  return device_session().encode(*codec, values, values.size() / size_of(type), frame, options, base);
}

outcome decode_on_device(const_bytes frame, bytes out) {
  frame_header header;
  outcome answer{.code = inspect(frame, header)};
  if (!answer) return answer;
  const status found = visit(all_codecs{}, header, [&]<class C>(const C& codec) {
    const bool is_delta = (header.flags & flag_delta) != 0;
    answer = device_session().decode(chosen_on_device<C>(codec, header.type), frame, out, is_delta);
  });
  if (found != status::ok) answer.code = found;
  return answer;
}

}  // namespace tuck::tools
