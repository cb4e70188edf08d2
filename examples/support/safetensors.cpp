#include "support/safetensors.hpp"

#include <tuck/core/bits.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace tuck::tools {
namespace {

constexpr uint64_t length_bytes = 8;
constexpr uint64_t most_header_bytes = 100'000'000;  // limit of the reference implementation
constexpr uint64_t data_alignment = 64;
constexpr const char* metadata_key = "__metadata__";

// All types of safetensors 0.8, those of the library first.
struct file_type {
  std::string_view name;
  dtype type;
  uint32_t bits;
};
constexpr file_type file_types[] = {
    {"U8", dtype::u8, 8},          {"I8", dtype::i8, 8},          {"F8_E4M3", dtype::f8e4m3, 8},
    {"F8_E5M2", dtype::f8e5m2, 8}, {"U16", dtype::u16, 16},       {"I16", dtype::i16, 16},
    {"F16", dtype::f16, 16},       {"BF16", dtype::bf16, 16},     {"U32", dtype::u32, 32},
    {"I32", dtype::i32, 32},       {"F32", dtype::f32, 32},       {"U64", dtype::u64, 64},
    {"I64", dtype::i64, 64},       {"F64", dtype::f64, 64},       {"BOOL", dtype::u8, 8},
    {"F4", dtype::u8, 4},          {"F6_E2M3", dtype::u8, 6},     {"F6_E3M2", dtype::u8, 6},
    {"F8_E8M0", dtype::u8, 8},     {"F8_E4M3FNUZ", dtype::u8, 8}, {"F8_E5M2FNUZ", dtype::u8, 8},
    {"C64", dtype::u8, 64}};

// Returns null for a type that is not known.
const file_type* find_type(std::string_view name) noexcept {
  const auto* const found =
      std::find_if(std::begin(file_types), std::end(file_types), [&](const file_type& t) { return t.name == name; });
  return found == std::end(file_types) ? nullptr : found;
}

// Builds the value of the text, as json::parse does, but stops at the second of two equal keys. A callback for the
// parser could do so too, but with one, nlohmann's parser looks through all members of an object after each of them.
class json_builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  nlohmann::json root;
  std::optional<std::string> repeated;  // the key
  std::vector<std::string> names;       // the keys of the whole, in order

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(nlohmann::json::object()); }
  bool start_array(size_t) override { return open(nlohmann::json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    nlohmann::json& object = *open_.back();
    if (open_.size() <= checked_depth && object.contains(name)) repeated = name;
    if (open_.size() == 1) names.push_back(name);
    member_ = &object[name];
    return !repeated;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  static constexpr size_t checked_depth = 2;  // tensors, and what describes them; what is deeper has no meaning

  nlohmann::json& place(nlohmann::json value) {
    if (open_.empty()) return root = std::move(value);
    if (!open_.back()->is_array()) return *member_ = std::move(value);
    open_.back()->push_back(std::move(value));
    return open_.back()->back();
  }
  bool add(nlohmann::json value) { return place(std::move(value)), true; }
  bool open(nlohmann::json empty) { return open_.push_back(&place(std::move(empty))), true; }
  bool close() { return open_.pop_back(), true; }

  std::vector<nlohmann::json*> open_;
  nlohmann::json* member_ = nullptr;  // of the innermost object
};

// Parses the text as a JSON object. Rejects duplicate keys. `names`: receives the keys in order.
nlohmann::json parse_once(const std::string& text, const std::string& file, std::vector<std::string>& names) {
  // To the parser, this byte is the end of the text.
  if (text.find('\0') != std::string::npos) throw file_error(file, "the safetensors header has a byte 0");
  json_builder builder;
  const bool parsed = nlohmann::json::sax_parse(text, &builder);
  if (builder.repeated) throw file_error(file, "the safetensors header has two '" + *builder.repeated + "'");
  if (!parsed || !builder.root.is_object()) throw file_error(file, "the safetensors header is not a JSON object");
  names = std::move(builder.names);
  return std::move(builder.root);
}

class tensor_reader {
 public:
  tensor_reader(const std::string& name, const nlohmann::json& described, const std::string& file)
      : name_(name), described_(described), file_(file) {
    if (!described.is_object()) fail("its description is not a JSON object");
  }

  named_tensor read() const {
    named_tensor t{.name = name_, .dtype = {}, .shape = numbers("shape")};
    const nlohmann::json& type = field("dtype");
    if (!type.is_string()) fail("its 'dtype' is not a string");
    t.dtype = type;
    const std::vector<uint64_t> place = numbers("data_offsets");
    if (place.size() != 2 || place[0] > place[1]) fail("its 'data_offsets' are not a begin and an end");
    t.begin = place[0], t.end = place[1];
    check_size(t);
    return t;
  }

 private:
  // Checks that the values have as many bytes as type and shape need.
  void check_size(const named_tensor& t) const {
    const uint64_t values = multiply(t.shape), bytes = t.end - t.begin;
    const std::string apart = "its 'data_offsets' are " + std::to_string(bytes) + " bytes apart, ";
    if (const file_type* const known = find_type(t.dtype)) {
      const uint64_t group = 8 / std::gcd(8u, known->bits);  // values that are whole bytes together
      if (values % group != 0) fail("its " + std::to_string(values) + " values of " + t.dtype + " are no whole bytes");
      const uint64_t needed = multiply({values / group, group * known->bits / 8});
      if (bytes != needed) fail(apart + "its shape needs " + std::to_string(needed));
    } else if (values == 0 ? bytes != 0 : bytes == 0 || saturating_mul(bytes, 8) % values != 0) {
      fail(apart + "no whole number of bits for each of its " + std::to_string(values) + " values");
    }
  }

  // Multiplies in order, as the reference implementation does: a 0 behind a product of more than 64 bits does not help.
  uint64_t multiply(const std::vector<uint64_t>& factors) const {
    uint64_t product = 1;
    for (const uint64_t factor : factors) {
      if (factor != 0 && product > ~uint64_t{0} / factor) fail("the shape is too large");
      product *= factor;
    }
    return product;
  }

  const nlohmann::json& field(const char* key) const {
    const auto found = described_.find(key);
    if (found == described_.end()) fail(std::string("it has no '") + key + "'");
    return *found;
  }
  std::vector<uint64_t> numbers(const char* key) const {
    const nlohmann::json& list = field(key);
    const auto is_number = [](const nlohmann::json& n) { return n.is_number_unsigned(); };
    if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_number))
      fail(std::string("its '") + key + "' is not a list of sizes");
    return list;
  }
  [[noreturn]] void fail(const std::string& reason) const { throw file_error(file_, about_tensor(name_) + reason); }

  const std::string& name_;
  const nlohmann::json& described_;
  const std::string& file_;
};

