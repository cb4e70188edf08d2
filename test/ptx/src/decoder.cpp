#include "decoder.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <unordered_map>

namespace ptx {

std::string_view trimmed(std::string_view s) {
  const auto first = s.find_first_not_of(" \t\r\n");
  return first == s.npos ? std::string_view() : s.substr(first, s.find_last_not_of(" \t\r\n") - first + 1);
}

// At commas outside of brackets.
std::vector<std::string_view> split_operands(std::string_view s) {
  std::vector<std::string_view> all;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= s.size(); ++at) {
    if (at == s.size() || (s[at] == ',' && depth == 0)) {
      if (const auto one = trimmed(s.substr(begin, at - begin)); !one.empty()) all.push_back(one);
      begin = at + 1;
    } else if (s[at] == '{' || s[at] == '[' || s[at] == '(') {
      ++depth;
    } else if (s[at] == '}' || s[at] == ']' || s[at] == ')') {
      --depth;
    }
  }
  return all;
}

std::optional<type> type_named(std::string_view name) {
  static const std::unordered_map<std::string_view, type> all = {
      {"pred", type::pred}, {"b8", type::b8},   {"b16", type::b16}, {"b32", type::b32}, {"b64", type::b64},
      {"b128", type::b128}, {"u8", type::u8},   {"u16", type::u16}, {"u32", type::u32}, {"u64", type::u64},
      {"s8", type::s8},     {"s16", type::s16}, {"s32", type::s32}, {"s64", type::s64}, {"f16", type::f16},
      {"bf16", type::bf16}, {"f32", type::f32}, {"f64", type::f64}};
  const auto found = all.find(name);
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

// Decimal, 0x, 0b and octal, with a sign or a U behind; 0f and 0d have the bits of a float.
std::optional<uint64_t> parse_integer(std::string_view s) {
  const bool negative = !s.empty() && s[0] == '-';
  if (negative) s.remove_prefix(1);
  if (s.empty() || s[0] < '0' || s[0] > '9') return std::nullopt;
  int base = 10;
  if (s.size() > 1 && s[0] == '0') {
    const char second = s[1];
    const bool hex = second == 'x' || second == 'X';
    const bool binary = second == 'b' || second == 'B';
    const bool bits = second == 'f' || second == 'F' || second == 'd' || second == 'D';
    if (bits && s.size() != (second == 'f' || second == 'F' ? 10u : 18u)) return std::nullopt;
    base = hex || bits ? 16 : binary ? 2 : 8;
    s.remove_prefix(base == 8 ? 1 : 2);
  }
  if (s.size() > 1 && s.back() == 'U') s.remove_suffix(1);
  uint64_t value = 0;
  const auto end = std::from_chars(s.data(), s.data() + s.size(), value, base);
  if (end.ec != std::errc() || end.ptr != s.data() + s.size()) return std::nullopt;
  return negative ? 0 - value : value;
}

std::optional<uint64_t> number_of(std::string_view s, uint64_t value, type t) {
  const bool is_single = s.size() > 1 && (s[1] == 'f' || s[1] == 'F');
  const bool is_double = s.size() > 1 && (s[1] == 'd' || s[1] == 'D');
  if (!is_single && !is_double) return is_float(t) ? std::nullopt : std::optional(value);
  if (t == (is_single ? type::f32 : type::f64) || t == (is_single ? type::b32 : type::b64)) return value;
  if (t == type::f32) return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(value)));
  if (t == type::f64) return std::bit_cast<uint64_t>(double{std::bit_cast<float>(static_cast<uint32_t>(value))});
  return std::nullopt;
}

decoder::decoder(names& n, std::string_view text) : known(n), text_(text) {
  std::string_view rest = trimmed(text_);
  if (!rest.empty() && rest[0] == '@') {
    const auto end = std::min(rest.find_first_of(" \t"), rest.size());
    i.guard = source_predicate(rest.substr(1, end - 1));
    rest = trimmed(rest.substr(end));
  }
  const auto end = std::min(rest.find_first_of(" \t"), rest.size());
  std::string_view opcode = rest.substr(0, end);
  operands_ = split_operands(rest.substr(end));
  for (std::size_t dot = opcode.find('.');; dot = opcode.find('.')) {
    parts_.push_back(opcode.substr(0, dot));
    if (dot == opcode.npos) break;
    opcode.remove_prefix(dot + 1);
  }
  taken_.assign(parts_.size(), false);
  taken_[0] = true;
}

