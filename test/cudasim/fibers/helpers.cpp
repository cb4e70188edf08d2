#include "helpers.hpp"

#include "../host/quiet_mutex.hpp"

#include <deque>
#include <thread>

namespace cudasim::detail {
namespace {

struct pool {
  quiet_mutex mutex;
  std::deque<std::shared_ptr<help>> requests;
  std::atomic<std::uint32_t> asked{0};
  unsigned threads = 0;
};

pool& the_pool() {
  static pool& p = *new pool;
  return p;
}

std::shared_ptr<help> next() {
  quiet_lock lock(the_pool().mutex);
  if (the_pool().requests.empty()) return nullptr;
  auto h = std::move(the_pool().requests.front());
  the_pool().requests.pop_front();
  return h;
}

void serve() {
  thread_born();
  runtime_scope quiet;
  for (;;) {
    const std::uint32_t seen = the_pool().asked.load();
    if (auto h = next()) {
      std::uint32_t expected = help::asked;
      if (!h->state.compare_exchange_strong(expected, help::taken)) continue;
      h->with->run(*h->job, h->index);
      h->state.store(help::finished);
      h->state.notify_all();
    } else {
      the_pool().asked.wait(seen);
    }
  }
}

}  // namespace

void help::finish() {
  std::uint32_t expected = asked;
  if (state.compare_exchange_strong(expected, withdrawn)) return;
  while (state.load() != finished) state.wait(taken);
}

std::shared_ptr<help> ask_for_help(launch& job, engine& with, int index) {
  auto h = std::make_shared<help>();
  h->job = &job;
  h->with = &with;
  h->index = index;
  quiet_lock lock(the_pool().mutex);
  the_pool().requests.push_back(h);
  the_pool().asked.fetch_add(1);
  the_pool().asked.notify_one();
  return h;
}

// By the host, not by a stream: the new thread knows what its creator knew.
void provide_helpers(int workers) {
  const unsigned enough = workers < 2 ? 0 : 2 * static_cast<unsigned>(workers - 1);  // for two launches at a time
  quiet_lock lock(the_pool().mutex);
  for (; the_pool().threads < enough && the_pool().threads < 16; ++the_pool().threads) std::thread(serve).detach();
}

}  // namespace cudasim::detail