// Sorts tensors by the offsets of their values, which must have no gaps or overlaps. Returns the end of the data.
uint64_t check_places(std::vector<named_tensor>& tensors, const std::string& file) {
  std::sort(tensors.begin(), tensors.end(), [](const named_tensor& a, const named_tensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t end = 0;
  const std::string* before = nullptr;
  for (const named_tensor& t : tensors) {
    if (t.begin < end) throw file_error(file, about_tensor(t.name) + "its values overlap those of '" + *before + "'");
    if (t.begin > end)
      throw file_error(file, about_tensor(t.name) + "the " + std::to_string(t.begin - end) +
                                 " bytes before its values belong to no tensor");
    end = t.end;
    before = &t.name;
  }
  return end;
}

bool is_utf8(const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace

dtype named_tensor::type() const noexcept {
  const file_type* const known = find_type(dtype);
  return known == nullptr ? tuck::dtype::u8 : known->type;
}

std::string file_type_of(dtype type) {
  const auto* const found =
      std::find_if(std::begin(file_types), std::end(file_types), [&](const file_type& t) { return t.type == type; });
  return std::string(found == std::end(file_types) ? std::begin(file_types)->name : found->name);
}

safetensors_header parse_safetensors_header(std::string text, const std::string& file) {
  safetensors_header header;
  const nlohmann::json parsed = parse_once(text, file, header.names);
  std::erase(header.names, metadata_key);
  for (const auto& [name, described] : parsed.items()) {
    if (name != metadata_key) {
      header.tensors.push_back(tensor_reader(name, described, file).read());
      continue;
    }
    if (described.is_null()) continue;  // as if there were none
    const auto is_text = [](const nlohmann::json& value) { return value.is_string(); };
    if (!described.is_object() || !std::all_of(described.begin(), described.end(), is_text))
      throw file_error(file, "its '__metadata__' is not an object of strings");
    header.metadata = described;
  }
  header.data_bytes = check_places(header.tensors, file);
  header.text = std::move(text);
  return header;
}

bool looks_like_safetensors(const_bytes content) noexcept {
  const std::string_view all(reinterpret_cast<const char*>(content.data()), content.size());
  const size_t first = all.find_first_not_of(" \t\n\r", length_bytes);
  return first != std::string_view::npos && all[first] == '{' && !all.starts_with("\x93NUMPY") &&
         !all.starts_with("TUCK");
}

safetensors_file read_safetensors(const std::string& path) { return parse_safetensors(read_file(path), path); }

namespace {

// Throws file_error unless a header of `length` bytes can be in a file that has `there` bytes after the length.
void check_length(uint64_t length, uint64_t there, const std::string& path) {
  if (length == 0 || length > most_header_bytes) throw file_error(path, "not a safetensors file");
  if (length > there)
    throw file_error(path, "truncated safetensors header: " + std::to_string(there) + " bytes of " +
                               std::to_string(length) + " are there");
}

// Throws file_error unless the file has the `data` bytes that its header describes.
void check_data(const safetensors_header& header, uint64_t data, const std::string& path) {
  const uint64_t needed = header.data_bytes;
  for (const named_tensor& t : header.tensors)
    if (t.end > data)
      throw file_error(path, about_tensor(t.name) + "its values end at byte " + std::to_string(t.end) +
                                 " of the data, of which " + std::to_string(data) + " are there");
  if (data > needed)
    throw file_error(path, std::to_string(data - needed) + (data - needed == 1 ? " byte" : " bytes") +
                               " after the values of all tensors");
}

}  // namespace

safetensors_header read_safetensors_header(const std::string& path, uint64_t& first) {
  input_file file(path);
  const uint64_t there = file.size() - std::min(file.size(), length_bytes);
  uint64_t length = 0;
  if (file.size() >= length_bytes) file.read({reinterpret_cast<std::byte*>(&length), length_bytes});
  check_length(length, there, path);
  std::string text(length, '\0');
  file.read({reinterpret_cast<std::byte*>(text.data()), length});
  safetensors_header header = parse_safetensors_header(std::move(text), path);
  check_data(header, there - length, path);
  first = length_bytes + length;
  return header;
}

safetensors_file parse_safetensors(byte_buffer content, const std::string& path) {
  safetensors_file file;
  file.content = std::move(content);
  const const_bytes all = file.content.all();
  const uint64_t there = all.size() - std::min(all.size(), length_bytes);
  const uint64_t length = all.size() < length_bytes ? 0 : load_unaligned<uint64_t>(all.data());
  check_length(length, there, path);
  if (!looks_like_safetensors(all)) throw file_error(path, "not a safetensors file");
  const char* const text = reinterpret_cast<const char*>(all.data()) + length_bytes;
  file.header = parse_safetensors_header({text, length}, path);
  check_data(file.header, there - length, path);
  const uint64_t needed = file.header.data_bytes;
  // As with .npy, the data are moved down to an aligned offset. They may overwrite the header, which has been copied.
  file.first = length_bytes + length;
  if (const uint64_t aligned = file.first & ~uint64_t{7}; aligned != file.first && needed != 0) {
    std::memmove(file.content.all().data() + aligned, file.content.all().data() + file.first, needed);
    file.first = aligned;
  }
  return file;
}

std::string safetensors_prelude(const std::string& text) {
  std::string prelude;
  for (uint64_t i = 0; i < length_bytes; ++i) prelude += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return prelude + text;
}

std::string make_safetensors_header(const std::vector<named_tensor>& tensors,
                                    const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json::object_t header = {{metadata_key, metadata}};
  for (const named_tensor& t : tensors)  // the base class does not look for the same key
    static_cast<nlohmann::ordered_json::object_t::Container&>(header).emplace_back(
        t.name, nlohmann::ordered_json{{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {t.begin, t.end}}});
  std::string text = nlohmann::ordered_json(std::move(header)).dump();
  text.append((data_alignment - (length_bytes + text.size()) % data_alignment) % data_alignment, ' ');
  return text;
}

safetensors_header header_of_tensors(std::vector<named_tensor> tensors, const std::string& file) {
  std::vector<named_tensor*> order;
  for (named_tensor& t : tensors) order.push_back(&t);
  std::stable_sort(order.begin(), order.end(), [](const named_tensor* a, const named_tensor* b) {
    return size_of(a->type()) > size_of(b->type());
  });
  uint64_t end = 0;
  for (named_tensor* const t : order) {
    t->begin = end;
    t->end = end += t->end;
  }
  for (const named_tensor& t : tensors)
    if (!is_utf8(t.name))
      throw file_error(file, about_tensor(t.name) + "names in safetensors files are UTF-8, and this one is not");
  std::string text = make_safetensors_header(tensors, {});
  return parse_safetensors_header(std::move(text), file);
}

std::string about_tensor(const std::string& name) {
  constexpr size_t most = 80;
  return "tensor '" + name.substr(0, most) + (name.size() > most ? "..." : "") + "': ";
}

}  // namespace tuck::tools
