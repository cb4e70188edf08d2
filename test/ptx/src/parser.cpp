#include "parser.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

namespace ptx {
namespace {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%'; }

std::string without_comments(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.compare(at, 2, "//") == 0) {
      at = std::min(text.find('\n', at), text.size());
      out += '\n';
    } else if (text.compare(at, 2, "/*") == 0) {
      const auto end = std::min(text.find("*/", at + 2), text.size());
      out.append(static_cast<std::size_t>(std::count(text.begin() + static_cast<std::ptrdiff_t>(at),
                                                     text.begin() + static_cast<std::ptrdiff_t>(end), '\n')),
                 '\n');
      at = end + 1;
    } else if (text[at] != '\0') {
      out += text[at];
    }
  }
  return out;
}

// The words of a declaration, brackets apart.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> all;
  for (std::size_t at = 0; at < text.size();) {
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
    const std::size_t begin = at;
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) == 0 && text[at] != '[') ++at;
    if (at == begin && at < text.size()) at = std::min(text.find(']', at), text.size() - 1) + 1;
    if (at > begin) all.push_back(text.substr(begin, at - begin));
  }
  return all;
}

}  // namespace

reader::reader(std::string_view text) : text_(without_comments(text)) {}

void reader::skip_blanks() {
  while (!at_end() && std::isspace(static_cast<unsigned char>(peek())) != 0) skip();
}

std::string_view reader::until(std::string_view stops) {
  const std::size_t begin = at_;
  int depth = 0;
  bool quoted = false;
  while (!at_end()) {
    const char c = peek();
    if (!quoted && depth == 0 && stops.find(c) != stops.npos) break;
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '{' || c == '(' || c == '[')) ++depth;
    if (!quoted && (c == '}' || c == ')' || c == ']')) --depth;
    skip();
  }
  return trimmed(std::string_view(text_).substr(begin, at_ - begin));
}

std::string_view reader::rest_of_line() {
  const std::size_t begin = at_;
  while (!at_end() && peek() != '\n') skip();
  return trimmed(std::string_view(text_).substr(begin, at_ - begin));
}

std::string_view reader::label() {
  std::size_t end = at_;
  while (end < text_.size() && is_name(text_[end])) ++end;
  std::size_t colon = end;
  while (colon < text_.size() && (text_[colon] == ' ' || text_[colon] == '\t')) ++colon;
  if (end == at_ || colon >= text_.size() || text_[colon] != ':' || text_.compare(colon, 2, "::") == 0) return {};
  const std::string_view name = std::string_view(text_).substr(at_, end - at_);
  at_ = colon + 1;
  return name;
}

// --- names ----------------------------------------------------------------------------------------------------------

std::optional<symbol> module_parser::find(std::string_view name) const {
  const auto digits = name.find_last_not_of("0123456789") + 1;
  const std::string whole(name), prefix(name.substr(0, digits));
  for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s) {
    if (const auto f = s->symbols.find(whole); f != s->symbols.end()) return f->second;
    if (const auto f = s->ranges.find(prefix); f != s->ranges.end() && digits < name.size()) {
      const auto number = static_cast<uint32_t>(std::strtoul(whole.c_str() + digits, nullptr, 10));
      const registers& r = f->second;
      if (number >= r.count) return std::nullopt;
      if (r.bits == 1) return symbol{symbol::kind::predicate, r.first + number, 1, 0, space::generic};
      return symbol{symbol::kind::reg, r.first + number * (r.bits == 64 ? 256 : 128), r.bits, 0, space::generic};
    }
  }
  if (const auto f = globals_.find(whole); f != globals_.end()) return f->second;
  // Dynamic shared memory lies behind what the kernel has of its own, which is known by now.
  if (const auto f = extern_shared_.find(whole); f != extern_shared_.end() && k_ != nullptr) {
    const uint32_t at = (k_->shared_bytes + 15) / 16 * 16;
    k_->shared_bytes = at;
    k_->dynamic_shared = true;
    return symbol{symbol::kind::address, 0, 0, at, space::shared};
  }
  return std::nullopt;
}

uint32_t module_parser::constant(uint64_t value, unsigned bits) {
  if (bits < 64) value &= (uint64_t{1} << bits) - 1;
  const unsigned slot_bits = bits == 64 ? 64 : 32;
  const auto [f, fresh] = constants_.try_emplace({value, slot_bits}, 0);
  if (fresh) {
    f->second = static_cast<uint32_t>(k_->constants.size()) | is_constant;
    for (int l = 0; l < 32; ++l) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      k_->constants.insert(k_->constants.end(), bytes, bytes + slot_bits / 8);
    }
  }
  return f->second;
}

