#include "support/npy.hpp"

#include <tuck/core/bits.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

namespace tuck::tools {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr uint64_t alignment = 64;

constexpr bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct named_type {
  std::string_view name;  // without the byte order
  dtype type;
};
constexpr named_type known_types[] = {
    {"u1", dtype::u8},  {"i1", dtype::i8},  {"b1", dtype::u8},  {"u2", dtype::u16}, {"i2", dtype::i16},
    {"f2", dtype::f16}, {"u4", dtype::u32}, {"i4", dtype::i32}, {"f4", dtype::f32}, {"u8", dtype::u64},
    {"i8", dtype::i64}, {"f8", dtype::f64}, {"?", dtype::u8},
};
// How NumPy saves types that it does not have itself, such as those of ml_dtypes.
constexpr named_type opaque_types[] = {{"V1", dtype::u8}, {"f1", dtype::u8}, {"V2", dtype::u16}};

// The element type of a descr in this table; none where there is no such one. Single bytes have no order to be wrong.
dtype type_of(std::string_view descr, span<const named_type> types) {
  const char order = descr.empty() ? '\0' : descr.front();
  if (order == '<' || order == '>' || order == '=' || order == '|') descr.remove_prefix(1);
  for (const named_type& known : types)
    if (known.name == descr) return order == '>' && size_of(known.type) > 1 ? dtype::none : known.type;
  return dtype::none;
}

// The bytes of an element of another type with a fixed size, such as "<c8", ">f4", "|S5" or "<M8[ns]"; 0 where there is
// none.
uint32_t element_bytes(std::string_view descr) {
  if (descr.empty()) return 0;
  if (descr.front() == '>')
    for (const named_type& known : known_types)
      if (known.name == descr.substr(1)) return size_of(known.type);
  if (descr.front() == '<' || descr.front() == '>' || descr.front() == '=' || descr.front() == '|')
    descr.remove_prefix(1);
  for (const std::string_view time : {"M8", "m8"})
    if (descr == time || (descr.substr(0, 3) == std::string(time) + "[" && descr.back() == ']')) return 8;
  for (const auto& [name, bytes] : {std::pair{"c8", 8}, {"c16", 16}, {"f16", 16}, {"c32", 32}})
    if (descr == name) return static_cast<uint32_t>(bytes);
  if (descr.empty() || std::string_view("SUV").find(descr.front()) == std::string_view::npos) return 0;
  uint32_t size = 0;
  const char* const end = descr.data() + descr.size();
  if (std::from_chars(descr.data() + 1, end, size) != std::from_chars_result{end, {}}) return 0;
  const uint64_t bytes = uint64_t{size} * (descr.front() == 'U' ? 4 : 1);
  return bytes >> 31 == 0 ? static_cast<uint32_t>(bytes) : 0;
}

// The literal of a Python dict with NumPy's three keys. Keeps to what numpy.lib.format accepts, keys in any order.
class dict_reader {
 public:
  dict_reader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  void read(npy_header& header);

 private:
  void read_item(npy_header& header);
  void descr(npy_header& header);
  bool boolean();
  std::vector<uint64_t> shape();
  uint64_t dimension();
  std::string quoted();

