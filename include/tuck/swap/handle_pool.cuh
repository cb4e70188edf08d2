// Pools of handles that a swap_stream needs for each operation: CUDA events, and reports in pinned memory. Also helpers
// for streams, devices and exceptions.
#pragma once

#include <tuck/memory/resource.cuh>
#include <tuck/swap/frame_copy.cuh>

#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

namespace tuck::inline TUCK_ABI::detail {

// Runs `body` and converts exceptions: an `error` to its result, any other to out_of_memory. A void body gives ok.
template <class Body> result guarded(const Body& body) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(body())>)
      return body(), result{};
    else
      return body();
  } catch (const error& e) {
    return e.why();
  } catch (...) {
    return {status::out_of_memory};
  }
}

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
    give_back([&] {
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
    give_back([&] { return destroy(handle_); });
  }
  operator Handle() const noexcept { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using owned_stream = owned<cudaStream_t, cudaStreamCreateWithFlags, cudaStreamNonBlocking, cudaStreamDestroy>;
using event = owned<cudaEvent_t, cudaEventCreateWithFlags, cudaEventDisableTiming, cudaEventDestroy>;

// A pool of reusable objects. A pooled handle gives exclusive use of one object and returns it when the last copy of
// the handle is destroyed, on any thread. Handles may outlive the pool. Thread-safe.
template <class T> class handle_pool {
 public:
  using handle = std::shared_ptr<T>;

  // Returns a spare object, or a new object from make(), which returns a std::unique_ptr or throws.
  template <class Make = decltype(&std::make_unique<T>)> handle take(const Make& make = &std::make_unique<T>) {
    std::unique_ptr<T> one;
    {
      const std::lock_guard lock(spare_->mutex);
      if (!spare_->things.empty()) {
        one = std::move(spare_->things.back());
        spare_->things.pop_back();
      } else {
        if (++spare_->made > spare_->things.capacity())
          spare_->things.reserve(2 * spare_->made);  // so that returning an object never allocates
      }
    }
    if (one == nullptr) one = make();
    return handle(one.release(), [spare = spare_](T* thing) {
      const std::lock_guard lock(spare->mutex);
      spare->things.emplace_back(thing);
    });
  }

 private:
  struct shelf {
    std::mutex mutex;
    std::vector<std::unique_ptr<T>> things;
    size_t made = 0;
  };
  std::shared_ptr<shelf> spare_ = std::make_shared<shelf>();
};

using pooled_event = handle_pool<event>::handle;

// A pool of offload_reports in pinned memory, which kernels write.
class report_pool {
 public:
  struct report {
    std::shared_ptr<offload_report> slab;
    offload_report* host = nullptr;
    offload_report* device = nullptr;
  };
  using handle = handle_pool<report>::handle;

  // Reports per allocation. The constructor makes the first allocation, take makes others when all are in use.
  static constexpr unsigned slab_reports = 1024;

  report_pool() { add_slab(); }
  handle take() {
    return reports_.take([&] {
      const std::lock_guard lock(mutex_);
      if (taken_ == slab_reports) add_slab();
      auto one = std::make_unique<report>(report{slab_, slab_.get() + taken_, device_ + taken_});
      ++taken_;
      return one;
    });
  }

 private:
  void add_slab() {
    const std::shared_ptr<std::byte> memory = allocate_host(slab_reports * sizeof(offload_report));
    device_ = reinterpret_cast<offload_report*>(device_address(memory));
    slab_ = {memory, reinterpret_cast<offload_report*>(memory.get())};
    taken_ = 0;
  }

  std::mutex mutex_;
  std::shared_ptr<offload_report> slab_;
  offload_report* device_ = nullptr;
  unsigned taken_ = 0;
  handle_pool<report> reports_;
};

}  // namespace tuck::inline TUCK_ABI::detail
