// What the tests share: which build this is, a stream and memory that clean up, and launches in one line.
#pragma once

#include <cudasim.hpp>
#include <tuck/core/device.cuh>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace sim_test {

namespace dev = tuck::device;

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool with_asan = true;
#else
inline constexpr bool with_asan = false;
#endif
#if defined(__SANITIZE_THREAD__)
inline constexpr bool with_tsan = true;
#else
inline constexpr bool with_tsan = false;
#endif

inline void require(cudaError_t e) {
  if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorName(e));
}

class stream {
 public:
  explicit stream(unsigned flags = cudaStreamNonBlocking) { require(cudaStreamCreateWithFlags(&s_, flags)); }
  ~stream() { cudaStreamDestroy(s_); }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  operator cudaStream_t() const { return s_; }
  void wait() { require(cudaStreamSynchronize(s_)); }

 private:
  cudaStream_t s_ = nullptr;
};

class event {
 public:
  event() { require(cudaEventCreate(&e_)); }
  ~event() { cudaEventDestroy(e_); }
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  operator cudaEvent_t() const { return e_; }

 private:
  cudaEvent_t e_ = nullptr;
};

// Pinned memory, which host and kernels both touch directly.
template <class T> class buffer {
 public:
  explicit buffer(std::size_t n, T value = T{}) : n_(n) {
    require(cudaMallocHost(&p_, n * sizeof(T)));
    for (std::size_t i = 0; i < n; ++i) p_[i] = value;
  }
  ~buffer() { cudaFreeHost(p_); }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  T* get() const { return p_; }
  T& operator[](std::size_t i) const { return p_[i]; }
  std::size_t size() const { return n_; }
  auto begin() const { return p_; }
  auto end() const { return p_ + n_; }

 private:
  T* p_ = nullptr;
  std::size_t n_;
};

inline cudaLaunchConfig_t config(cudaStream_t s, unsigned grid, unsigned block, std::size_t dynamic_bytes = 0) {
  cudaLaunchConfig_t c;
  c.gridDim = grid;
  c.blockDim = block;
  c.dynamicSmemBytes = dynamic_bytes;
  c.stream = s;
  return c;
}

template <class... P, class... A>
cudaError_t start(cudaStream_t s, unsigned grid, unsigned block, void (*kernel)(P...), A&&... a) {
  const cudaLaunchConfig_t c = config(s, grid, block);
  return cudaLaunchKernelEx(&c, kernel, std::forward<A>(a)...);
}

// Launches and waits.
template <class... P, class... A> cudaError_t run(unsigned grid, unsigned block, void (*kernel)(P...), A&&... a) {
  stream s;
  const cudaError_t e = start(s, grid, block, kernel, std::forward<A>(a)...);
  return e != cudaSuccess ? e : cudaStreamSynchronize(s);
}

inline void use_seed(std::uint64_t seed) {
  cudasim::settings options;
  options.seed = seed;
  cudasim::configure(options);
}

}  // namespace sim_test