  char peek();
  bool accept(char c);
  void expect(char c);
  [[noreturn]] void fail(const std::string& reason) const { throw file_error(file_, reason); }
  [[noreturn]] void malformed(const std::string& expected) const {
    fail("malformed .npy header: " + expected + " expected at its character " + std::to_string(at_));
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
  bool has_descr_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

void dict_reader::read(npy_header& header) {
  expect('{');
  while (peek() != '}') {
    read_item(header);
    if (!accept(',')) break;
  }
  expect('}');
  if (peek() != '\0' || at_ != text_.size()) malformed("the end");
  if (!has_descr_) fail("the .npy header has no 'descr'");
  if (!has_order_) fail("the .npy header has no 'fortran_order'");
  if (!has_shape_) fail("the .npy header has no 'shape'");
}

void dict_reader::read_item(npy_header& header) {
  const std::string key = quoted();
  const auto once = [&](bool& seen) {
    if (seen) fail("the .npy header has two '" + key + "'");
    seen = true;
    expect(':');
  };
  if (key == "descr") {
    once(has_descr_);
    descr(header);
  } else if (key == "fortran_order") {
    once(has_order_);
    header.fortran_order = boolean();
  } else if (key == "shape") {
    once(has_shape_);
    header.shape = shape();
  } else {
    fail("the .npy header has an unknown key '" + key + "'");
  }
}

void dict_reader::descr(npy_header& header) {
  if (peek() == '[' || peek() == '(') fail("unsupported dtype: a structured one");
  const std::string name = quoted();
  header.type = type_of(name, known_types);
  header.is_boolean = name.ends_with("b1") || name.ends_with('?');
  if (header.type != dtype::none) return;
  header.type = type_of(name, opaque_types);
  if (header.type == dtype::none) {
    header.type = dtype::u8;
    header.element_bytes = element_bytes(name);
    if (header.element_bytes == 0) fail("unsupported dtype '" + name + "'");
  }
  header.opaque = name;
}

bool dict_reader::boolean() {
  static_cast<void>(peek());
  for (const bool value : {false, true}) {
    const std::string_view word = value ? "True" : "False";
    if (text_.substr(at_, word.size()) != word) continue;
    at_ += word.size();
    return value;
  }
  malformed("True or False");
}

std::vector<uint64_t> dict_reader::shape() {
  std::vector<uint64_t> dimensions;
  expect('(');
  bool comma = true;
  while (peek() != ')') {
    if (!comma) malformed("','");
    dimensions.push_back(dimension());
    comma = accept(',');
  }
  // To Python, (3) is a number in parentheses.
  if (dimensions.size() == 1 && !comma) malformed("','");
  expect(')');
  return dimensions;
}

uint64_t dict_reader::dimension() {
  if (!is_digit(peek())) malformed("a dimension");
  uint64_t value = 0;
  for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
    const auto digit = static_cast<uint64_t>(text_[at_] - '0');
    if (value > (~uint64_t{0} - digit) / 10) fail("the shape is too large");
    value = value * 10 + digit;
  }
  if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote its long integers so
  return value;
}

std::string dict_reader::quoted() {
  const char quote = peek();
  if (quote != '\'' && quote != '"') malformed("a string");
  const size_t end = text_.find(quote, at_ + 1);
  if (end == std::string_view::npos) malformed("the end of the string");
  std::string content(text_.substr(at_ + 1, end - at_ - 1));
  at_ = end + 1;
  return content;
}

// The next character that is no space, not taken; 0 at the end.
char dict_reader::peek() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool dict_reader::accept(char c) {
  if (peek() != c) return false;
  ++at_;
  return true;
}

void dict_reader::expect(char c) {
  if (!accept(c)) malformed(std::string("'") + c + "'");
}

// Values of a shape of elements of value_bytes. Nothing for an array that is too large for NumPy: its bytes must fit 63
// bits, counted without dimensions of 0.
std::optional<uint64_t> count_values(const std::vector<uint64_t>& shape, uint32_t value_bytes) {
  uint64_t values = 1;
  for (const uint64_t dimension : shape) values = saturating_mul(values, std::max<uint64_t>(dimension, 1));
  if (saturating_mul(values, value_bytes) >> 63 != 0) return {};
  return std::find(shape.begin(), shape.end(), 0u) != shape.end() ? 0 : values;
}

std::string bytes_text(uint64_t count) { return std::to_string(count) + (count == 1 ? " byte" : " bytes"); }

std::string joined(const std::vector<uint64_t>& shape, const char* between) {
  std::string text;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) text += between;
    text += std::to_string(shape[i]);
  }
  return text;
}

// Where the textual header is: after magic, version and its own length.
struct header_place {
  uint64_t begin = 0;
  uint64_t end = 0;
};

header_place place_of_header(std::string_view content, const std::string& file) {
  if (content.substr(0, magic.size()) != magic.substr(0, content.size()) || content.empty())
    throw file_error(file, "not a .npy file");
  const auto need = [&](uint64_t size) {
    if (content.size() < size)
      throw file_error(file, "truncated .npy header: " + bytes_text(content.size()) + " of " + std::to_string(size));
  };
  need(magic.size() + 4);
  const auto major = static_cast<unsigned char>(content[6]);
  const auto minor = static_cast<unsigned char>(content[7]);
  if (major < 1 || major > 3 || minor != 0)
    throw file_error(file, "unsupported .npy version " + std::to_string(major) + "." + std::to_string(minor));
  const uint64_t begin = major == 1 ? 10 : 12;
  need(begin);
  const std::byte* const length = bytes_of(content).data() + 8;
  const uint64_t end = begin + (major == 1 ? load_unaligned<uint16_t>(length) : load_unaligned<uint32_t>(length));
  need(end);
  return {begin, end};
}

}  // namespace