uint32_t module_parser::special_column(uint32_t special) {
  const auto [f, fresh] = specials_.try_emplace(special, 0);
  if (fresh) {
    f->second = new_register(32, 1);
    k_->specials.push_back({special, f->second});
  }
  return f->second;
}

uint32_t module_parser::label(std::string_view name) {
  const auto [f, fresh] = labels_.try_emplace(std::string(name), static_cast<uint32_t>(label_pcs_.size()));
  if (fresh) label_pcs_.push_back({std::string(name), in_.line(), no_operand});
  return f->second;
}

uint32_t module_parser::branch_table(std::string_view name) {
  const auto f = branch_tables_.find(std::string(name));
  if (f == branch_tables_.end()) fail("unknown branch targets " + std::string(name));
  return f->second;
}

uint32_t module_parser::new_register(uint8_t bits, uint32_t count) {
  const uint32_t first = bits == 1 ? k_->predicates : k_->register_bytes;
  if (bits == 1)
    k_->predicates += count;
  else
    k_->register_bytes += count * (bits == 64 ? 256 : 128);
  return first;
}

void module_parser::fail(const std::string& why, uint32_t line) const {
  throw error("invalid module", "PTX line " + std::to_string(line) + ": " + why + "\n");
}

// --- declarations ---------------------------------------------------------------------------------------------------

declaration module_parser::parse_declaration(std::string_view text) const {
  declaration d;
  uint64_t count = 1;
  unsigned vector = 1;
  const auto words = words_of(text);
  for (std::size_t k = 0; k < words.size(); ++k) {
    const std::string_view w = words[k];
    if (w == ".align" && k + 1 < words.size())
      d.alignment = static_cast<uint32_t>(parse_integer(words[++k]).value_or(1));
    else if (w == ".global")
      d.where = space::global;
    else if (w == ".shared")
      d.where = space::shared;
    else if (w == ".local")
      d.where = space::local;
    else if (w == ".const")
      d.where = space::constant;
    else if (w == ".param")
      d.where = space::param;
    else if (w == ".extern")
      d.is_extern = true;
    else if (w == ".v2" || w == ".v4")
      vector = w == ".v2" ? 2 : 4;
    else if (w[0] == '.') {
      if (const auto t = type_named(w.substr(1)))
        d.element = *t;
      else if (w != ".visible" && w != ".weak" && w != ".common" && w != ".ptr")
        fail("unknown word " + std::string(w));
    } else if (w[0] == '[') {
      count *= parse_integer(trimmed(w.substr(1, w.size() - 2))).value_or(0);
    } else {
      d.name = w;
    }
  }
  if (d.element == type::none || d.name.empty()) fail("not a declaration: " + std::string(text));
  d.bytes = count * bytes_of(d.element) * vector;
  d.alignment = std::max(d.alignment, bytes_of(d.element) * vector);
  return d;
}

void module_parser::initialise(std::byte* to, const declaration& d, std::string_view values) const {
  if (values.empty()) return;
  if (values.front() == '{') values = values.substr(1, values.size() - 2);
  const unsigned each = bytes_of(d.element);
  uint64_t at = 0;
  for (const std::string_view text : split_operands(values)) {
    const auto given = parse_integer(text);
    if (!given) fail("not a number, and addresses are not supported here: " + std::string(text));
    const auto v = number_of(text, *given, d.element);
    if (!v) fail("a number of another type is wanted: " + std::string(text));
    if (at + each > d.bytes) fail("too many values for " + std::string(d.name));
    std::memcpy(to + at, &*v, each);
    at += each;
  }
}

// At module level: memory for as long as the program lives.
void module_parser::declare_variable(std::string_view text, std::string_view values) {
  const declaration d = parse_declaration(text);
  if (d.where == space::shared) {
    if (!d.is_extern) fail("shared memory outside of a kernel: " + std::string(d.name));
    extern_shared_[std::string(d.name)] = 0;
    return;
  }
  if (d.is_extern) fail("a variable of another module: " + std::string(d.name));
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(256, (d.bytes + 511) / 256 * 256));
  std::memset(memory, 0, d.bytes);
  initialise(memory, d, values);
  add_memory(memory, d.bytes, memory_kind::host);
  globals_[std::string(d.name)] = {symbol::kind::address, 0, 0, reinterpret_cast<uint64_t>(memory), d.where};
}

