#include "forms.hpp"

#include <cinttypes>
#include <cstdio>

namespace proof {
namespace {

uint64_t masked(uint64_t v, unsigned bits) { return bits == 64 ? v : v & ((uint64_t{1} << bits) - 1); }

bool is_nan(uint64_t v, unsigned bits, unsigned fraction) {
  const uint64_t magnitude = masked(v, bits - 1), infinity = masked(~uint64_t{0}, bits - 1) >> fraction << fraction;
  return magnitude > infinity;
}

// Equal bits; a NaN has no payload that PTX promises.
bool same(const operand& o, uint64_t x, uint64_t y) {
  x = masked(x, o.bits);
  y = masked(y, o.bits);
  const auto both = [&](uint64_t p, uint64_t q, unsigned bits, unsigned fraction) {
    return p == q || (is_nan(p, bits, fraction) && is_nan(q, bits, fraction));
  };
  if (o.kind == 'f') return both(x, y, o.bits, o.bits == 32 ? 23 : 52);
  if (o.kind == 'h') return both(x, y, 16, 10);
  if (o.kind == 'b') return both(x, y, 16, 7);
  if (o.kind == 'x') return both(x & 0xffff, y & 0xffff, 16, 10) && both(x >> 16, y >> 16, 16, 10);
  return x == y;
}

std::string loads(const std::vector<operand>& in) {
  std::string text;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::string name = std::string("%") + "abc"[i], from = ", [%P1+" + std::to_string(i * 8) + "];\n";
    const std::string bits = std::to_string(in[i].bits);
    if (in[i].bits == 1)
      text += ".reg .pred " + name + ";\nld.global.u32 %r9" + from + "setp.ne.u32 " + name + ", %r9, 0;\n";
    else
      text += ".reg .b" + bits + " " + name + ";\nld.global.b" + bits + " " + name + from;
  }
  return text;
}

std::string kernel_of(const std::string& form, const std::vector<operand>& in, const operand& out) {
  std::string text = "mov.u32 %r0, %ctaid.x;\nshl.b32 %r0, %r0, 5;\nadd.u32 %r0, %r0, %t;\n";
  text += "mad.wide.u32 %P0, %r0, 8, %P0;\nmad.wide.u32 %P1, %r0, 24, %P1;\n" + loads(in);
  if (out.bits == 1) return text + ".reg .pred %d;\n" + form + "\nselp.b32 %r9, 1, 0, %d;\nst.global.b32 [%P0], %r9;\n";
  const std::string bits = std::to_string(out.bits);
  return text + ".reg .b" + bits + " %d;\n" + form + "\nst.global.b" + bits + " [%P0], %d;\n";
}

using operands = std::array<uint64_t, 3>;

std::vector<operands> values_for(const std::vector<operand>& in) {
  std::vector<operands> all = {{0, 0, 0}};
  std::mt19937_64 random(1234);
  for (std::size_t i = 0; i < in.size(); ++i) {  // all combinations of extreme values
    std::vector<operands> longer;
    for (const operands& v : all)
      for (const uint64_t e : in[i].extremes) (longer.push_back(v), longer.back()[i] = e);
    all = std::move(longer);
  }
  if (all.size() > 6000) {
    std::shuffle(all.begin(), all.end(), random);
    all.resize(6000);
  }
  for (int n = 0; n < 992; ++n) {
    operands v{};
    for (std::size_t i = 0; i < in.size(); ++i)
      v[i] = random() % 4 == 0 ? in[i].extremes[random() % in[i].extremes.size()] : random() >> random() % in[i].bits;
    all.push_back(v);
  }
  for (operands& v : all)
    for (std::size_t i = 0; i < in.size(); ++i) {
      v[i] = masked(v[i], in[i].bits);
      if (in[i].is_nonzero && v[i] == 0) v[i] = 1;
    }
  while (all.size() % 32) all.push_back(all.back());
  return all;
}

}  // namespace

