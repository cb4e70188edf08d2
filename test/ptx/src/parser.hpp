// A module's text to kernels.
#pragma once

#include "decoder.hpp"

#include <memory>
#include <unordered_map>

namespace ptx {

// Where the text has been read to. Comments are gone before, but for their line ends.
class reader {
 public:
  explicit reader(std::string_view text);
  void skip_blanks();
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip() {
    if (text_[at_++] == '\n') ++line_;
  }
  std::string_view until(std::string_view stops);  // up to one of these outside of brackets and strings
  std::string_view rest_of_line();
  std::string_view label();  // "name:" is taken and its name returned; empty where there is none
  bool starts_with(std::string_view word) const { return text_.compare(at_, word.size(), word) == 0; }
  uint32_t line() const { return line_; }

 private:
  std::string text_;
  std::size_t at_ = 0;
  uint32_t line_ = 1;
};

// A variable's declaration.
struct declaration {
  std::string_view name;
  space where = space::generic;
  uint64_t bytes = 0;
  uint32_t alignment = 1;
  type element = type::none;
  bool is_extern = false;
};

class module_parser final : public names {
 public:
  explicit module_parser(std::string_view text) : in_(text) {}
  std::vector<std::unique_ptr<kernel>> parse();

  std::optional<symbol> find(std::string_view name) const override;
  uint32_t constant(uint64_t value, unsigned bits) override;
  uint32_t special_column(uint32_t special) override;
  uint32_t label(std::string_view name) override;
  uint32_t branch_table(std::string_view name) override;
  int target() const override { return target_; }

 private:
  // Registers by name, or as "%r<100>" by what stands before the number.
  struct registers {
    uint32_t first = 0, count = 0;
    uint8_t bits = 0;
  };
  struct scope {
    std::unordered_map<std::string, registers> ranges;
    std::unordered_map<std::string, symbol> symbols;
  };

  [[noreturn]] void fail(const std::string& why) const { fail(why, in_.line()); }
  [[noreturn]] void fail(const std::string& why, uint32_t line) const;
  void read_directive_or_kernel();
  void read_kernel(std::string_view head);
  void read_parameters();
  void read_body();
  void read_statement();
  void declare_registers(std::string_view text);
  void declare_variable(std::string_view text, std::string_view values);
  void declare_in_kernel(std::string_view text);
  void read_location(std::string_view text);
  void add_instruction(std::string_view text);
  declaration parse_declaration(std::string_view text) const;
  void initialise(std::byte* to, const declaration& d, std::string_view values) const;
  uint32_t new_register(uint8_t bits, uint32_t count);
  void finish_kernel();

  reader in_;
  int target_ = 0;
  std::unordered_map<std::string, symbol> globals_;
  std::unordered_map<std::string, uint64_t> extern_shared_;
  std::unordered_map<uint32_t, std::string> files_;
  std::vector<std::unique_ptr<kernel>> kernels_;

  // Of the kernel that is read:
  kernel* k_ = nullptr;
  std::vector<scope> scopes_;
  std::map<std::pair<uint64_t, unsigned>, uint32_t> constants_;
  std::map<uint32_t, uint32_t> specials_;
  std::unordered_map<std::string, uint32_t> labels_;  // numbers
  struct label_place {
    std::string name;
    uint32_t line, pc;  // of the first that names it; no_operand until it is found
  };
  std::vector<label_place> label_pcs_;  // by number
  std::unordered_map<std::string, uint32_t> branch_tables_;
  uint32_t used_bytes_ = ~0u;
  source_line source_;
  std::map<std::array<uint32_t, 3>, source_line> locations_;  // by file, line and column
};

}  // namespace ptx
