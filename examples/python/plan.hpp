// How a tensor is to be encoded: what the caller asked for, and what that means for one tensor.
#pragma once

#include "array.hpp"
#include "support/npy.hpp"

#include <tuck/frame/reader.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tuck::python {

// How tensors are to be encoded, with what the last one needed: the next one is often like it.
struct encode_settings {
  std::string codec, as;
  int mode;
  double bound;
  bool checksums;
  unsigned threads;
  bool for_gpu;       // whether a GPU takes the chunks; other deltas have larger ones
  bool has_metadata;  // whether frames say the shape

  std::array<std::shared_ptr<tools::chosen_codec>, 16> codecs = {};  // by type
  dtype last_type = dtype::none;
  std::vector<uint64_t> last_shape = {};
  bool last_is_boolean = false;
  std::string last_prelude = {};

  // Without a name: the codec of deltas.
  std::string name_of(dtype type) const { return codec.empty() ? tools::delta_codec(type) : codec; }
  const std::shared_ptr<tools::chosen_codec>& codec_of(dtype type, const std::vector<uint64_t>& shape,
                                                       bool is_boolean) {
    auto& chosen = codecs[static_cast<size_t>(type)];
    if (chosen == nullptr || (codec == tools::codec_with_rows && (last_type != type || last_shape != shape))) {
      codec_choice choice = choice_of(name_of(type), mode, bound);
      choice.row = tools::row_length(shape);
      chosen = codec_for(choice, type, is_boolean);
    }
    return chosen;
  }
  const std::string& prelude_of(dtype type, const std::vector<uint64_t>& shape, bool is_boolean) {
    if (last_type != type || last_shape != shape || last_is_boolean != is_boolean) {
      last_prelude = tools::make_npy_prelude(type, shape, is_boolean);
      last_type = type;
      last_is_boolean = is_boolean;
      last_shape = shape;
    }
    return last_prelude;
  }
};

// How one tensor is to be encoded, checked before memory is allocated for the frame.
struct plan {
  std::shared_ptr<tools::chosen_codec> codec;
  dtype type;
  uint64_t count = 1;
  const_bytes values;
  std::string metadata;
  frame_options options;

  plan(dtype of, const std::vector<uint64_t>& shape, bool is_boolean, encode_settings& how, bool is_delta) : type(of) {
    for (const uint64_t size : shape) count *= size;
    codec = how.codec_of(type, shape, is_boolean);
    if (how.has_metadata) metadata = how.prelude_of(type, shape, is_boolean);
    options.checksums = how.checksums;
    options.metadata = {reinterpret_cast<const std::byte*>(metadata.data()), metadata.size()};
    if (is_delta) options.alignment = tools::delta_alignment;
    if (const std::string called = how.name_of(type); is_delta && !how.for_gpu && tools::is_delta_codec(called))
      options.chunk_values = tools::most_chunk_values(called, type);
  }
  plan(const array& x, encode_settings& how, bool is_delta)
      : plan(x.type(how.as, "the tensor"), x.shape(), x.is_boolean(how.as), how, is_delta) {
    values = x.all();
    if (!tuck::aligned(values.data(), size_of(type))) check(status::misaligned, "the tensor");
  }
  uint64_t most_bytes(const encode_settings& how) const {
    const tools::frame_plan sizes = codec->plan(count, options);
    check(sizes.code, "codec '" + how.codec + "'");
    return sizes.most_bytes;
  }
};

inline frame_header header_of(const_bytes frame) {
  frame_header h;
  check(inspect(frame, h));
  return h;
}

// What the metadata of a frame says of the tensor, as NumPy's header. Without it, the tensor has one dimension.
inline tools::npy_header tensor_of(const_bytes frame, const frame_header& h) {
  const uint64_t end = sizeof(frame_header) + h.metadata_bytes;
  if (h.metadata_bytes != 0 && end <= frame.size()) {
    try {
      tools::npy_header npy = tools::parse_npy_header(frame.subspan(sizeof(frame_header), h.metadata_bytes), "");
      npy.is_boolean = npy.is_boolean && h.type == dtype::u8;
      if (npy.values == h.value_count && npy.element_bytes == 0) return npy;
    } catch (const std::exception&) {  // other metadata than ours
    }
  }
  tools::npy_header npy;
  npy.shape = {h.value_count};
  return npy;
}

// Checks the array for the values of a frame.
inline bytes room_for(const_bytes frame, const array& out, const std::string& as) {
  const frame_header h = header_of(frame);
  const uint64_t size = h.value_count * size_of(h.type);
  check_type(h, out, as, "out");
  if (h.type == dtype::u8 && out.is_boolean(as) && !tensor_of(frame, h).is_boolean)
    refuse(refusal::unknown_type, "out has dtype bool, the frame u8; a view of out as uint8 takes its values");
  if (out.bytes() != size)
    refuse(refusal::wrong_size,
           "out has " + std::to_string(out.bytes()) + " bytes; the tensor has " + std::to_string(size));
  if (!tuck::aligned(out.data(), size_of(h.type))) check(status::misaligned, "out");
  return out.all();
}

}  // namespace tuck::python
