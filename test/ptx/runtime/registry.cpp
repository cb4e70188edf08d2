#include "registry.hpp"

#include "../../cudasim/host/quiet_mutex.hpp"
#include "../../cudasim/host/state.hpp"
#include "fat_binary.hpp"

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cudaptx {
namespace {

struct module {
  image ptx;
  std::string text;  // of a library, which the program need not keep
  bool loaded = false;
  std::map<std::string, const ptx::kernel*> kernels;
  std::map<std::string, std::uint32_t> registers;
  std::string failure;

  void load() {
    if (loaded) return;
    loaded = true;
    try {
      if (ptx.text.empty()) throw std::runtime_error(std::string(ptx.problem));
      for (const ptx::kernel* k : ptx::load(ptx.text)) kernels[ptx::name(*k)] = k;
    } catch (const std::exception& e) {
      failure = "cudaptx: a module cannot be loaded\n  " + std::string(e.what()) + "\n";
      std::fputs(failure.c_str(), stderr);
    }
  }
};

struct function {
  module* home;
  std::string name;
};

struct registry {
  cudasim::detail::quiet_mutex mutex;
  std::vector<std::unique_ptr<module>> modules;
  std::map<const void*, function> functions;
};

// Lives longer than the last library that unregisters.
registry& all() {
  static registry& r = *new registry;
  return r;
}

// Returns false if there is no such module.
bool forget(const module* gone) {
  cudasim::detail::quiet_lock lock(all().mutex);
  std::erase_if(all().functions, [=](const auto& f) { return f.second.home == gone; });
  return std::erase_if(all().modules, [=](const auto& m) { return m.get() == gone; }) != 0;
}

}  // namespace

cudaError_t find(const void* host, const ptx::kernel*& kernel) {
  cudasim::detail::quiet_lock lock(all().mutex);
  const auto found = all().functions.find(host);
  if (found == all().functions.end()) return cudaErrorInvalidDeviceFunction;
  module& home = *found->second.home;
  home.load();
  if (!home.failure.empty()) {
    cudasim::detail::remember(home.failure);
    return cudaErrorInvalidKernelImage;
  }
  const auto k = home.kernels.find(found->second.name);
  if (k == home.kernels.end()) return cudaErrorInvalidDeviceFunction;
  kernel = k->second;
  return cudaSuccess;
}

// By name: the model has kernels in an order of its own.
std::uint32_t registers_of(const ptx::kernel& kernel, int arch) {
  cudasim::detail::quiet_lock lock(all().mutex);
  const std::string& name = ptx::name(kernel);
  for (const auto& m : all().modules) {
    if (!m->kernels.contains(name)) continue;
    std::uint32_t& known = m->registers[name];
    if (known == 0) known = registers_of(m->ptx.text, name, arch);
    return known;
  }
  throw std::runtime_error(name + ": a kernel of no module");
}

std::shared_ptr<ptx::time::model> model_of(const ptx::time::machine& gpu) {
  auto m = std::make_shared<ptx::time::model>();
  m->on = gpu;
  m->registers = [arch = gpu.arch](const ptx::kernel& k) { return registers_of(k, arch); };
  m->helpers = {"/core/device.cuh", "/core/bits.hpp", "/cub/", "/cuda/", "/targets/"};
  return m;
}

int target() {
  cudasim::detail::quiet_lock lock(all().mutex);
  for (const auto& m : all().modules)
    if (m->ptx.target != 0) return m->ptx.target;
  return 75;
}

}  // namespace cudaptx

using namespace cudaptx;

// What nvcc's host code calls.
extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  auto fresh = std::make_unique<module>();
  fresh->ptx = find_ptx(wrapper);
  cudasim::detail::quiet_lock lock(all().mutex);
  all().modules.push_back(std::move(fresh));
  return reinterpret_cast<void**>(all().modules.back().get());
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) { forget(reinterpret_cast<module*>(handle)); }

void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  cudasim::detail::quiet_lock lock(all().mutex);
  all().functions[host] = {reinterpret_cast<module*>(handle), name};
}

// Variables of __device__ and __constant__ are the kernels' alone: the host has no symbol of them.
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}

char __cudaInitModule(void**) { return 1; }

}  // extern "C"

// --- Libraries: PTX that the program has as text, such as NVRTC's, with a 0 behind it. Options are ignored.

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned) {
  if (library == nullptr || code == nullptr) return cudaErrorInvalidValue;
  auto fresh = std::make_unique<module>();
  fresh->text = static_cast<const char*>(code);
  fresh->ptx = ptx_text(fresh->text);
  fresh->load();
  if (!fresh->failure.empty()) {
    cudasim::detail::remember(fresh->failure);
    return cudaErrorInvalidPtx;
  }
  cudasim::detail::quiet_lock lock(all().mutex);
  *library = reinterpret_cast<cudaLibrary_t>(fresh.get());
  for (const auto& [name, code] : fresh->kernels) all().functions[code] = {fresh.get(), name};
  all().modules.push_back(std::move(fresh));
  return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return forget(reinterpret_cast<const module*>(library)) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  if (kernel == nullptr || name == nullptr) return cudaErrorInvalidValue;
  cudasim::detail::quiet_lock lock(all().mutex);
  for (const auto& m : all().modules) {
    if (m.get() != reinterpret_cast<const module*>(library)) continue;
    const auto found = m->kernels.find(name);
    if (found == m->kernels.end()) return cudaErrorSymbolNotFound;
    *kernel = reinterpret_cast<cudaKernel_t>(const_cast<ptx::kernel*>(found->second));
    return cudaSuccess;
  }
  return cudaErrorInvalidResourceHandle;
}
