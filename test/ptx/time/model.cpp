// The face of the model: which one is in use, and what it has timed.
#include "model.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace ptx::time {
namespace {

struct in_use {
  std::mutex mutex;
  std::shared_ptr<const model> current;
  std::map<const kernel*, std::shared_ptr<const program>> programs;  // of the current one
  std::vector<timed_launch> timed;
};

in_use& all() {
  static in_use& a = *new in_use;
  return a;
}

std::shared_ptr<const program> program_of(const kernel& k, const model& m) {
  const std::lock_guard lock(all().mutex);
  // A launch may still hold a model that is no longer in use.
  if (all().current.get() != &m) return std::make_shared<const program>(make_program(k, m.on, m.costless));
  std::shared_ptr<const program>& p = all().programs[&k];
  if (p == nullptr) p = std::make_shared<const program>(make_program(k, m.on, m.costless));
  return p;
}

}  // namespace

void use_model(std::shared_ptr<const model> m) {
  const std::lock_guard lock(all().mutex);
  all().current = std::move(m);
  all().programs.clear();
}

std::shared_ptr<const model> current_model() {
  const std::lock_guard lock(all().mutex);
  return all().current;
}

std::vector<timed_launch> take_timed() {
  const std::lock_guard lock(all().mutex);
  return std::exchange(all().timed, {});
}

counters run_timed(const launch& l, const model& m, std::vector<pc_counts>& counts, const std::string& readable_name) {
  timed_launch time;
  const counters rest = run(l, m, *program_of(*l.code, m), counts, time);
  time.kernel = readable_name;
  const std::lock_guard lock(all().mutex);
  all().timed.push_back(std::move(time));
  return rest;
}

}  // namespace ptx::time