void decoder::fail(const std::string& why) const {
  std::string line;  // however many it had
  for (const char c : trimmed(text_)) {
    const bool blank = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (!blank || line.back() != ' ') line += blank ? ' ' : c;
  }
  throw error("unknown instruction", why + ": " + line);
}

bool decoder::take(std::string_view modifier) {
  for (std::size_t k = 1; k < parts_.size(); ++k)
    if (!taken_[k] && parts_[k] == modifier) return taken_[k] = true;
  return false;
}

bool decoder::has(std::string_view modifier) const {
  for (std::size_t k = 1; k < parts_.size(); ++k)
    if (!taken_[k] && parts_[k] == modifier) return true;
  return false;
}

bool decoder::take_both(std::string_view first, std::string_view next) {
  for (std::size_t k = 1; k + 1 < parts_.size(); ++k)
    if (parts_[k] == first && parts_[k + 1] == next) return taken_[k] = taken_[k + 1] = true;
  return false;
}

int decoder::take_one(std::initializer_list<std::string_view> choices, int otherwise) {
  int at = 0;
  for (const auto choice : choices) {
    if (take(choice)) return at;
    ++at;
  }
  return otherwise;
}

int decoder::need_one(std::initializer_list<std::string_view> choices) {
  const int found = take_one(choices);
  if (found < 0) fail("a modifier is missing");
  return found;
}

space decoder::take_space() {
  constexpr space all[] = {space::global, space::shared, space::shared, space::local, space::param, space::constant};
  const int s = take_one({"global", "shared", "shared::cta", "local", "param", "const"});
  return s < 0 ? space::generic : all[s];
}

type decoder::take_type() {
  for (; next_type_ < parts_.size(); ++next_type_)
    if (const auto t = type_named(parts_[next_type_]); t && !taken_[next_type_]) {
      taken_[next_type_++] = true;
      return *t;
    }
  return type::none;
}

type decoder::next_type() const {
  for (std::size_t k = next_type_; k < parts_.size(); ++k)
    if (const auto t = type_named(parts_[k]); t && !taken_[k]) return *t;
  return type::none;
}

type decoder::need_type(std::initializer_list<type> allowed) {
  const type t = take_type();
  if (std::find(allowed.begin(), allowed.end(), t) == allowed.end()) fail("not of a type that is supported");
  return t;
}

std::string_view decoder::next_operand() {
  if (next_ == operands_.size()) fail("an operand is missing");
  return operands_[next_++];
}

std::optional<uint64_t> decoder::immediate(std::string_view text) const {
  if (const auto v = parse_integer(text)) return v;
  // A symbol's address, perhaps with an offset; or its address as a number.
  const auto plus = text.find('+');
  const auto s = known.find(trimmed(text.substr(0, plus)));
  if (!s || s->is != symbol::kind::address) return std::nullopt;
  if (plus == text.npos) return s->address;
  const auto offset = parse_integer(trimmed(text.substr(plus + 1)));
  return offset ? std::optional(s->address + *offset) : std::nullopt;
}

uint32_t decoder::source(std::string_view text, type t) {
  if (const auto s = known.find(text); s && s->is == symbol::kind::reg) {
    if (s->bits != bits_of(t)) fail("operand " + std::string(text) + " has " + std::to_string(s->bits) + " bits");
    return s->index;
  }
  if (const auto v = immediate(text)) {
    const auto number = number_of(text, *v, t);
    if (!number) fail("a number of another type is wanted: " + std::string(text));
    return known.constant(*number, bits_of(t));
  }
  if (const auto special = special_named(text)) {
    if (bits_of(t) != 32) fail("special registers have 32 bits");
    if (mnemonic() != "mov" && mnemonic() != "cvt") fail("special registers are read by mov");
    return known.special_column(*special);
  }
  fail("unknown operand " + std::string(text));
}

uint32_t decoder::wide_source(std::string_view text, type t, uint8_t& bits) {
  const auto s = known.find(text);
  if (!s || s->is != symbol::kind::reg) {
    bits = static_cast<uint8_t>(bits_of(t));
    return source(text, t);
  }
  if (s->bits < bits_of(t)) fail("operand " + std::string(text) + " is too narrow");
  bits = s->bits;
  return s->index;
}

uint32_t decoder::destination_or_sink(std::string_view text, type t) {
  return text == "_" ? no_operand : destination(text, t);
}

