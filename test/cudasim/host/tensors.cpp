// Which memory counts as tensors'.
#include "kernels.hpp"
#include "quiet_mutex.hpp"
#include "sanitizers.hpp"

namespace cudasim {
namespace detail {
namespace {

struct tags {
  quiet_mutex mutex;
  std::shared_ptr<const tensor_ranges> tensors = std::make_shared<tensor_ranges>();
};

tags& all_tags() {
  static tags& t = *new tags;
  return t;
}

template <class Change> void change(const Change& how) {
  runtime_scope quiet;
  quiet_lock lock(all_tags().mutex);
  auto changed = std::make_shared<tensor_ranges>(*all_tags().tensors);
  how(changed->ranges);
  all_tags().tensors = changed;
}

}  // namespace

std::shared_ptr<const tensor_ranges> current_tensors() {
  quiet_lock lock(all_tags().mutex);
  return all_tags().tensors;
}

void clear_tags() {
  change([](auto& ranges) { ranges.clear(); });
}

}  // namespace detail

void tag_tensor(const void* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  detail::change([=](auto& ranges) { ranges.push_back({begin, begin + bytes}); });
}

void untag(const void* data) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  detail::change([=](auto& ranges) { std::erase_if(ranges, [=](const auto& r) { return r.begin == begin; }); });
}

}  // namespace cudasim
