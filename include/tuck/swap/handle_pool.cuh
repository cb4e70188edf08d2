// SPDX-License-Identifier: Apache-2.0
// A pool of what a swap_stream needs for each operation: a CUDA event, and a report in pinned memory. Also helpers for
// streams, devices and exceptions.
#pragma once

#include <tuck/memory/resource.hpp>
#include <tuck/swap/frame_copy.cuh>
#include <tuck/swap/swap_backend.hpp>

#include <bit>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace tuck::inline TUCK_ABI::detail {

// Calls `work` on a CUDA thread after all work submitted to `stream`. `work` must not call CUDA. Throws `error`.
inline void call_behind(cudaStream_t stream, std::function<void()> work) {
  auto call = std::make_unique<std::function<void()>>(std::move(work));
  const auto run = [](void* data) {
    (*std::unique_ptr<std::function<void()>>(static_cast<std::function<void()>*>(data)))();
  };
  require(cudaLaunchHostFunc(stream, run, call.get()));
  static_cast<void>(call.release());
}

// A device_scope in which the thread may also query events and allocate memory while a stream is being captured. CUDA
// forbids both by default and would invalidate the capture, even one of another thread. Calls within the scope must not
// use a capturing stream.
class swap_scope : public device_scope {
 public:
  explicit swap_scope(int device) noexcept
      : device_scope(device), changed_(cudaThreadExchangeStreamCaptureMode(&before_) == cudaSuccess) {}
  ~swap_scope() {
    if (!changed_) return;
    release([&] {
      auto mode = before_;
      return cudaThreadExchangeStreamCaptureMode(&mode);
    });
  }

 private:
  cudaStreamCaptureMode before_ = cudaStreamCaptureModeRelaxed;
  bool changed_;
};

// Owns a CUDA handle that is created with flags.
template <class Handle, cudaError_t (*make)(Handle*, unsigned), unsigned flags, cudaError_t (*destroy)(Handle)>
class owned {
 public:
  owned() { require(make(&handle_, flags)); }
  owned(const owned&) = delete;
  owned& operator=(const owned&) = delete;
  ~owned() {
    release([&] { return destroy(handle_); });
  }
  operator Handle() const noexcept { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using owned_stream = owned<cudaStream_t, cudaStreamCreateWithFlags, cudaStreamNonBlocking, cudaStreamDestroy>;
using event = owned<cudaEvent_t, cudaEventCreateWithFlags, cudaEventDisableTiming, cudaEventDestroy>;

// What the host learns of an operation on a stream: an event, and what kernels before it have reported.
struct signal : event {
  std::shared_ptr<offload_report> report;  // in pinned memory; a part of a slab
  offload_report* on_device;               // the same for kernels
};

// A pool of reusable signals. A handle gives exclusive use of one. The signal returns to the pool when the last copy of
// the handle is destroyed, on any thread. Handles may outlive the pool. Thread-safe.
class signal_pool {
 public:
  using handle = std::shared_ptr<signal>;

  // Reports per allocation. The constructor makes the first allocation, acquire makes others when all are in use.
  static constexpr size_t slab_reports = 1024;

  signal_pool() { add_slab(); }

  handle acquire() {
    std::unique_lock lock(spare_->mutex);
    if (spare_->unused.empty()) make_one();
    std::unique_ptr<signal> one = std::move(spare_->unused.back());
    spare_->unused.pop_back();
    lock.unlock();
    return handle(one.release(), [spare = spare_](signal* s) {
      const std::lock_guard returning(spare->mutex);
      spare->unused.emplace_back(s);
    });
  }

 private:
  struct shelf {
    std::mutex mutex;
    std::vector<std::unique_ptr<signal>> unused;  // with capacity for all, so that returning one never allocates
  };

  void make_one() {
    if (made_ != 0 && made_ % slab_reports == 0) add_slab();
    const size_t i = made_ % slab_reports;
    spare_->unused.reserve(std::bit_ceil(made_ + 1));
    spare_->unused.emplace_back(new signal{{}, {slab_, slab_.get() + i}, device_ + i});
    ++made_;
  }
  void add_slab() {
    const std::shared_ptr<std::byte> memory = allocate_host(slab_reports * sizeof(offload_report));
    device_ = reinterpret_cast<offload_report*>(device_address(memory.get()));
    slab_ = {memory, reinterpret_cast<offload_report*>(memory.get())};
  }

  std::shared_ptr<shelf> spare_ = std::make_shared<shelf>();
  std::shared_ptr<offload_report> slab_;  // the last one
  offload_report* device_ = nullptr;
  size_t made_ = 0;
};

}  // namespace tuck::inline TUCK_ABI::detail
