// Random sequences of everything a swap_stream does, from one thread to four, on streams that are late at random.
#include "support/device.hpp"
#include "swap/swap_codecs.hpp"

#include <atomic>
#include <mutex>
#include <thread>

namespace tuck::test {
namespace {

// Device memory of one stream.
class stream_memory {
 public:
  stream_memory() = default;
  stream_memory(uint64_t size, cudaStream_t stream) : stream_(stream) {
    check(cudaMallocAsync(&data_, std::max<uint64_t>(size, 16), stream));
  }
  stream_memory(stream_memory&& other) noexcept { *this = std::move(other); }
  stream_memory& operator=(stream_memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~stream_memory() {
    if (data_ != nullptr) check(cudaFreeAsync(data_, stream_));
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  void move_to(cudaStream_t stream) { stream_ = stream; }

 private:
  void* data_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

// A tensor on its way, and what it must come back as.
struct parcel {
  std::vector<std::byte> values;
  const swap_codec* codec = nullptr;
  swap_path path = swap_path::direct;
  swap_handle handle;
  stream_memory kept;  // the source, where the pool was full
};

struct sequence_options {
  uint64_t seed;
  unsigned threads;
  unsigned steps;  // of each thread
  swap_options swap;
};

class sequence {
 public:
  explicit sequence(const sequence_options& o) : options_(o), swap_(o.swap, memory_) {}

  void run() {
    {
      std::vector<std::jthread> others;
      for (unsigned i = 1; i < options_.threads; ++i) others.emplace_back([this, i] { work(i); });
      work(0);
    }
    shared_.clear();
    EXPECT_EQ(swap_.drain().code, status::ok);
    const pool_statistics pool = swap_.statistics();
    EXPECT_EQ(pool.held, 0u);
    EXPECT_EQ(pool.reserved, 0u);
    EXPECT_EQ(pool.wasted, 0u);
    EXPECT_LE(pool.peak, pool.capacity);
    check(cudaDeviceSynchronize());
  }

  std::atomic<uint64_t> offloaded{0}, kept{0}, refused{0}, restored{0};

 private:
  struct worker {
    explicit worker(uint64_t seed) : random(seed) {}
    std::mt19937_64 random;
    device_stream streams[2];
    std::vector<std::unique_ptr<parcel>> mine;
    // What has been asked for and not looked at.
    struct arrival {
      std::vector<std::byte> expected, seen;
      const swap_codec* codec;
      bool exact;
    };
    std::deque<arrival> arrivals;
  };

  void work(unsigned index) {
    worker w(options_.seed * 64 + index);
    for (unsigned step = 0; step < options_.steps; ++step) {
      switch (w.random() % 8) {
        case 0:
        case 1:
        case 2: out(w); break;
        case 3:
        case 4: in(w); break;
        case 5:
          if (!w.mine.empty()) {
            EXPECT_EQ(swap_.prefetch(some(w).handle).code, status::ok);
          }
          break;
        case 6: {
          EXPECT_EQ(swap_.poll().code, status::ok);
          if (!w.mine.empty() && w.random() % 2 == 0) exchange(w);
          break;
        }
        case 7:
          if (!w.mine.empty()) drop(w);
          break;
      }
      if (::testing::Test::HasFatalFailure()) return;
    }
    while (!w.mine.empty() && w.random() % 4 != 0) in(w);
    look(w);
  }

  static parcel& some(worker& w) { return *w.mine[w.random() % w.mine.size()]; }

  uint64_t size_of_tensor(worker& w, const swap_codec& codec) const {
    const double u = static_cast<double>(w.random() >> 11) * 0x1p-53;
    const bool large = !codec.slow && w.random() % (brief ? 400 : 20) == 0;
    const double bytes = large ? std::exp2(14 + 8 * u) : std::exp2(14 * u);
    return static_cast<uint64_t>(bytes) / codec.value_bytes;
  }

  status why_kept(const parcel& p) const {
    const bool encodes = p.path == swap_path::direct || p.path == swap_path::staged;
    const uint64_t count = p.values.size() / p.codec->value_bytes;
    const uint64_t most = encodes ? p.codec->max_frame_bytes(count, options_.swap.checksums) : p.values.size();
    return most > options_.swap.pinned_bytes ? status::pool_too_small : status::pool_full;
  }

  void out(worker& w) {
    auto p = std::make_unique<parcel>();
    const auto& codecs = swap_codecs();
    do p->codec = &codecs[w.random() % codecs.size()];
    while (p->codec->slow && w.random() % 4 != 0);
    p->path = static_cast<swap_path>(w.random() % 4);
    p->values = p->codec->make(size_of_tensor(w, *p->codec), w.random());
    const device_stream& stream = w.streams[w.random() % 2];
    stream_memory source(p->values.size(), stream);
    if (!p->values.empty())
      check(cudaMemcpyAsync(source.data(), p->values.data(), p->values.size(), cudaMemcpyDefault, stream));
    const result r = p->codec->out(swap_, {source.data(), p->values.size()}, stream, p->handle, p->path);
    stream.wait();  // of the upload, that `values` may move
    if (!r) {
      EXPECT_EQ(r.code, why_kept(*p));
      EXPECT_TRUE(options_.swap.full != on_full::keep_on_device || options_.swap.pinned_bytes == 0);
      ++refused;
      return;
    }
    if (p->handle.kept_on_device()) {
      EXPECT_EQ(options_.swap.full, on_full::keep_on_device);
      EXPECT_EQ(p->handle.wait_source(stream).code, why_kept(*p));
      p->kept = std::move(source);
      ++kept;
    } else {
      const device_stream& last = w.streams[w.random() % 2];
      EXPECT_EQ(p->handle.wait_source(last).code, status::ok);
      check(cudaMemsetAsync(source.data(), 0xee, std::max<uint64_t>(p->values.size(), 16), last));
      source.move_to(last);
      ++offloaded;
    }
    w.mine.push_back(std::move(p));
  }

  void in(worker& w) {
    if (w.mine.empty()) return;
    parcel& p = some(w);
    const device_stream& stream = w.streams[w.random() % 2];
    const stream_memory to(p.values.size(), stream);
    w.arrivals.push_back({p.values, std::vector<std::byte>(p.values.size()), p.codec,
                          p.path == swap_path::raw || p.handle.kept_on_device()});
    EXPECT_EQ(swap_.in(p.handle, bytes(to.data(), p.values.size()), stream).code, status::ok);
    auto& seen = w.arrivals.back().seen;
    if (!seen.empty()) check(cudaMemcpyAsync(seen.data(), to.data(), seen.size(), cudaMemcpyDefault, stream));
    if (p.handle.kept_on_device()) stream.wait();  // the source may be dropped by another thread
    ++restored;
    if (w.arrivals.size() == 4) look(w);
  }

  void look(worker& w) {
    for (const device_stream& s : w.streams) s.wait();
    for (const auto& a : w.arrivals) {
      const bool right = a.exact ? a.expected == a.seen : a.codec->allows(a.expected, a.seen);
      EXPECT_TRUE(right || a.expected == a.seen) << a.codec->name << ", " << a.expected.size() << " bytes";
    }
    w.arrivals.clear();
  }

  void drop(worker& w) {
    std::swap(w.mine[w.random() % w.mine.size()], w.mine.back());
    w.mine.back()->handle.reset();
    w.mine.pop_back();
  }

  // Leaves a tensor for others, and takes one of theirs.
  void exchange(worker& w) {
    const std::lock_guard lock(mutex_);
    if (w.mine.back()->handle.kept_on_device()) return;  // its source is of a stream that may end
    shared_.push_back(std::move(w.mine.back()));
    std::swap(shared_[w.random() % shared_.size()], shared_.back());
    w.mine.back() = std::move(shared_.back());
    shared_.pop_back();
    if (w.random() % 2 == 0) {
      shared_.push_back(std::move(w.mine.back()));
      w.mine.pop_back();
    }
  }

  sequence_options options_;
  async_resource memory_;
  swap_stream swap_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<parcel>> shared_;
};

// Fewer under ThreadSanitizer, which takes long to make threads.
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t sequences = 100;
#else
constexpr uint64_t sequences = 1000;
#endif
constexpr uint64_t sequences_a_test = 50;

class swap_sequences : public ::testing::TestWithParam<uint64_t> {};

TEST_P(swap_sequences, bring_everything_back) {
  const uint64_t count = sequences_a_test * (long_run() ? 100 : 1);
  uint64_t offloaded = 0, kept = 0, refused = 0, restored = 0;
  for (uint64_t i = 0; i < count && !HasFailure(); ++i) {
    const uint64_t seed = GetParam() * 1000000 + i;
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
#if defined(TUCK_CUDASIM)
    auto settings = cudasim::current_settings();
    settings.seed = seed;
    settings.poison = seed % 2 == 0 ? 0xcd : 0x5a;
    settings.stream_delays = true;
    cudasim::configure(settings);
    const size_t before = cudasim::live_allocations();
#endif
    constexpr uint64_t pools[] = {0, 1 << 11, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 25};
    sequence s({.seed = seed,
                .threads = 1 + static_cast<unsigned>(random() % 4),
                .steps = 4 + static_cast<unsigned>(random() % (brief ? 4 : 12)),
                .swap = {.pinned_bytes = pools[random() % std::size(pools)],
                         .limits = {.max_blocks = static_cast<unsigned>(random() % 5)},
                         .full = static_cast<on_full>(random() % 3),
                         .cpu_threads = static_cast<unsigned>(random() % 3),
                         .checksums = random() % 2 == 0}});
    s.run();
    offloaded += s.offloaded;
    kept += s.kept;
    refused += s.refused;
    restored += s.restored;
#if defined(TUCK_CUDASIM)
    EXPECT_EQ(cudasim::last_report(), "");
    static_cast<void>(before);
#endif
  }
  std::printf("    %llu sequences: %llu tensors offloaded, %llu kept on the device, %llu refused, %llu restored\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(offloaded),
              static_cast<unsigned long long>(kept), static_cast<unsigned long long>(refused),
              static_cast<unsigned long long>(restored));
}
INSTANTIATE_TEST_SUITE_P(seeds, swap_sequences, ::testing::Range(uint64_t{0}, sequences / sequences_a_test));

}  // namespace
}  // namespace tuck::test
