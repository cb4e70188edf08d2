// What --on device runs, and tuck-bench.
#include "device_codecs.cuh"

#include "codec_list.hpp"
#include "support/on_device.cuh"

namespace tuck::tools {
namespace {

template <codec C> class chosen_on_device final : public chosen_device_codec {
 public:
  explicit chosen_on_device(const C& codec) : codec_(codec) {}

  uint64_t max_frame_bytes(uint64_t count) const override { return tuck::max_frame_bytes(codec_, count); }
  uint64_t scratch_bytes(uint64_t count) const override { return tuck::scratch_bytes(codec_, count); }

  result encode(const_bytes values, bytes frame, bytes scratch, outcome* written, cudaStream_t stream) const override {
    const span<const T> typed(reinterpret_cast<const T*>(values.data()), values.size() / sizeof(T));
    return tuck::encode(codec_, typed, frame, scratch, written, stream);
  }
  result decode(const_bytes frame, bytes values, bytes scratch, outcome* restored, cudaStream_t stream) const override {
    const span<T> typed(reinterpret_cast<T*>(values.data()), values.size() / sizeof(T));
    return tuck::decode(codec_, frame, typed, scratch, restored, stream);
  }

 private:
  using T = value_t<C>;
  C codec_;
};

}  // namespace

std::unique_ptr<chosen_device_codec> choose_device_codec(const codec_choice& choice, dtype type) {
  std::unique_ptr<chosen_device_codec> found;
  with_codec(choice, type, [&]<codec C>(const C& codec) { found = std::make_unique<chosen_on_device<C>>(codec); });
  return found;
}

outcome encode_on_device(const codec_choice& choice, dtype type, const_bytes values, bytes frame,
                         const frame_options& options) {
  outcome answer{.code = status::codec_mismatch};
  with_codec(choice, type, [&]<class C>(const C& chosen) {
    using T = value_t<C>;
    const span<const T> typed(reinterpret_cast<const T*>(values.data()), values.size() / sizeof(T));
    answer = device_session().encode(chosen, typed, frame, options);
  });
  return answer;
}

outcome decode_on_device(const_bytes frame, bytes out) {
  frame_info info;
  outcome answer{.code = inspect(frame, info)};
  if (!answer) return answer;
  const status found = visit(program_codecs{}, info, [&]<class C>(const C& codec) {
    using T = value_t<C>;
    answer = device_session().decode(codec, frame, {reinterpret_cast<T*>(out.data()), out.size() / sizeof(T)});
  });
  if (found != status::ok) answer.code = found;
  return answer;
}

}  // namespace tuck::tools
