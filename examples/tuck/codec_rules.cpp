#include "codec_rules.hpp"

#include "codecs.hpp"
#include "commands.hpp"

#include <algorithm>

namespace tuck::tools {
namespace {

// Returns dtype::none for "*". Takes the names of safetensors too: "F8_E4M3" is f8e4m3.
dtype rule_type(std::string_view text) {
  if (text == "*") return dtype::none;
  std::string wanted;
  for (const char c : text)
    if (c != '_') wanted += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (uint8_t t = 1; size_of(dtype{t}) != 0; ++t)
    if (wanted == name(dtype{t})) return dtype{t};
  throw usage_error("unknown type '" + std::string(text) + "'; " +
                    (wanted == "bool" ? "booleans are u8" : "there are " + types_of("zvc") + " and *"));
}

void check_codec(std::string_view codec) {
  if (types_of(codec).empty()) throw usage_error(unknown_codec_text(codec));
}

std::string_view trimmed(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

bool takes(std::string_view codec, dtype type) { return choose_codec({std::string(codec), {}}, type) != nullptr; }

std::string refusal(std::string_view codec, dtype type) {
  return std::string(codec) + " takes " + types_of(codec) + ", not " + name(type);
}

}  // namespace

std::string unknown_codec_text(std::string_view codec) {
  std::string text = "unknown codec '" + std::string(codec) + "'; ";
  if (const size_t colon = codec.find(':'); colon != std::string_view::npos)
    text += "by type it is '" + std::string(codec).replace(colon, 1, "=") + "'; ";
  text += "there are ";
  for (const std::string& known : codec_names()) text += (text.ends_with(' ') ? "" : ", ") + known;
  return text;
}

codec_rules::codec_rules(const std::string& text) {
  if (text.find('=') == std::string::npos) {
    check_codec(trimmed(text));
    rules_[dtype::none] = trimmed(text);
    return;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view rule = trimmed(std::string_view(text).substr(begin, end - begin));
    const size_t equal = rule.find('=');
    if (equal == std::string_view::npos) throw usage_error("'" + std::string(rule) + "' is not TYPE=CODEC");
    add(trimmed(rule.substr(0, equal)), trimmed(rule.substr(equal + 1)));
    begin = end + 1;
  }
}

void codec_rules::add(std::string_view type_name, std::string_view codec) {
  const dtype type = rule_type(type_name);
  check_codec(codec);
  if (!rules_.emplace(type, codec).second) throw usage_error("two codecs for '" + std::string(type_name) + "'");
  if (type != dtype::none && !takes(codec, type)) throw usage_error(refusal(codec, type));
}

std::string_view codec_rules::rule_of(dtype type) const {
  auto found = rules_.find(type);
  if (found == rules_.end()) found = rules_.find(dtype::none);
  return found == rules_.end() ? std::string_view{} : found->second;
}

std::string_view codec_rules::codec_of(dtype type) const {
  const std::string_view codec = rule_of(type);
  return !codec.empty() && takes(codec, type) ? codec : std::string_view{};
}

std::string codec_rules::why_none(dtype type) const {
  const std::string_view codec = rule_of(type);
  return codec.empty() ? std::string("no codec for ") + name(type) : refusal(codec, type);
}

template <class Test> std::string_view codec_rules::first(const Test& test) const {
  const auto found = std::find_if(rules_.begin(), rules_.end(), [&](const auto& rule) { return test(rule.second); });
  return found == rules_.end() ? std::string_view{} : found->second;
}

std::string_view codec_rules::lossy() const { return first(is_lossy); }

std::string_view codec_rules::without_device_deltas() const {
  return first([](std::string_view codec) { return !has_device_deltas(codec); });
}

bool codec_rules::has_rows() const {
  return !first([](std::string_view codec) { return codec == codec_with_rows; }).empty();
}

}  // namespace tuck::tools