void module_parser::declare_in_kernel(std::string_view text) {
  const declaration d = parse_declaration(text);
  uint32_t& used = d.where == space::shared ? k_->shared_bytes : k_->local_bytes;
  // It lies behind all others, whose end has been taken already.
  if (d.where == space::shared && k_->dynamic_shared) fail("declared behind the use of dynamic shared memory");
  if (d.where != space::shared && d.where != space::local && d.where != space::param) fail("not in a kernel");
  used = (used + d.alignment - 1) / d.alignment * d.alignment;
  scopes_.back().symbols[std::string(d.name)] = {symbol::kind::address, 0, 0, used,
                                                 d.where == space::shared ? space::shared : space::local};
  used += static_cast<uint32_t>(d.bytes);
}

void module_parser::declare_registers(std::string_view text) {
  const auto space_at = text.find_first_of(" \t");
  const auto t = type_named(trimmed(text.substr(0, space_at)).substr(1));
  if (!t || *t == type::b128) fail("registers of an unknown type");
  const auto bits = static_cast<uint8_t>(*t == type::pred ? 1 : std::max(bits_of(*t), 16u));
  for (const std::string_view one : split_operands(text.substr(space_at))) {
    const auto open = one.find('<');
    if (open == one.npos) {
      const uint32_t index = new_register(bits, 1);
      scopes_.back().symbols[std::string(one)] = {bits == 1 ? symbol::kind::predicate : symbol::kind::reg, index, bits,
                                                  0, space::generic};
      continue;
    }
    const auto count = static_cast<uint32_t>(parse_integer(one.substr(open + 1, one.size() - open - 2)).value_or(0));
    scopes_.back().ranges[std::string(one.substr(0, open))] = {new_register(bits, count), count, bits};
  }
}

// --- kernels --------------------------------------------------------------------------------------------------------

std::vector<std::unique_ptr<kernel>> module_parser::parse() {
  for (in_.skip_blanks(); !in_.at_end(); in_.skip_blanks()) read_directive_or_kernel();
  for (const auto& k : kernels_) {
    k->files.resize(1);
    for (const auto& [number, name] : files_) {
      if (k->files.size() <= number) k->files.resize(number + 1);
      k->files[number] = name;
    }
  }
  return std::move(kernels_);
}

void module_parser::read_directive_or_kernel() {
  const std::string_view word = in_.until(" \t\n;({=");
  if (word == ".version" || word == ".address_size") return void(in_.rest_of_line());
  if (word == ".target") {
    const std::string_view t = in_.rest_of_line();
    if (t.starts_with("sm_")) target_ = std::atoi(std::string(t.substr(3)).c_str());
    return;
  }
  if (word == ".file") {
    const std::string_view text = in_.rest_of_line();
    const auto open = text.find('"'), close = text.find('"', open + 1);
    if (close == text.npos) fail("not a file");
    files_[static_cast<uint32_t>(std::atoi(std::string(text).c_str()))] = text.substr(open + 1, close - open - 1);
    return;
  }
  if (word == ".section") {
    in_.until("{");
    in_.skip();
    in_.until("}");
    return in_.skip();
  }
  const std::string head = std::string(word) + " " + std::string(in_.until(";({="));
  if (head.find(".entry") != head.npos) return read_kernel(head);
  if (head.find(".func") != head.npos) {
    if (head.find(".extern") == head.npos) {
      std::string name(words_of(head).back());
      if (name == ".func") {  // behind what it returns
        in_.skip();
        in_.until(")");
        in_.skip();
        name = in_.until("(;{");
      }
      fail("functions are not supported: " + name);
    }
    in_.until(";");
    return in_.skip();
  }
  std::string_view values;
  if (in_.peek() == '=') {
    in_.skip();
    values = in_.until(";");
  }
  if (in_.peek() != ';') fail("not a declaration: " + head);
  in_.skip();
  declare_variable(head, values);
}

void module_parser::read_kernel(std::string_view head) {
  kernels_.push_back(std::make_unique<kernel>());
  k_ = kernels_.back().get();
  scopes_.assign(1, {});
  constants_.clear();
  specials_.clear();
  labels_.clear();
  label_pcs_.clear();
  branch_tables_.clear();
  source_ = {};
  locations_.clear();
  k_->name = words_of(head).back();
  k_->target = target_;
  if (in_.peek() == '(') read_parameters();
  const std::string attributes(in_.until("{;"));
  if (attributes.find("cluster") != attributes.npos) fail("clusters are not supported: " + k_->name);
  if (const auto at = attributes.find(".maxntid"); at != attributes.npos) {
    int n[3] = {1, 1, 1};
    std::sscanf(attributes.c_str() + at, ".maxntid %d, %d, %d", &n[0], &n[1], &n[2]);
    k_->max_threads = n[0] * n[1] * n[2];
  }
  in_.skip();
  read_body();
  finish_kernel();
  k_ = nullptr;
}

