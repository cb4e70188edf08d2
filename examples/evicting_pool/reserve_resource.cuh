// A memory resource that keeps some of its upstream's memory back for those who need it just when there is none left.
#pragma once

#include <tuck/memory/frame_buffer.cuh>

#include <algorithm>

namespace example {

// Not synchronised: one thread at a time.
template <tuck::stream_resource Upstream> class reserve_resource {
 public:
  explicit reserve_resource(Upstream& upstream) noexcept : upstream_(&upstream) {}

  // From the next refill on, at least so many bytes; if that is not kept, as many as before.
  class wish {
   public:
    wish(uint64_t& wanted, uint64_t size) noexcept : wanted_(&wanted), before_(wanted) {
      wanted = std::max(wanted, size);
    }
    wish(const wish&) = delete;
    wish& operator=(const wish&) = delete;
    ~wish() { *wanted_ = before_; }
    void keep() noexcept { before_ = *wanted_; }

   private:
    uint64_t* wanted_;
    uint64_t before_;
  };
  wish want(uint64_t size) noexcept { return wish(wanted_, size); }
  // Throws what upstream throws. `stream` lives as long as the reserve does.
  void refill(cudaStream_t stream) {
    if (reserve_.all().size() < wanted_) reserve_ = tuck::device_buffer<Upstream>(*upstream_, wanted_, stream);
  }
  // May allocate give the reserve back to upstream, when upstream has nothing else?
  void open(bool may) noexcept { open_ = may; }

  void* allocate(cudaStream_t stream, size_t size, size_t alignment = 256) {
    try {
      return tuck::allocate_from(*upstream_, size, alignment, stream);
    } catch (...) {
      if (!open_ || reserve_.all().empty()) throw;
    }
    reserve_ = {};
    return tuck::allocate_from(*upstream_, size, alignment, stream);
  }
  void deallocate(cudaStream_t stream, void* p, size_t size, size_t alignment = 256) noexcept {
    tuck::deallocate_to(*upstream_, p, size, alignment, stream);
  }

 private:
  Upstream* upstream_;
  uint64_t wanted_ = 0;
  tuck::device_buffer<Upstream> reserve_;
  bool open_ = false;
};
static_assert(tuck::stream_resource<reserve_resource<tuck::async_resource>>);

}  // namespace example
