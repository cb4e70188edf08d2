// Floating point arithmetic against the machine's own, in each of its rounding modes.
#include "rounding.hpp"

namespace {
using namespace proof;

template <class T> void arithmetic(const std::string& t) {
  for (const mode& m : modes) {
    const std::string end = std::string(".") + m.name + "." + t + " %d, %a";
    form("add" + end + ", %b;", [=](T a, T b) {
      const rounding r(m);
      return hidden(hidden(a) + hidden(b));
    });
    form("sub" + end + ", %b;", [=](T a, T b) {
      const rounding r(m);
      return hidden(hidden(a) - hidden(b));
    });
    form("mul" + end + ", %b;", [=](T a, T b) {
      const rounding r(m);
      return hidden(hidden(a) * hidden(b));
    });
    form("div" + end + ", %b;", [=](T a, T b) {
      const rounding r(m);
      return hidden(hidden(a) / hidden(b));
    });
    form("rcp" + end + ";", [=](T a) {
      const rounding r(m);
      return hidden(hidden(T{1}) / hidden(a));
    });
    form("sqrt" + end + ";", [=](T a) {
      const rounding r(m);
      return hidden(std::sqrt(hidden(a)));
    });
    form("fma" + end + ", %b, %c;", [=](T a, T b, T c) {
      const rounding r(m);
      return hidden(std::fma(hidden(a), hidden(b), hidden(c)));
    });
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
    const auto add = [=](float a, float b) {
      const rounding r(m);
      return hidden(hidden(a) + hidden(b));
    };
    const auto mul = [=](float a, float b) {
      const rounding r(m);
      return hidden(hidden(a) * hidden(b));
    };
    const auto div = [=](float a, float b) {
      const rounding r(m);
      return hidden(hidden(a) / hidden(b));
    };
    const auto root = [=](float a) {
      const rounding r(m);
      return hidden(std::sqrt(hidden(a)));
    };
    const auto fma = [=](float a, float b, float c) {
      const rounding r(m);
      return hidden(std::fma(hidden(a), hidden(b), hidden(c)));
    };
    form(with("add", ", %b;"), [=](float a, float b) { return flushed_result(add(f(a), f(b))); });
    form(with("sub", ", %b;"), [=](float a, float b) { return flushed_result(add(f(a), -f(b))); });
    form(with("mul", ", %b;"), [=](float a, float b) { return flushed_result(mul(f(a), f(b))); });
    form(with("div", ", %b;"), [=](float a, float b) { return flushed_result(div(f(a), f(b))); });
    form(with("rcp", ";"), [=](float a) { return flushed_result(div(1, f(a))); });
    form(with("sqrt", ";"), [=](float a) { return flushed_result(root(f(a))); });
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
  form("testp.finite." + t + " %d, %a;", [](T a) { return std::isfinite(a); });
  form("testp.infinite." + t + " %d, %a;", [](T a) { return std::isinf(a); });
  form("testp.number." + t + " %d, %a;", [](T a) { return !std::isnan(a); });
  form("testp.notanumber." + t + " %d, %a;", [](T a) { return std::isnan(a); });
  form("testp.subnormal." + t + " %d, %a;", [](T a) { return subnormal(a); });
}
TEST(Floating, MinMaxSignsAndClasses) {
  comparing<float>("f32");
  comparing<double>("f64");
  const auto f = [](float v) { return flushed(v); };
  form("min.ftz.f32 %d, %a, %b;", [=](float a, float b) { return least(f(a), f(b)); });
  form("max.ftz.f32 %d, %a, %b;", [=](float a, float b) { return most(f(a), f(b)); });
  form("neg.ftz.f32 %d, %a;", [=](float a) { return -f(a); });
  form("abs.ftz.f32 %d, %a;", [=](float a) { return std::fabs(f(a)); });
}

TEST(Floating, ZeroCountsAsNormal) {
  form("testp.normal.f32 %d, %a;", [](float a) { return std::isnormal(a) || a == 0; });
  form("testp.normal.f64 %d, %a;", [](double a) { return std::isnormal(a) || a == 0; });
}

TEST(Floating, Immediates) {
  form("add.f32 %d, %a, 0f3F800000;", [](float a) { return a + 1; });
  form("mul.f32 %d, %a, 0fC0000000;", [](float a) { return a * -2; });
  form("add.f64 %d, %a, 0d3ff0000000000000;", [](double a) { return a + 1; });
  form("fma.rn.f32 %d, %a, %a, 0F40400000;", [](float a) { return std::fma(a, a, 3.0F); });
}

}  // namespace
