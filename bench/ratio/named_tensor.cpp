#include "named_tensor.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace tuck::bench {
namespace {

constexpr std::pair<std::string_view, const char*> kinds[] = {
    {"w", "weights"}, {"a", "activations"}, {"g", "gradients"}, {"m", "Adam's moments"}, {"kv", "keys and values"}};
constexpr std::pair<std::string_view, dtype> types[] = {
    {"bf16", dtype::bf16}, {"e4m3", dtype::f8e4m3}, {"e5m2", dtype::f8e5m2}};

template <class Table, class Found> Found value_of(const Table& table, std::string_view name, Found otherwise) {
  for (const auto& [known, value] : table)
    if (known == name) return value;
  return otherwise;
}

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (size_t end = 0; end != name.npos; name.remove_prefix(end == name.npos ? 0 : end + 1)) {
    end = name.find('_');
    parts.push_back(name.substr(0, end));
  }
  return parts;
}

// Whether `part` is "step" and a number, which becomes `step`.
bool is_step(std::string_view part, uint64_t& step) {
  constexpr std::string_view word = "step";
  const char* const end = part.data() + part.size();
  return part.substr(0, word.size()) == word &&
         std::from_chars(part.data() + word.size(), end, step) == std::from_chars_result{end, {}};
}

bool is_floating(dtype type) { return type > dtype::i64; }

}  // namespace

named_tensor read_tensor(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& reason) { throw tools::file_error(path.string(), reason); };
  named_tensor t;
  t.name = path.stem().string();
  t.file = tools::read_npy(path.string());
  if (tools::printable(t.name) != t.name) fail("its name has control characters");
  const std::vector<std::string_view> parts = parts_of(t.name);
  t.kind = value_of(kinds, parts.front(), "tensors");
  const tools::npy_header& header = t.file.header;
  const dtype named = value_of(types, parts.back(), dtype::none);
  t.type = is_floating(header.type) || size_of(header.type) != size_of(named) ? header.type : named;
  if (!is_floating(t.type)) fail("its values are integers; of bf16, e4m3 or e5m2, let its name end in _bf16 and so on");
  if (header.values == 0) fail("it has no values");
  for (const std::string_view part : parts) {
    if (!is_step(part, t.step)) continue;
    const auto at = static_cast<size_t>(part.data() - t.name.data());
    t.series = t.name.substr(0, at) + t.name.substr(std::min(at + part.size() + 1, t.name.size()));
  }
  return t;
}

double share_of_zeros(const_bytes values, dtype type) {
  const uint32_t size = size_of(type);
  uint64_t zeros = 0;
  for (uint64_t at = 0; at < values.size(); at += size) {
    uint64_t bits = 0;
    std::memcpy(&bits, values.data() + at, size);
    zeros += (bits & ~(uint64_t{1} << (8 * size - 1))) == 0;
  }
  return static_cast<double>(zeros * size) / static_cast<double>(values.size());
}

}  // namespace tuck::bench
