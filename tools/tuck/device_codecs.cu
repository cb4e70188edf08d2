// What --on device runs.
#include "codec_list.hpp"
#include "support/on_device.cuh"

namespace tuck::tools {

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
