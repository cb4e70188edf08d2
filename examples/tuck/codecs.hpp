// The codecs that the program knows, behind types that are chosen at run time.
#pragma once

#include <tuck/codec/quantize/error_bound.hpp>
#include <tuck/frame/host.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tuck::tools {

// Names for --codec, each once: the names of a codec's stages, joined by "+".
std::vector<std::string> codec_names();

std::string stage_names(const stage_list& stages);

// A codec by its name, and for those that lose something the bound.
struct codec_choice {
  std::string name = "zvc";
  error_bound bound = error_bound::range_relative(1e-3);
};

bool is_lossy(std::string_view codec);

// What deltas are encoded by unless another codec is asked for, in the largest chunks that it takes.
inline constexpr const char* delta_codec = "gaps";
inline constexpr uint32_t delta_alignment = 16;

// The most values in a chunk of the codec of that name.
uint32_t most_chunk_values(std::string_view codec, dtype type);

// The element types that the codec of that name takes, "f16, bf16, f32" for instance.
std::string types_of(std::string_view codec);

// How far the values of a frame may be from what was encoded; nothing for lossless codecs.
struct stored_bound {
  bound_mode mode;
  double requested;
  double effective;  // absolute, unless the mode is pointwise
};
std::optional<stored_bound> bound_of(const stage_list& stages);

// What the frame of `count` values will need, before it is encoded.
struct frame_plan {
  status code = status::codec_mismatch;
  uint64_t most_bytes = 0;
  uint64_t chunks = 0;
};

// A codec that was chosen, for elements of one type: what the library has as templates.
class chosen_codec {
 public:
  virtual ~chosen_codec() = default;

  virtual frame_plan plan(uint64_t count, const frame_options& options) const = 0;
  // host::encode, or with a base host::encode_delta, and host::decode. Tensors are whole elements, aligned for them.
  virtual outcome encode(const_bytes values, bytes frame, const frame_options& options, const host::execution& how,
                         const const_bytes* base = nullptr) const = 0;
  virtual outcome decode(const_bytes frame, bytes values, const host::execution& how) const = 0;
};
// Null where there is none of that name for that type.
std::unique_ptr<chosen_codec> choose_codec(const codec_choice& choice, dtype type);

// The same in one call; codec_mismatch where there is none.
frame_plan plan_frame(const codec_choice& choice, dtype type, uint64_t count, const frame_options& options);
outcome encode_frame(const codec_choice& choice, dtype type, const_bytes values, bytes frame,
                     const frame_options& options, const host::execution& how, const const_bytes* base = nullptr);

// host::decode with whichever codec the frame needs.
outcome decode_frame(const_bytes frame, bytes out, uint64_t first_value, const host::execution& how);

// host::decode_delta likewise; `out` may be the base.
outcome decode_delta_frame(const_bytes frame, const_bytes base, bytes out, const host::execution& how);

// host::compact_deltas of deltas of one codec; `metadata` as for encode_frame. `which`: the delta at fault.
outcome compact_delta_frames(const std::vector<const_bytes>& deltas, bytes frame, const frame_options& options,
                             const host::execution& how, uint64_t& which);
// The most bytes that it writes.
uint64_t most_delta_bytes(const frame_header& delta, const_bytes metadata);

// The same by the device calls, on a GPU or on the simulator, whichever the program was built for. Throw where there is
// no device or it fails.
outcome encode_on_device(const codec_choice& choice, dtype type, const_bytes values, bytes frame,
                         const frame_options& options);
outcome decode_on_device(const_bytes frame, bytes out);

}  // namespace tuck::tools