void module_parser::read_parameters() {
  in_.skip();
  const std::string_view all = in_.until(")");
  in_.skip();
  for (const std::string_view one : split_operands(all)) {
    const declaration d = parse_declaration(one);
    k_->parameter_bytes = (k_->parameter_bytes + d.alignment - 1) / d.alignment * d.alignment;
    scopes_.back().symbols[std::string(d.name)] = {symbol::kind::address, 0, 0, k_->parameter_bytes, space::param};
    k_->parameters.push_back({k_->parameter_bytes, static_cast<uint32_t>(d.bytes)});
    k_->parameter_bytes += static_cast<uint32_t>(d.bytes);
  }
}

void module_parser::read_body() {
  for (std::size_t depth = 1; depth > 0;) {
    in_.skip_blanks();
    if (in_.at_end()) fail("a kernel without an end");
    if (in_.peek() == '{') {
      scopes_.emplace_back();
      ++depth;
      in_.skip();
    } else if (in_.peek() == '}') {
      scopes_.pop_back();
      if (--depth > 0 && scopes_.empty()) fail("brackets do not match");
      in_.skip();
    } else if (const std::string_view name = in_.label(); !name.empty()) {
      in_.skip_blanks();
      if (in_.starts_with(".branchtargets")) {
        const std::string_view text = in_.until(";");
        in_.skip();
        branch_tables_[std::string(name)] = static_cast<uint32_t>(k_->branch_tables.size());
        auto& targets = k_->branch_tables.emplace_back();
        for (const std::string_view t : split_operands(text.substr(14))) targets.push_back(label(t));
        continue;
      }
      label_place& place = label_pcs_[label(name)];
      if (place.pc != no_operand) fail("a label twice: " + std::string(name));
      place.pc = static_cast<uint32_t>(k_->code.size());
    } else {
      read_statement();
    }
  }
}

void module_parser::read_statement() {
  const bool location = in_.peek() == '.';
  if (location) {
    const std::string_view word = in_.until(" \t\n;");
    if (word == ".loc") return read_location(in_.rest_of_line());
    const std::string text = std::string(word) + " " + std::string(in_.until(";"));
    in_.skip();
    if (word == ".reg") return declare_registers(trimmed(std::string_view(text).substr(4)));
    if (word == ".pragma") {
      const auto at = text.find("used_bytes_mask");
      if (at != text.npos) used_bytes_ = static_cast<uint32_t>(std::strtoul(text.c_str() + at + 15, nullptr, 0));
      return;
    }
    return declare_in_kernel(text);
  }
  const uint32_t line = in_.line();
  const std::string_view text = in_.until(";");
  in_.skip();
  if (text.empty()) return;
  try {
    add_instruction(text);
  } catch (const error& e) {
    throw error(e.kind, "PTX line " + std::to_string(line) + ": " + e.what() + "\n  kernel " + k_->name + "\n");
  }
  k_->lines.push_back(line);
}

void module_parser::read_location(std::string_view text) {
  std::array<uint32_t, 3> here{}, from{};  // file, line, column
  std::sscanf(std::string(text).c_str(), "%u %u %u", &here[0], &here[1], &here[2]);
  source_ = {here[0], here[1]};
  if (const auto at = text.find("inlined_at"); at != text.npos) {
    std::sscanf(std::string(text.substr(at)).c_str(), "inlined_at %u %u %u", &from[0], &from[1], &from[2]);
    const auto known = locations_.find(from);  // the caller has been named before, and who called it
    source_.caller = static_cast<uint32_t>(k_->callers.size());
    k_->callers.push_back(known != locations_.end() ? known->second : source_line{from[0], from[1]});
  }
  locations_[here] = source_;
}

void module_parser::add_instruction(std::string_view text) {
  instruction i = decode(*this, text);
  i.used_bytes = used_bytes_;
  used_bytes_ = ~0u;
  k_->code.push_back(i);
  std::string plain(text);
  std::replace_if(plain.begin(), plain.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
  k_->text.push_back(std::move(plain));
  k_->sources.push_back(source_);
}

void module_parser::finish_kernel() {
  const auto pc_of = [&](uint32_t number) {
    const label_place& l = label_pcs_[number];
    if (l.pc == no_operand) fail("no label " + l.name, l.line);
    return l.pc;
  };
  for (instruction& i : k_->code)
    if (i.how == flow::branch) i.target = pc_of(i.target);
  for (auto& table : k_->branch_tables)
    for (uint32_t& t : table) t = pc_of(t);
  // Whoever runs past the end has left.
  scopes_.assign(1, {});
  add_instruction("exit");
  k_->lines.push_back(in_.line());
}

}  // namespace ptx