npy_header parse_npy_header(const_bytes content, const std::string& file) {
  const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
  const auto [begin, end] = place_of_header(text, file);
  npy_header header;
  dict_reader(text.substr(begin, end - begin), file).read(header);
  header.fortran_order = header.fortran_order && header.shape.size() > 1;
  if (header.element_bytes != 0) header.shape.push_back(header.element_bytes);
  const std::optional<uint64_t> values = count_values(header.shape, size_of(header.type));
  if (!values) throw file_error(file, "the shape is too large");
  header.values = *values;
  header.prelude = text.substr(0, end);
  return header;
}

npy_file read_npy(const std::string& path) {
  npy_file file = parse_npy(read_file(path), path);
  if (file.header.element_bytes != 0) throw file_error(path, "unsupported dtype '" + file.header.opaque + "'");
  return file;
}

npy_file parse_npy(byte_buffer content, const std::string& path) {
  npy_file file;
  file.content = std::move(content);
  file.header = parse_npy_header(file.content.all(), path);
  file.first = file.header.prelude.size();
  const uint64_t there = file.content.size() - file.first;
  const uint64_t needed = file.header.values * size_of(file.header.type);
  if (there < needed)
    throw file_error(
        path, "truncated: " + bytes_text(there) + " of data are there and " + std::to_string(needed) + " are needed");
  if (there > needed)
    throw file_error(path, bytes_text(there - needed) + " after the data, which need " + std::to_string(needed));
  // NumPy aligns its data, others need not. The values then move down over the prelude, which has been copied.
  if (const uint64_t aligned = file.first & ~uint64_t{7}; aligned != file.first) {
    std::memmove(file.content.all().data() + aligned, file.content.all().data() + file.first, needed);
    file.first = aligned;
  }
  return file;
}

std::string make_npy_prelude(dtype type, const std::vector<uint64_t>& shape, bool is_boolean) {
  const dtype stored = type == dtype::bf16 ? dtype::u16 : type > dtype::f64 ? dtype::u8 : type;
  std::string dict = "{'descr': '";
  dict += size_of(stored) == 1 ? '|' : '<';
  dict +=
      is_boolean ? "b1" : std::find_if(std::begin(known_types), std::end(known_types), [&](const named_type& known) {
                            return known.type == stored;
                          })->name;
  dict += "', 'fortran_order': False, 'shape': (";
  dict += joined(shape, ", ") + (shape.size() == 1 ? ",), }" : "), }");

  // Version 2.0 only where the header's length needs more than 16 bits.
  const auto padded = [&](uint64_t before) {
    return (before + dict.size() + 1 + alignment - 1) / alignment * alignment;
  };
  const bool wide = padded(10) - 10 > 0xffff;
  const uint64_t before = wide ? 12 : 10;
  const uint64_t length = padded(before) - before;
  std::string prelude(magic);
  prelude += wide ? '\2' : '\1';
  prelude += '\0';
  for (uint64_t i = 0; i < before - 8; ++i) prelude += static_cast<char>(length >> (8 * i) & 0xff);
  prelude += dict + std::string(length - dict.size() - 1, ' ') + '\n';
  return prelude;
}

void write_npy(const std::string& path, dtype type, const std::vector<uint64_t>& shape, const_bytes data) {
  output_file file(path);
  file.write(bytes_of(make_npy_prelude(type, shape)));
  file.write(data);
  file.commit();
}

std::vector<std::filesystem::path> npy_files(const std::string& directory, bool deep) {
  std::error_code error, none;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::recursive_directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!deep) entry.disable_recursion_pending();
    if (entry->path().extension() != ".npy" || entry->is_directory(none)) continue;
    if (entry->is_fifo(none)) throw file_error(entry->path().native(), "not a regular file");
    files.push_back(entry->path());
  }
  if (error) throw file_error(directory, error.message());
  if (files.empty()) throw file_error(directory, "there are no .npy files");
  std::sort(files.begin(), files.end());
  return files;
}

uint32_t row_length(const std::vector<uint64_t>& shape, bool fortran_order) {
  const uint64_t length = shape.empty() ? 1 : fortran_order ? shape.front() : shape.back();
  return static_cast<uint32_t>(std::clamp<uint64_t>(length, 1, ~uint32_t{0}));
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  if (shape.empty()) return "scalar";
  return joined(shape, "x");
}

std::string array_text(const npy_header& header) {
  return std::string(name(header.type)) + " " + shape_text(header.shape) +
         (header.fortran_order ? " in Fortran order" : "");
}

}  // namespace tuck::tools