uint32_t decoder::destination(std::string_view text, type t) {
  const auto s = known.find(text);
  if (!s || s->is != symbol::kind::reg) fail("unknown destination " + std::string(text));
  if (s->bits != bits_of(t)) fail("destination " + std::string(text) + " has " + std::to_string(s->bits) + " bits");
  return s->index;
}

uint32_t decoder::wide_destination(std::string_view text, type t, uint8_t& slot_bits) {
  if (text == "_") return no_operand;
  const auto s = known.find(text);
  if (!s || s->is != symbol::kind::reg || s->bits < bits_of(t))
    fail("unknown or narrow destination " + std::string(text));
  slot_bits = s->bits;
  return s->index;
}

predicate decoder::source_predicate(std::string_view text) {
  const bool negated = !text.empty() && text[0] == '!';
  const auto s = known.find(text.substr(negated ? 1 : 0));
  if (!s || s->is != symbol::kind::predicate) fail("unknown predicate " + std::string(text));
  return {s->index, negated};
}

uint32_t decoder::destination_predicate(std::string_view text) {
  const predicate p = source_predicate(text);
  if (p.negated) fail("a destination is not negated");
  return p.index;
}

uint32_t decoder::predicate_or_sink(std::string_view text) {
  return text == "_" ? no_operand : destination_predicate(text);
}

bool decoder::next_is_predicate() const {
  const auto s = known.find(peek().substr(!peek().empty() && peek()[0] == '!' ? 1 : 0));
  return s && s->is == symbol::kind::predicate;
}

std::vector<std::string_view> decoder::vector_operand() {
  const std::string_view text = next_operand();
  if (text[0] != '{') return {text};
  auto all = split_operands(text.substr(1, text.size() - 2));
  if (all.empty() || all.size() > 4) fail("vectors have 2 or 4 elements");
  return all;
}

std::pair<std::string_view, std::string_view> decoder::paired_operand() {
  const std::string_view text = next_operand();
  const auto bar = text.find('|');
  if (bar == text.npos) return {text, "_"};
  return {trimmed(text.substr(0, bar)), trimmed(text.substr(bar + 1))};
}

void decoder::address() {
  std::string_view text = next_operand();
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') fail("an address is missing");
  text = trimmed(text.substr(1, text.size() - 2));
  const auto sign = text.find_first_of("+-", 1);
  const std::string_view base = trimmed(text.substr(0, sign));
  if (sign != text.npos) {
    const auto offset = parse_integer(trimmed(text.substr(sign + 1)));
    if (!offset) fail("unknown offset");
    i.offset = static_cast<int64_t>(text[sign] == '-' ? 0 - *offset : *offset);
  }
  const auto s = known.find(base);
  if (s && s->is == symbol::kind::reg) {
    if (s->bits != 64 && s->bits != 32) fail("an address has 32 or 64 bits");
    i.flag = s->bits == 32;  // a column of 32 bits
    i.from_columns[0] = s->index;
    return;
  }
  // The arguments of a call lie in local memory.
  if (s && s->is == symbol::kind::address && s->where == space::local && i.where == space::param) i.where = s->where;
  const auto number = immediate(base);
  if (!number) fail("unknown address " + std::string(base));
  i.from_columns[0] = known.constant(*number, 64);
}

address_operand decoder::another_address() {
  const instruction first = i;
  i.offset = 0;
  i.flag = false;
  address();
  const address_operand a{i.from_columns[0], i.offset, i.flag};
  i = first;
  return a;
}

void decoder::needs_target(int target) const {
  if (known.target() < target) fail("needs sm_" + std::to_string(target));
}

instruction decoder::finish() {
  for (std::size_t k = 1; k < parts_.size(); ++k)
    if (!taken_[k]) fail("modifier ." + std::string(parts_[k]) + " is not supported here");
  if (next_ != operands_.size()) fail("too many operands");
  return i;
}

instruction decode(names& known, std::string_view text) {
  static const auto table = [] {
    std::unordered_map<std::string_view, decode_function> all;
    for (const auto part : {integer_mnemonics(), floating_mnemonics(), move_mnemonics(), convert_mnemonics(),
                            memory_mnemonics(), copy_mnemonics(), warp_mnemonics(), control_mnemonics()})
      for (const auto& [name, function] : part) all.emplace(name, function);
    return all;
  }();
  decoder d(known, text);
  const auto found = table.find(d.mnemonic());
  if (found == table.end()) d.fail("unknown instruction");
  found->second(d);
  return d.finish();
}

}  // namespace ptx
