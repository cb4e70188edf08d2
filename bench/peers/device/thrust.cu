// What one writes by hand with Thrust: the values that are not zero and their places, and the first value of each run
// with its place. Both can be undone from that.
#include "bench/micro/device_timing.cuh"
#include "bench/peers/device/peers.hpp"

#include <thrust/copy.h>
#include <thrust/execution_policy.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/tuple.h>
#include <thrust/unique.h>
#include <thrust/version.h>

#include <limits>

namespace tuck::bench {
namespace {

struct is_not_zero {
  template <class Word> __host__ __device__ bool operator()(Word w) const { return w != 0; }
};

// Values, and behind the room for all of them their places. Thrust finds working memory by itself in each call, and
// waits for the number of values, which it returns.
template <class Word> class places_coder : public timed_coder {
 public:
  explicit places_coder(const coder_request& request)
      : timed_coder(request.raw_bytes, places_at(request) + count_of(request) * sizeof(uint32_t)),
        count_(static_cast<uint32_t>(count_of(request))),
        places_at_(places_at(request)) {}

 private:
  static uint64_t count_of(const coder_request& request) {
    const uint64_t count = request.raw_bytes / sizeof(Word);
    if (count > std::numeric_limits<uint32_t>::max()) throw std::runtime_error("thrust: more than 2^32 - 1 values");
    return count;
  }
  static uint64_t places_at(const coder_request& request) { return round_up_pow2(request.raw_bytes, 8); }

  // How many of the `count` words at `from` it has kept.
  virtual uint64_t keep(const Word* from, uint32_t count, Word* values, uint32_t* places) = 0;

  void launch_encode(uint32_t i) final {
    kept_ = keep(reinterpret_cast<const Word*>(tensor(i).data()), count_, reinterpret_cast<Word*>(result(i).data()),
                 reinterpret_cast<uint32_t*>(result(i).data() + places_at_));
  }
  uint64_t finish_encode() final { return kept_ * (sizeof(Word) + sizeof(uint32_t)); }

  uint32_t count_;
  uint64_t places_at_, kept_ = 0;
};

template <class Word> class copy_if_coder final : public places_coder<Word> {
  using places_coder<Word>::places_coder;

  uint64_t keep(const Word* from, uint32_t count, Word* values, uint32_t* places) override {
    const auto begin = thrust::make_zip_iterator(from, thrust::counting_iterator<uint32_t>(0));
    const auto to = thrust::make_zip_iterator(values, places);
    const auto policy = thrust::cuda::par_nosync.on(this->stream());
    return static_cast<uint64_t>(thrust::copy_if(policy, begin, begin + count, from, to, is_not_zero{}) - to);
  }
};

template <class Word> class unique_by_key_coder final : public places_coder<Word> {
  using places_coder<Word>::places_coder;

  uint64_t keep(const Word* from, uint32_t count, Word* values, uint32_t* places) override {
    const auto policy = thrust::cuda::par_nosync.on(this->stream());
    const auto end =
        thrust::unique_by_key_copy(policy, from, from + count, thrust::counting_iterator<uint32_t>(0), values, places);
    return static_cast<uint64_t>(end.first - values);
  }
};

}  // namespace

std::vector<device_peer> thrust_peers() {
  const std::string library = "Thrust " + std::to_string(THRUST_MAJOR_VERSION) + "." +
                              std::to_string(THRUST_MINOR_VERSION) + "." + std::to_string(THRUST_SUBMINOR_VERSION);
  const auto takes_any = [](dtype) { return true; };
  std::vector<device_peer> peers;
  peers.push_back({"thrust-copy-if", library, false, takes_any, make_of_words<copy_if_coder>});
  peers.push_back({"thrust-unique-by-key", library, false, takes_any, make_of_words<unique_by_key_coder>});
  return peers;
}

}  // namespace tuck::bench
