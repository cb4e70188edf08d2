#include "bench/papers/tuner/host_launch.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace tuck::bench {
namespace {

struct piece {
  const_bytes values;
  tuck::bytes frame, restored;
  uint64_t frame_size = 0;
  status code = status::ok;
};

// For how long this thread has waited for a core in its life, as Linux says; else nothing.
double waited_so_far() {
  std::ifstream file("/proc/thread-self/schedstat");
  double running = 0, waiting = 0;
  return file >> running >> waiting ? waiting * 1e-9 : 0;
}

// Adds to `waited` for how long the other threads have waited.
template <class Work>
void in_turn(std::vector<piece>& pieces, unsigned threads, std::atomic<double>& waited, const Work& work) {
  std::atomic<size_t> next{0};
  const auto take = [&] {
    for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces.size();) work(pieces[i]);
  };
  std::vector<std::jthread> others;
  for (unsigned t = 1; t < threads; ++t)
    others.emplace_back([&] {
      take();
      waited += waited_so_far();
    });
  take();
}

}  // namespace

host_launch::host_launch(const std::string& codec, const tensor& t, unsigned tries)
    : tensor_(t), tries_(tries), codec_(tools::choose_codec({.name = codec}, t.type)), restored_(t.values.size()) {
  if (codec_ == nullptr) throw std::runtime_error(codec + ": no codec of " + std::string(tuck::name(t.type)));
}

double host_launch::operator()(const launch_point& p) {
  run least = once(p);
  const auto is_disturbed = [](const run& r) { return r.waited > r.seconds / 50; };
  for (unsigned i = 1; i < tries_ && is_disturbed(least); ++i)
    if (const run again = once(p); again.waited < least.waited) least = again;
  disturbed_ += is_disturbed(least);
  return least.seconds;
}

host_launch::run host_launch::once(const launch_point& p) {
  const uint64_t value_size = size_of(tensor_.type), count = tensor_.values.size() / value_size;
  const frame_options options{.chunk_values = static_cast<uint32_t>(p.chunk_bytes / value_size)};
  const auto begin_of = [&](uint64_t i) { return count * i / p.blocks * value_size; };
  const tools::frame_plan plan = codec_->plan(count / p.blocks + 1, options);
  if (plan.code != status::ok) throw std::runtime_error(std::string("a piece: ") + message(plan.code));
  const uint64_t room = round_up_pow2(plan.most_bytes, 6);
  if (frames_.size() < room * p.blocks) frames_.resize(room * p.blocks);
  std::vector<piece> pieces(p.blocks);
  for (uint64_t i = 0; i < p.blocks; ++i) {
    const uint64_t at = begin_of(i), size = begin_of(i + 1) - at;
    pieces[i] = {.values = tensor_.all().subspan(at, size),
                 .frame = {frames_.data() + i * room, room},
                 .restored = {restored_.data() + at, size}};
  }
  const bool is_sure = std::find(sure_.begin(), sure_.end(), p) != sure_.end();
  if (!is_sure) std::fill(restored_.begin(), restored_.end(), std::byte{0xa5});

  const host::execution alone{.threads = 1};
  std::atomic<double> waited{-waited_so_far()};
  const auto begin = std::chrono::steady_clock::now();
  in_turn(pieces, p.threads, waited, [&](piece& one) {
    const outcome done = codec_->encode(one.values, one.frame, options, alone);
    one.frame_size = done.bytes;
    one.code = done.code;
  });
  in_turn(pieces, p.threads, waited, [&](piece& one) {
    if (one.code == status::ok) one.code = codec_->decode({one.frame.data(), one.frame_size}, one.restored, alone).code;
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  waited += waited_so_far();

  for (const piece& one : pieces)
    if (one.code != status::ok) throw std::runtime_error(std::string("a piece: ") + message(one.code));
  if (!is_sure) {
    if (restored_ != tensor_.values) throw std::runtime_error("what came back is not what went in");
    sure_.push_back(p);
  }
  return {seconds, waited};
}

launch_point host_launch::expert() const {
  const uint64_t value_size = size_of(tensor_.type);
  const unsigned cores = std::max(std::thread::hardware_concurrency(), 1u);
  const uint64_t chunks = codec_->plan(tensor_.values.size() / value_size, {}).chunks;
  return {4 * cores, cores, static_cast<uint32_t>(tensor_.values.size() / std::max<uint64_t>(chunks, 1))};
}

launch_space default_host_space() {
  launch_space space;
  for (unsigned t = 1; t <= std::clamp(std::thread::hardware_concurrency(), 1u, 4u); ++t) space.threads.push_back(t);
  for (int eighth = 0; eighth <= 64; ++eighth) {
    const auto blocks = static_cast<unsigned>(std::lround(std::exp2(eighth / 8.)));
    if (space.blocks.empty() || blocks != space.blocks.back()) space.blocks.push_back(blocks);
  }
  for (int half = 0; half <= 12; ++half)  // whole groups of 32 values of 4 bytes
    space.chunk_bytes.push_back(static_cast<uint32_t>(128 * std::lround(8 * std::exp2(half / 2.))));
  return space;
}

}  // namespace tuck::bench
