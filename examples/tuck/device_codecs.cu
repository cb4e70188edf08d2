// Codecs on the device, for the option --on device, the demo, and tuck-bench.
#include "device_codecs.cuh"

#include "codec_list.hpp"

namespace tuck::tools {
namespace {

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
                const frame_options& options) const override {
    const span<const T> all(reinterpret_cast<const T*>(values.data()), values.size() / sizeof(T));
    return tuck::encode(codec_, all, frame, scratch, written, stream, typed(options));
  }
  result decode(const_bytes frame, bytes values, scratch_span scratch, outcome* restored,
                cudaStream_t stream) const override {
    const span<T> all(reinterpret_cast<T*>(values.data()), values.size() / sizeof(T));
    return tuck::decode(codec_, frame, all, scratch, restored, stream);
  }

 private:
  using T = value_t<C>;

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
                               frame_options options) {
  const device_memory in(values.size()), metadata(options.metadata.size()), out(frame.size());
  const device_memory scratch(codec.scratch_bytes(count, options));
  in.upload(values, stream_);
  metadata.upload(options.metadata, stream_);
  options.metadata = {};
  options.metadata_on_device = metadata.all();
  require(initialize(scratch.scratch(), stream_));
  const outcome done = timed([&](outcome* written) {
    return codec.encode(in.all(), out.all(), scratch.scratch(), written, stream_, options);
  });
  if (done) out.download(frame.subspan(0, done.bytes), stream_);
  return done;
}

outcome device_session::decode(const chosen_device_codec& codec, const_bytes frame, bytes values) {
  const device_memory in(frame.size()), out(values.size()), scratch(scratch_head_bytes);
  in.upload(frame, stream_);
  out.upload(values, stream_);  // values that decoding does not write stay as they were
  require(initialize(scratch.scratch(), stream_));
  const outcome done =
      timed([&](outcome* restored) { return codec.decode(in.all(), out.all(), scratch.scratch(), restored, stream_); });
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
                         const frame_options& options) {
  const auto codec = choose_device_codec(choice, type);
  if (codec == nullptr) return {.code = status::codec_mismatch};
  return device_session().encode(*codec, values, values.size() / size_of(type), frame, options);
}

outcome decode_on_device(const_bytes frame, bytes out) {
  frame_header header;
  outcome answer{.code = inspect(frame, header)};
  if (!answer) return answer;
  const status found = visit(program_codecs{}, header, [&]<class C>(const C& codec) {
    answer = device_session().decode(chosen_on_device<C>(codec, header.type), frame, out);
  });
  if (found != status::ok) answer.code = found;
  return answer;
}

}  // namespace tuck::tools
