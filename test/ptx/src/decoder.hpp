// From an instruction's text to what executes it. Each mnemonic has a function that takes the modifiers and operands
// that it knows; what nobody has taken is an error, so that nothing is executed that was not understood.
#pragma once

#include "module.hpp"

#include <initializer_list>
#include <optional>
#include <span>

namespace ptx {

// What an operand's name stands for.
struct symbol {
  enum class kind : uint8_t { reg, predicate, address } is = kind::reg;
  uint32_t index = 0;  // a register's column or a predicate
  uint8_t bits = 0;    // of a register
  uint64_t address = 0;
  space where = space::generic;
};

// The names that are known at a place in a kernel. Implemented by the parser.
class names {
 public:
  virtual ~names() = default;
  virtual std::optional<symbol> find(std::string_view name) const = 0;
  virtual uint32_t constant(uint64_t value, unsigned bits) = 0;  // a column
  virtual uint32_t special_column(uint32_t special) = 0;
  virtual uint32_t label(std::string_view name) = 0;  // a number that becomes an address later
  virtual uint32_t branch_table(std::string_view name) = 0;
  virtual int target() const = 0;  // 75 for sm_75
};

class decoder {
 public:
  decoder(names& known, std::string_view text);
  [[noreturn]] void fail(const std::string& why) const;  // ptx::error, "unknown instruction"

  // Modifiers. Types are taken in order.
  std::string_view mnemonic() const { return parts_[0]; }
  bool take(std::string_view modifier);
  bool has(std::string_view modifier) const;                      // and nobody has taken it
  bool take_both(std::string_view first, std::string_view next);  // the one right behind the other
  // The one that is there, by its place in the list; `otherwise` where there is none.
  int take_one(std::initializer_list<std::string_view> choices, int otherwise = -1);
  int need_one(std::initializer_list<std::string_view> choices);
  type take_type();    // the next one
  space take_space();  // generic where none is named
  type next_type() const;
  type need_type(std::initializer_list<type> allowed);

  // Operands, in order.
  std::size_t operands_left() const { return operands_.size() - next_; }
  std::string_view peek() const { return next_ < operands_.size() ? operands_[next_] : std::string_view(); }
  std::string_view next_operand();
  uint32_t source(type t) { return source(next_operand(), t); }
  uint32_t source(std::string_view text, type t);  // register, immediate, special register or address
  // Of st and cvt: the register may be wider, and `bits` says how wide.
  uint32_t wide_source(std::string_view text, type t, uint8_t& bits);
  uint32_t wide_source(type t, uint8_t& bits) { return wide_source(next_operand(), t, bits); }
  uint32_t destination(type t) { return destination(next_operand(), t); }
  uint32_t destination(std::string_view text, type t);
  uint32_t destination_or_sink(std::string_view text, type t);  // "_" is no_operand
  uint32_t wide_destination(std::string_view text, type t, uint8_t& slot_bits);
  predicate source_predicate() { return source_predicate(next_operand()); }
  predicate source_predicate(std::string_view text);
  uint32_t destination_predicate(std::string_view text);
  uint32_t predicate_or_sink(std::string_view text);
  bool next_is_predicate() const;
  std::optional<uint64_t> immediate(std::string_view text) const;
  std::vector<std::string_view> vector_operand();  // {a, b} or a
  void address();                                  // [register + offset] into from_columns[0], offset and flag
  address_operand another_address();               // the next one, the first stays as it is
  void needs_target(int target) const;
  // "d|p"
  std::pair<std::string_view, std::string_view> paired_operand();

  // All modifiers and operands must have been taken.
  instruction finish();
  instruction i;
  names& known;

 private:
  std::string text_;
  std::vector<std::string_view> parts_;
  std::vector<bool> taken_;
  std::vector<std::string_view> operands_;
  std::size_t next_ = 0, next_type_ = 1;
};

using decode_function = void (*)(decoder&);
struct mnemonic {
  std::string_view name;
  decode_function decode;
};
// Each file of handlers has a table.
std::span<const mnemonic> integer_mnemonics();
std::span<const mnemonic> floating_mnemonics();
std::span<const mnemonic> move_mnemonics();
std::span<const mnemonic> convert_mnemonics();
std::span<const mnemonic> memory_mnemonics();
std::span<const mnemonic> copy_mnemonics();
std::span<const mnemonic> warp_mnemonics();
std::span<const mnemonic> control_mnemonics();

// Of mnemonics that integers and floats share: true if the next type is a float, and then it is decoded.
bool decode_floating(decoder& d);

// fence.proxy.
void decode_proxy_fence(decoder& d);

instruction decode(names& known, std::string_view text);

std::optional<uint64_t> parse_integer(std::string_view text);
// What parse_integer made of the text, as bits of that type: a float becomes the one that is nearest. Nothing where
// ptxas takes no such number.
std::optional<uint64_t> number_of(std::string_view text, uint64_t value, type t);
std::vector<std::string_view> split_operands(std::string_view text);
std::string_view trimmed(std::string_view text);
std::optional<type> type_named(std::string_view name);

}  // namespace ptx
