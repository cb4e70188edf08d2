// What nvcc's start-up code calls. The layout of fat binaries is not documented; found by looking at nvcc 13's.
#include "registration.hpp"

#include <cuda_runtime_api.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace cudasim::detail {
namespace {

// A program's or a library's PTX.
struct binary {
  std::string text;
  std::string fault;  // why it cannot be loaded
  std::map<std::string, const ptx::kernel*> kernels;
  bool loaded = false;
};

struct function {
  binary* from;
  std::string name;
};

struct registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<binary>> binaries;
  std::map<const void*, function> functions;
};

registry& all() {
  static registry& r = *new registry;
  return r;
}

template <class T> T read(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// The PTX among a fat binary's entries.
void extract(const std::byte* p, binary& b) {
  constexpr uint16_t is_ptx = 1;
  const auto header = read<uint16_t>(p + 6);
  const std::byte* const end = p + header + read<uint64_t>(p + 8);
  for (p += header; p < end;) {
    const auto entry_header = read<uint32_t>(p + 4);
    const auto bytes = read<uint64_t>(p + 8);
    if (read<uint16_t>(p) == is_ptx) {
      b.text.assign(reinterpret_cast<const char*>(p) + entry_header, bytes);
      b.text.resize(std::strlen(b.text.c_str()));
      if (b.text.find(".version") == b.text.npos)
        b.fault = "its PTX is compressed: compile with -Xfatbin --compress=false";
    }
    p += entry_header + bytes;
  }
  if (b.text.empty() && b.fault.empty())
    b.fault = "it has no PTX: compile with -gencode arch=compute_75,code=compute_75";
}

void load(binary& b) {
  b.loaded = true;
  if (!b.fault.empty()) return;
  try {
    for (const ptx::kernel* k : ptx::load(b.text)) b.kernels[ptx::name(*k)] = k;
  } catch (const ptx::error& e) {
    b.fault = e.what();
  }
  std::string().swap(b.text);
}

}  // namespace

const ptx::kernel* registered_kernel(const void* host_function, std::string& why) {
  const std::lock_guard lock(all().mutex);
  const auto f = all().functions.find(host_function);
  if (f == all().functions.end()) {
    why = "no kernel is registered for this function";
    return nullptr;
  }
  binary& b = *f->second.from;
  if (!b.loaded) load(b);
  const auto k = b.kernels.find(f->second.name);
  if (k != b.kernels.end()) return k->second;
  why = b.fault.empty() ? "its module has no kernel " + f->second.name : b.fault;
  return nullptr;
}

}  // namespace cudasim::detail

using namespace cudasim::detail;

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  struct fat_binary {
    int magic, version;
    const std::byte* data;
    void* more;
  };
  auto b = std::make_unique<binary>();
  extract(static_cast<const fat_binary*>(wrapper)->data, *b);
  const std::lock_guard lock(all().mutex);
  all().binaries.push_back(std::move(b));
  return reinterpret_cast<void**>(all().binaries.back().get());
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** handle, const char* host_function, char*, const char* name, int, void*, void*, void*,
                            void*, int*) {
  const std::lock_guard lock(all().mutex);
  all().functions[host_function] = {reinterpret_cast<binary*>(handle), name};
}

// Variables of modules are not shared with the host: whoever asks for one by its symbol gets an error.
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

}  // extern "C"