operand integers(unsigned bits) {
  operand o{bits, 'i', false, {}};
  for (const uint64_t v : {0, 1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 63, 64, 127, 128, 255}) o.extremes.push_back(v);
  const uint64_t top = uint64_t{1} << (bits - 1), all = masked(~uint64_t{0}, bits);
  for (const uint64_t v : {top, top - 1, top + 1, all, all - 1, all - 127, all - 128, all / 3, all / 3 * 2})
    o.extremes.push_back(v);
  for (unsigned half = 16; half < bits; half *= 2)
    for (const uint64_t v : {-1, 0})
      o.extremes.push_back((uint64_t{1} << half) + v), o.extremes.push_back(1ull << (half - 1));
  return o;
}

operand floats(unsigned bits, char kind) {
  operand o{bits, kind, false, {}};
  const unsigned fraction = bits == 64 ? 52 : kind == 'f' ? 23 : kind == 'b' ? 7 : 10;
  const unsigned width = kind == 'x' ? 16 : bits, exponents = width - 1 - fraction;
  const uint64_t one = uint64_t{1} << fraction, bias = (uint64_t{1} << (exponents - 1)) - 1, top = 2 * bias + 1;
  std::vector<uint64_t> v = {0, 1, 2, one / 2, one - 1, one, one + 1, one * 2 - 1};  // zero, subnormal, least normal
  for (const uint64_t e : {bias - 2, bias - 1, bias, bias + 1, bias + 7, bias + fraction - 1, bias + fraction})
    for (const uint64_t f : {uint64_t{0}, uint64_t{1}, one / 2, one - 1}) v.push_back(e * one + f);
  for (const uint64_t e : {15, 16, 31, 32, 63, 64})  // powers where integers end
    if (bias + e < top) (v.push_back((bias + e) * one), v.push_back((bias + e) * one - 1));
  for (const uint64_t u : {top * one - 1, top * one, top * one + 1, top * one + one / 2}) v.push_back(u);
  const std::size_t positive = v.size();
  for (std::size_t k = 0; k < positive; ++k) v.push_back(v[k] | (uint64_t{1} << (width - 1)));
  if (kind == 'x')
    for (std::size_t k = 0; k < v.size(); ++k) o.extremes.push_back(v[k] | (v[(k * 7 + 3) % v.size()] & 0xffff) << 16);
  else
    o.extremes = v;
  return o;
}

operand shifts() {
  operand o{32, 'i', false, {}};
  for (uint64_t n = 0; n <= 66; ++n) o.extremes.push_back(n);
  for (const uint64_t n : {127u, 128u, 255u, 256u, 257u, 0x7fffffffu, 0x80000000u, 0xffffffffu})
    o.extremes.push_back(n);
  return o;
}

void prove(const std::string& text, const std::vector<operand>& in, const operand& out, const reference& expected) {
  const auto all = values_for(in);
  buffer<operands> from(all.size());
  buffer<uint64_t> to(all.size());
  std::copy(all.begin(), all.end(), from.data());
  try {
    const auto* k = load_one(kernel_text(2, kernel_of(text, in, out)));
    launch(k, {static_cast<uint32_t>(all.size() / 32)}, {to.address(), from.address()});
  } catch (const std::exception& e) {
    ADD_FAILURE() << text << "\n" << e.what();
    return;
  }
  int wrong = 0;
  for (std::size_t n = 0; n < all.size(); ++n) {
    const auto want = expected(all[n].data());
    if (!want || same(out, to[n], *want)) continue;
    if (++wrong > 3) continue;
    char line[200];
    std::snprintf(line, sizeof line, "a=%" PRIx64 " b=%" PRIx64 " c=%" PRIx64 " got=%" PRIx64 " expected=%" PRIx64,
                  all[n][0], all[n][1], all[n][2], masked(to[n], out.bits), masked(*want, out.bits));
    ADD_FAILURE() << text << "\n" << line;
  }
  if (wrong > 3) ADD_FAILURE() << text << ": " << wrong << " wrong of " << all.size();
}

}  // namespace proof
