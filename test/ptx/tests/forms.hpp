// A form is PTX text with the operands %a %b %c and the result %d, and what C++ says of it. One driver proves them all.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <random>

#include "support.hpp"

namespace proof {

struct half {
  uint16_t bits;
};
struct bfloat {
  uint16_t bits;
};
struct half2 {
  uint32_t bits;
};
struct shift {  // a count of bits: small, around the widths, or huge
  uint32_t n;
};
template <class T> struct nonzero {
  T value;
};

// How an operand looks: the bits of its register (1 for a predicate), and values worth trying.
struct operand {
  unsigned bits = 0;
  char kind = 'i';  // h, b, x: half, bfloat, half2; f: float or double, by its bits
  bool is_nonzero = false;
  std::vector<uint64_t> extremes;
};

operand integers(unsigned bits);
operand floats(unsigned bits, char kind);
operand shifts();

template <class T> struct describe {
  static operand make() {
    if constexpr (std::is_same_v<T, bool>) return {1, 'i', false, {0, 1}};
    if constexpr (std::is_floating_point_v<T>) return floats(sizeof(T) * 8, 'f');
    return integers(sizeof(T) * 8);
  }
  static T from(uint64_t raw) {
    T t;
    std::memcpy(&t, &raw, sizeof(T));
    return t;
  }
};
template <> struct describe<half> {
  static operand make() { return floats(16, 'h'); }
  static half from(uint64_t raw) { return {static_cast<uint16_t>(raw)}; }
};
template <> struct describe<bfloat> {
  static operand make() { return floats(16, 'b'); }
  static bfloat from(uint64_t raw) { return {static_cast<uint16_t>(raw)}; }
};
template <> struct describe<half2> {
  static operand make() { return floats(32, 'x'); }
  static half2 from(uint64_t raw) { return {static_cast<uint32_t>(raw)}; }
};
template <> struct describe<shift> {
  static operand make() { return shifts(); }
  static shift from(uint64_t raw) { return {static_cast<uint32_t>(raw)}; }
};
template <class T> struct describe<nonzero<T>> {
  static operand make() {
    operand o = integers(sizeof(T) * 8);
    o.is_nonzero = true;
    return o;
  }
  static nonzero<T> from(uint64_t raw) { return {static_cast<T>(raw)}; }
};
template <class T> struct describe<std::optional<T>> {  // of a result: nothing where the ISA leaves it open
  static operand make() { return describe<T>::make(); }
};

using reference = std::function<std::optional<uint64_t>(const uint64_t*)>;
void prove(const std::string& text, const std::vector<operand>& in, const operand& out, const reference& expected);

template <class T> std::optional<uint64_t> raw(const T& value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T> std::optional<uint64_t> raw(const std::optional<T>& value) {
  return value ? raw(*value) : std::nullopt;
}

template <class F, class R, class... A> void prove_as(const std::string& text, F f, R (F::*)(A...) const) {
  const auto expected = [f](const uint64_t* v) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return raw(R(f(describe<A>::from(v[I])...)));
    }(std::index_sequence_for<A...>());
  };
  prove(text, {describe<A>::make()...}, describe<R>::make(), expected);
}
// f: a lambda; the types of what it takes and gives back say which registers the form needs.
template <class F> void form(const std::string& text, F f) { prove_as(text, f, &F::operator()); }

}  // namespace proof
