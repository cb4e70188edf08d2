// What the proof of the engine needs everywhere: memory that kernels may touch, and launches of PTX text.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "ptx.hpp"

namespace proof {

// Registered memory, aligned to 256 bytes.
template <class T> class buffer {
 public:
  explicit buffer(std::size_t count, ptx::memory_kind kind = ptx::memory_kind::host)
      : count_(count), data_(static_cast<T*>(std::aligned_alloc(256, (count * sizeof(T) + 511) / 256 * 256))) {
    std::memset(static_cast<void*>(data_), 0, count * sizeof(T));
    ptx::add_memory(data_, count * sizeof(T), kind);
  }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  ~buffer() {
    ptx::remove_memory(data_);
    std::free(data_);
  }
  T* data() { return data_; }
  T& operator[](std::size_t k) { return data_[k]; }
  std::size_t size() const { return count_; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(data_); }
  std::vector<T> values() const { return {data_, data_ + count_}; }

 private:
  std::size_t count_;
  T* data_;
};

constexpr const char* header = ".version 9.0\n.target sm_90\n.address_size 64\n";

// A kernel `k` with 64-bit parameters p0, p1, ... in the registers %P0, %P1, ..., and %t = thread of the block.
inline std::string kernel_text(int parameters, const std::string& body, const std::string& before = {}) {
  std::string text = header + before + ".visible .entry k(";
  for (int i = 0; i < parameters; ++i) text += (i ? ", .param .u64 p" : ".param .u64 p") + std::to_string(i);
  text += ")\n{\n.reg .b64 %P<9>;\n.reg .b16 %h<20>;\n.reg .b32 %r<40>;\n.reg .b64 %rd<40>;\n.reg .pred %p<20>;\n";
  text += ".reg .b32 %t;\n.reg .b64 %at;\nmov.u32 %t, %tid.x;\n";
  for (int i = 0; i < parameters; ++i) {
    const std::string n = std::to_string(i);
    text += "ld.param.u64 %P" + n + ", [p" + n + "];\n";
  }
  return text + body + "\nret;\n}\n";
}

struct shape {
  uint32_t blocks = 1, threads = 32, dynamic_shared = 0;
  uint64_t seed = 1;
};

inline ptx::counters launch(const ptx::kernel* k, shape s, std::initializer_list<uint64_t> arguments) {
  ptx::launch l;
  l.code = k;
  l.grid = {s.blocks};
  l.block = {s.threads};
  l.dynamic_shared = s.dynamic_shared;
  l.seed = s.seed;
  l.arguments.resize(ptx::parameter_bytes(*k));
  std::size_t at = 0;
  for (const uint64_t a : arguments) {
    const auto p = ptx::parameters(*k)[at++];
    std::memcpy(l.arguments.data() + p.offset, &a, std::min<std::size_t>(p.bytes, 8));
  }
  return ptx::run(l);
}

inline const ptx::kernel* load_one(const std::string& text) {
  try {
    return ptx::load(text).at(0);
  } catch (const ptx::error& e) {
    throw std::runtime_error(e.kind + ": " + e.what());
  }
}

// Runs `body` with one output array (%P0), of which %at is this thread's element, and gives back the array.
template <class T = uint32_t>
std::vector<T> outputs(const std::string& body, shape s = {}, const std::string& before = {}) {
  buffer<T> out(std::size_t{s.blocks} * s.threads);
  const std::string head = "{ .reg .b32 %x, %y; mov.u32 %x, %ctaid.x; mov.u32 %y, %ntid.x;\nmad.lo.s32 %x, %x, %y, " +
                           std::string("%t; mad.wide.u32 %at, %x, ") + std::to_string(sizeof(T)) + ", %P0; }\n";
  launch(load_one(kernel_text(1, head + body, before)), s, {out.address()});
  return out.values();
}

class configured {  // settings for a scope
 public:
  explicit configured(const ptx::settings& s) : before_(ptx::current_settings()) { ptx::configure(s); }
  configured(const configured&) = delete;
  configured& operator=(const configured&) = delete;
  ~configured() { ptx::configure(before_); }

 private:
  ptx::settings before_;
};

}  // namespace proof
