// Floating point arithmetic against the machine's own, in each of its rounding modes.
#include <functional>

#include "rounding.hpp"

namespace {
using namespace proof;

template <class T> T root(T a) { return std::sqrt(a); }
template <class T> T fused(T a, T b, T c) { return std::fma(a, b, c); }

template <class T> void arithmetic(const std::string& t) {
  for (const mode& m : modes) {
    const std::string end = std::string(".") + m.name + "." + t + " %d, %a";
    form("add" + end + ", %b;", under<T, T>(m, std::plus<T>()));
    form("sub" + end + ", %b;", under<T, T>(m, std::minus<T>()));
    form("mul" + end + ", %b;", under<T, T>(m, std::multiplies<T>()));
    form("div" + end + ", %b;", under<T, T>(m, std::divides<T>()));
    form("rcp" + end + ";", under<T>(m, [](T a) { return T{1} / a; }));
    form("sqrt" + end + ";", under<T>(m, root<T>));
    form("fma" + end + ", %b, %c;", under<T, T, T>(m, fused<T>));
  }
  form("add." + t + " %d, %a, %b;", [](T a, T b) { return a + b; });
  form("sub." + t + " %d, %a, %b;", [](T a, T b) { return a - b; });
  form("mul." + t + " %d, %a, %b;", [](T a, T b) { return a * b; });
  form("mad.rn." + t + " %d, %a, %b, %c;", [](T a, T b, T c) { return std::fma(a, b, c); });
}
TEST(Floating, F32) { arithmetic<float>("f32"); }
TEST(Floating, F64) { arithmetic<double>("f64"); }

TEST(Floating, FlushAndSaturate) {
  const auto f = [](float v) { return flushed(v); };
  for (const mode& m : modes) {
    const auto with = [&](const char* op, const char* rest) {
      return std::string(op) + "." + m.name + ".ftz.f32 %d, %a" + rest;
    };
    const auto saturating = [&](const char* op, const char* rest) {
      return std::string(op) + "." + m.name + ".sat.f32 %d, %a" + rest;
    };
    const auto add = under<float, float>(m, std::plus<float>());
    const auto mul = under<float, float>(m, std::multiplies<float>());
    const auto div = under<float, float>(m, std::divides<float>());
    const auto fma = under<float, float, float>(m, fused<float>);
    form(with("add", ", %b;"), [=](float a, float b) { return flushed_result(add(f(a), f(b))); });
    form(with("sub", ", %b;"), [=](float a, float b) { return flushed_result(add(f(a), -f(b))); });
    form(with("mul", ", %b;"), [=](float a, float b) { return flushed_result(mul(f(a), f(b))); });
    form(with("div", ", %b;"), [=](float a, float b) { return flushed_result(div(f(a), f(b))); });
    form(with("rcp", ";"), [=](float a) { return flushed_result(div(1, f(a))); });
    form(with("sqrt", ";"), [=](float a) { return flushed_result(under<float>(m, root<float>)(f(a))); });
    form(with("fma", ", %b, %c;"), [=](float a, float b, float c) { return flushed_result(fma(f(a), f(b), f(c))); });
    form(saturating("add", ", %b;"), [=](float a, float b) { return clamped(add(a, b)); });
    form(saturating("sub", ", %b;"), [=](float a, float b) { return clamped(add(a, -b)); });
    form(saturating("mul", ", %b;"), [=](float a, float b) { return clamped(mul(a, b)); });
    form(saturating("fma", ", %b, %c;"), [=](float a, float b, float c) { return clamped(fma(a, b, c)); });
  }
}

// A NaN loses; -0 is less than +0.
template <class T> T least(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
  return a < b || (a == b && std::signbit(a)) ? a : b;
}
template <class T> T most(T a, T b) { return -least(-a, -b); }
template <class T> void comparing(const std::string& t) {
  form("min." + t + " %d, %a, %b;", [](T a, T b) { return least(a, b); });
  form("max." + t + " %d, %a, %b;", [](T a, T b) { return most(a, b); });
  form("neg." + t + " %d, %a;", [](T a) { return -a; });
  form("abs." + t + " %d, %a;", [](T a) { return std::fabs(a); });
  form("copysign." + t + " %d, %a, %b;", [](T a, T b) { return std::copysign(b, a); });
}
TEST(Floating, MinMaxAndSigns) {
  comparing<float>("f32");
  comparing<double>("f64");
  const auto f = [](float v) { return flushed(v); };
  form("min.ftz.f32 %d, %a, %b;", [=](float a, float b) { return least(f(a), f(b)); });
  form("max.ftz.f32 %d, %a, %b;", [=](float a, float b) { return most(f(a), f(b)); });
  form("neg.ftz.f32 %d, %a;", [=](float a) { return -f(a); });
  form("abs.ftz.f32 %d, %a;", [=](float a) { return std::fabs(f(a)); });
}

TEST(Floating, Immediates) {
  form("add.f32 %d, %a, 0f3F800000;", [](float a) { return a + 1; });
  form("mul.f32 %d, %a, 0fC0000000;", [](float a) { return a * -2; });
  form("add.f64 %d, %a, 0d3ff0000000000000;", [](double a) { return a + 1; });
  form("fma.rn.f32 %d, %a, %a, 0F40400000;", [](float a) { return std::fma(a, a, 3.0F); });
}

}  // namespace
