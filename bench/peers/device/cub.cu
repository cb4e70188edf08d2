// What CUB alone makes of a tensor: what is not zero, or runs. Values are compared by their bits.
#include "bench/micro/device_timing.cuh"
#include "bench/peers/device/peers.hpp"

#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_select.cuh>

#include <limits>

namespace tuck::bench {
namespace {

struct is_not_zero {
  template <class Word> __host__ __device__ bool operator()(Word w) const { return w != 0; }
};

// The values that are not zero. Nothing says where they were, so that this does less than any codec must.
template <class Word> class select_coder final : public timed_coder {
 public:
  explicit select_coder(const coder_request& request)
      : timed_coder(request.raw_bytes, request.raw_bytes),
        count_(static_cast<int64_t>(request.raw_bytes / sizeof(Word))),
        kept_(sizeof(int64_t)),
        temporary_(temporary_bytes()) {}

 private:
  cudaError_t call(void* temporary, size_t& size, const Word* from, Word* to) const {
    auto* const kept = reinterpret_cast<int64_t*>(kept_.all().data());
    return cub::DeviceSelect::If(temporary, size, from, to, kept, count_, is_not_zero{}, stream());
  }
  size_t temporary_bytes() const {
    size_t size = 0;
    require(call(nullptr, size, nullptr, nullptr));
    return size;
  }

  void launch_encode(uint32_t i) override {
    size_t size = temporary_.all().size();
    require(call(temporary_.all().data(), size, reinterpret_cast<const Word*>(tensor(i).data()),
                 reinterpret_cast<Word*>(result(i).data())));
  }
  uint64_t finish_encode() override {
    int64_t kept = 0;
    put(kept_.all(), as_writable_bytes(span<int64_t>(&kept, 1)));
    return static_cast<uint64_t>(kept) * sizeof(Word);
  }

  int64_t count_;
  tools::device_memory kept_, temporary_;
};

// The value of each run, and behind the room for all of them their lengths.
template <class Word> class run_length_coder final : public timed_coder {
 public:
  explicit run_length_coder(const coder_request& request)
      : timed_coder(request.raw_bytes, lengths_at(request) + count_of(request) * sizeof(uint32_t)),
        count_(static_cast<int>(count_of(request))),
        lengths_at_(lengths_at(request)),
        runs_(sizeof(int)),
        temporary_(temporary_bytes()) {}

 private:
  static uint64_t count_of(const coder_request& request) {
    const uint64_t count = request.raw_bytes / sizeof(Word);
    if (count > uint64_t{std::numeric_limits<int>::max()})
      throw std::runtime_error("cub::DeviceRunLengthEncode takes up to 2^31 - 1 values");
    return count;
  }
  static uint64_t lengths_at(const coder_request& request) { return round_up_pow2(request.raw_bytes, 8); }

  cudaError_t call(void* temporary, size_t& size, const Word* from, Word* values, uint32_t* lengths) const {
    auto* const runs = reinterpret_cast<int*>(runs_.all().data());
    return cub::DeviceRunLengthEncode::Encode(temporary, size, from, values, lengths, runs, count_, stream());
  }
  size_t temporary_bytes() const {
    size_t size = 0;
    require(call(nullptr, size, nullptr, nullptr, nullptr));
    return size;
  }

  void launch_encode(uint32_t i) override {
    size_t size = temporary_.all().size();
    require(call(temporary_.all().data(), size, reinterpret_cast<const Word*>(tensor(i).data()),
                 reinterpret_cast<Word*>(result(i).data()),
                 reinterpret_cast<uint32_t*>(result(i).data() + lengths_at_)));
  }
  uint64_t finish_encode() override {
    int runs = 0;
    put(runs_.all(), as_writable_bytes(span<int>(&runs, 1)));
    return static_cast<uint64_t>(runs) * (sizeof(Word) + sizeof(uint32_t));
  }

  int count_;
  uint64_t lengths_at_;
  tools::device_memory runs_, temporary_;
};

}  // namespace

std::vector<device_peer> cub_peers() {
  const std::string library = "CUB " + std::to_string(CUB_MAJOR_VERSION) + "." + std::to_string(CUB_MINOR_VERSION) +
                              "." + std::to_string(CUB_SUBMINOR_VERSION);
  const auto takes_any = [](dtype) { return true; };
  std::vector<device_peer> peers;
  peers.push_back({"cub-select", library, false, takes_any, make_of_words<select_coder>});
  peers.push_back({"cub-rle", library, false, takes_any, make_of_words<run_length_coder>});
  return peers;
}

}  // namespace tuck::bench
