// The codecs of the program, for codec names and element types that are known only at run time.
#pragma once

#include <tuck/codec/quantize/quantizer.hpp>
#include <tuck/frame/host.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tuck::tools {

// Returns the names for --codec, without repetition. A name consists of the names of the codec's stages, joined by "+".
std::vector<std::string> codec_names();

std::string stage_names(const stage_list& stages);

// The name of a codec and its parameters: for lossy codecs the error bound, for chains with rows the row length.
struct codec_choice {
  std::string name = "zvc";
  error_bound bound = error_bound::range_relative(1e-3);
  uint32_t row = 1;  // in values, not 0
};

// The chain that takes a row length.
inline constexpr const char* codec_with_rows = "rows+zvc+huffman";

bool is_lossy(std::string_view codec);

// The default codec of deltas of a type, and the alignment in bytes. Chunks are as large as the codec takes them.
const char* delta_codec(dtype type);
// Returns whether this codec is one of those.
bool is_delta_codec(std::string_view codec);
inline constexpr uint32_t delta_alignment = 16;

// Codecs whose deltas the device encodes and decodes. Each takes four kernels per element size.
inline constexpr std::string_view device_delta_codecs[] = {"rle", "steps", "zvc", "zvc+huffman"};

// Returns the most values that a chunk of this codec may have.
uint32_t most_chunk_values(std::string_view codec, dtype type);
// The largest chunk that encode_on_device takes, in bytes of values.
inline constexpr uint32_t most_device_chunk_bytes = 16 * 1024;

// Returns the element types that a codec accepts, for example "f16, bf16, f32".
std::string types_of(std::string_view codec);

// The error bound that a frame was encoded with. bound_of returns nothing for lossless codecs.
struct stored_bound {
  bound_mode mode;
  double requested;
  double effective;  // absolute, unless the mode is pointwise
};
std::optional<stored_bound> bound_of(const stage_list& stages);

// The worst-case size and the number of chunks of a frame that has not been encoded yet.
struct frame_plan {
  status code = status::codec_mismatch;
  uint64_t most_bytes = 0;
  uint64_t chunks = 0;
};

// A codec for elements of one type: a run-time interface to the templates of the library. All codecs are compiled once,
// behind it (codecs_of.hpp). The functions call those of the same name in tuck::host. Tensors consist of whole elements
// and are aligned for their type.
class chosen_codec {
 public:
  virtual ~chosen_codec() = default;

  virtual frame_plan plan(uint64_t count, const frame_options& options) const = 0;
  // With a base, calls host::encode_delta.
  virtual outcome encode(const_bytes values, bytes frame, const frame_options& options, const host::execution& how,
                         const const_bytes* base = nullptr) const = 0;
  virtual outcome decode(const_bytes frame, bytes values, uint64_t first_value, const host::execution& how) const = 0;
  virtual outcome decode_delta(const_bytes frame, const_bytes base, bytes values, const host::execution& how,
                               const delta_options& options) const = 0;
  virtual outcome compact(const std::vector<const_bytes>& deltas, const_bytes base, bytes frame,
                          const frame_options& options, const host::execution& how, uint64_t& which) const = 0;
};
// Returns null if no codec has this name and accepts this type.
std::unique_ptr<chosen_codec> choose_codec(const codec_choice& choice, dtype type);

// The same in one call. Return codec_mismatch if no codec has this name and accepts this type.
frame_plan plan_frame(const codec_choice& choice, dtype type, uint64_t count, const frame_options& options);
outcome encode_frame(const codec_choice& choice, dtype type, const_bytes values, bytes frame,
                     const frame_options& options, const host::execution& how, const const_bytes* base = nullptr);

// Calls host::decode with the codec that the frame names.
outcome decode_frame(const_bytes frame, bytes out, uint64_t first_value, const host::execution& how);

// Calls host::decode_delta with the codec that the frame names. `out` may be the base.
outcome decode_delta_frame(const_bytes frame, const_bytes base, bytes out, const host::execution& how,
                           const delta_options& options = {});

// Calls host::compact_deltas on deltas of one codec. Sets `which` to the index of the faulty delta after an error.
// `base`: that of the first delta, aligned for its type.
outcome compact_delta_frames(const std::vector<const_bytes>& deltas, const_bytes base, bytes frame,
                             const frame_options& options, const host::execution& how, uint64_t& which);
// Returns the maximum size in bytes of the frame that compact_delta_frames writes.
uint64_t most_delta_bytes(const frame_header& delta, const_bytes metadata);

// Encode and decode with the device calls, on a GPU or on the simulator, depending on how the program was built. Throw
// if there is no device or if it fails. To decode a delta, `out` contains the base.
outcome encode_on_device(const codec_choice& choice, dtype type, const_bytes values, bytes frame,
                         const frame_options& options, const const_bytes* base = nullptr);
outcome decode_on_device(const_bytes frame, bytes out);

}  // namespace tuck::tools
