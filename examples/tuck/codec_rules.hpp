// The option --codec: one codec for all tensors, or one for each element type.
#pragma once

#include <tuck/core/dtype.hpp>

#include <map>
#include <string>
#include <string_view>

namespace tuck::tools {

// "unknown codec 'zip'; there are zvc, rle ...".
std::string unknown_codec_text(std::string_view codec);

// "zvc", or "f32=quantize,bf16=codebooks,*=zvc". "*" stands for all types without a rule of their own. Types are those
// of the library, so booleans, and types that it does not have, are u8. Spaces around names are ignored.
class codec_rules {
 public:
  // Throws usage_error for an unknown or repeated type, an unknown codec, or a codec that does not take its type.
  explicit codec_rules(const std::string& text);

  // Returns the codec for elements of this type. Returns an empty name if there is none, or if it does not take them.
  std::string_view codec_of(dtype type) const;
  // Returns why codec_of returns an empty name.
  std::string why_none(dtype type) const;
  // Return a codec of the rules that is lossy, and one whose deltas the device does not have. Return an empty name if
  // there is none.
  std::string_view lossy() const;
  std::string_view without_device_deltas() const;
  // Returns whether a codec of the rules is codec_with_rows.
  bool has_rows() const;

 private:
  void add(std::string_view type, std::string_view codec);
  std::string_view rule_of(dtype type) const;
  template <class Test> std::string_view first(const Test& test) const;

  std::map<dtype, std::string> rules_;  // dtype::none: "*"
};

}  // namespace tuck::tools
