#include "bench/micro/runner.hpp"

#include "bench/support/tuck_coder.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace tuck::bench {
namespace {

constexpr double range_bound = 1e-3, counted_bound = 1e-3;  // of the range; absolute
constexpr const char* host_copy = "memcpy";
constexpr const char* device_copy = "copy";

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point begin) { return std::chrono::duration<double>(clock::now() - begin).count(); }

bool is_copy(const std::string& coder) { return coder == host_copy || coder == device_copy; }

// Times `work` and, in turn with it, `copy`: what disturbs the one for long disturbs the other. Short ones many at
// once, because a clock has a grain. The seconds of both.
template <class Work, class Copy>
std::array<std::vector<double>, 2> run_in_turn(const run_limits& limits, uint64_t raw_bytes, const Work& work,
                                               const Copy& copy) {
  const auto at_once = static_cast<int>(std::clamp<uint64_t>(64 * 1024 / std::max<uint64_t>(raw_bytes, 1), 1, 16));
  const auto timed = [&](const auto& call) {
    const auto begin = clock::now();
    for (int i = 0; i < at_once; ++i) call();
    return seconds_since(begin) / at_once;
  };
  std::array<std::vector<double>, 2> seconds;
  enough_runs enough(limits);
  work();
  const auto begin = clock::now();
  do {
    copy();  // what a slow codec has driven out of the caches is no matter of the copy's speed
    seconds[1].push_back(timed(copy));
    seconds[0].push_back(timed(work));
  } while (!enough(seconds_since(begin), seconds));
  return seconds;
}

bool on_tuck(const std::string& codec, dtype type) {
  return tools::choose_codec({.name = codec, .bound = error_bound::absolute(1)}, type) != nullptr;
}

std::vector<entry> tuck_coders(const char* copy) {
  std::vector<entry> all{{copy, false, [](dtype) { return true; }}};
  for (const std::string& name : tools::codec_names())
    all.push_back({name, false, [name](dtype type) { return on_tuck(name, type); }});
  return all;
}

const peer* host_peer(const std::string& name) {
  for (const peer& p : host_peers())
    if (p.name == name) return &p;
  return nullptr;
}

const device_peer* device_peer_of(const std::string& name) {
  for (const device_peer& p : device_peers())
    if (p.name == name) return &p;
  return nullptr;
}

}  // namespace

std::vector<entry> runner::host_coders(bool with_peers) {
  std::vector<entry> all = tuck_coders(host_copy);
  if (with_peers)
    for (const peer& p : host_peers())
      if (!p.slow) all.push_back({p.name, true, p.takes});
  return all;
}

std::vector<entry> runner::device_coders(bool with_peers) {
  std::vector<entry> all = tuck_coders(device_copy);
  if (device_place() == place::sim) all.erase(all.begin());  // its copies are no yardstick
  if (with_peers)
    for (const device_peer& p : device_peers()) all.push_back({p.name, true, p.takes});
  return all;
}

std::vector<operation> runner::operations_of(const point& p) {
  if (is_copy(p.coder.name)) return {operation::copy};
  const device_peer* const found = p.where == place::host ? nullptr : device_peer_of(p.coder.name);
  if (found != nullptr && !found->decodes) return {operation::encode};
  return {operation::encode, operation::decode};
}

// Under the model of time a part of a large tensor is run, on as small a part of the GPU.
tensor_request runner::run_tensor(const point& p) {
  tensor_request t = p.tensor;
  sample_ = p.where == place::model ? use_model(model_, t.raw_bytes) : model_sample{};
  if (sample_.share == 1) return t;
  constexpr uint64_t chunk = 16 * 1024;
  const double chunks = std::round(sample_.share * static_cast<double>(t.raw_bytes) / chunk);
  if (chunks < sample_.processors)
    throw std::runtime_error("too few bytes for --sample: no chunk for each multiprocessor; choose a larger --size");
  t.raw_bytes = static_cast<uint64_t>(chunks) * chunk;
  return t;
}

// What a row of the part says of the whole: the time is the same.
row runner::whole(row r) const {
  r.predicted.sampled = sample_.processors;
  if (sample_.share == 1) return r;
  const double part = static_cast<double>(wanted_.raw_bytes) / static_cast<double>(r.tensor.raw_bytes);
  r.encoded_bytes = static_cast<uint64_t>(std::round(static_cast<double>(r.encoded_bytes) / part));
  r.moved_bytes /= part;
  r.predicted.blocks = static_cast<uint32_t>(std::round(r.predicted.blocks / sample_.share));
  for (double* const count :
       {&r.counts.instructions, &r.counts.lanes, &r.counts.wavefronts, &r.counts.least_wavefronts, &r.counts.sectors})
    *count /= part;
  return r;
}

// The tensor, if it is another than before, and the coder.
void runner::prepare(const point& p) {
  const tensor_request tensor = run_tensor(p);
  if (!(wanted_ == tensor) || tensor_.values.empty()) {
    host_.reset();
    device_.reset();
    coder_name_.clear();
    bounds_.reset();
    tensor_ = tensors_.make(tensor);
    restored_.assign(tensor_.values.size(), std::byte{});
    wanted_ = tensor;
  }
  const std::string name = row_name("", p.coder.name, p.tensor, p.where, p.way);
  tuck::detail::level_in_use() = p.way.level.value_or(usual_level_);
  if (coder_name_ == name) return;
  coder_name_.clear();
  verified_ = false;
  error_ = 0;
  host_.reset();
  device_.reset();
  tolerance_ = 0;
  if (!is_copy(p.coder.name)) {
    tolerance_ = tolerance_for(p);
    const coder_request request{tensor.type, tensor.raw_bytes, peer_chunk_bytes_, tolerance_};
    if (p.where != place::host) {
      const device_peer* const found = device_peer_of(p.coder.name);
      device_ = found != nullptr ? found->make(request) : make_device_coder(p.coder.name, request, p.way);
      if (device_ == nullptr) throw std::runtime_error(p.coder.name + ": not for " + tuck::name(request.type));
    } else if (const peer* found = host_peer(p.coder.name); found != nullptr) {
      host_ = found->make(request);
    } else {
      host_ = std::make_unique<tuck_coder>(
          tools::codec_choice{p.coder.name, error_bound::absolute(tolerance_ > 0 ? tolerance_ : 1)}, request,
          p.way.threads);
    }
  }
  coder_name_ = name;
}

double runner::tolerance_for(const point& p) {
  const peer* const found = p.coder.peer ? host_peer(p.coder.name) : nullptr;
  if (found != nullptr ? !found->lossy : !tools::is_lossy(p.coder.name)) return 0;
  if (p.where == place::ptx) return counted_bound;
  if (!bounds_) bounds_ = lossy_bounds();
  return found != nullptr ? bounds_->of_zfp : bounds_->of_codecs;
}

runner::exactness runner::lossy_bounds() {
  const double bound = range_bound * (tensor_.range > 0 ? tensor_.range : 1);
  for (const peer& p : host_peers()) {
    if (!p.lossy || !p.takes(tensor_.type)) continue;
    try {
      return as_exact_as(p, bound);
    } catch (const std::runtime_error&) {
      // It does not take such values, NaN and infinities for instance.
    }
  }
  return {bound, bound};
}

// zfp's tolerances are powers of two, and its errors mostly far less. First on a part of the tensor, then on all of it.
runner::exactness runner::as_exact_as(const peer& zfp, double bound) {
  constexpr uint64_t part_bytes = 1 << 20;
  const auto error_at = [&](double tolerance, uint64_t raw_bytes) {
    const auto coder = zfp.make({tensor_.type, raw_bytes, peer_chunk_bytes_, tolerance});
    const const_bytes part = tensor_.all().subspan(0, raw_bytes);
    coder->encode(part);
    coder->decode({restored_.data(), raw_bytes});
    return max_error(tensor_.type, part, {restored_.data(), raw_bytes});
  };
  int power = std::ilogb(bound) + 8;
  for (const uint64_t raw_bytes : {std::min(part_bytes, wanted_.raw_bytes), wanted_.raw_bytes}) {
    for (const int least = power - 24; power > least; --power) {
      const double error = error_at(std::ldexp(1., power), raw_bytes);
      if (error > bound) continue;
      if (raw_bytes == wanted_.raw_bytes) return {error > 0 ? error : bound, std::ldexp(1., power)};
      break;
    }
  }
  throw std::runtime_error("no tolerance is small enough");
}

// Is `restored_` what the coder promises? Then its error is error_.
void runner::verify() {
  const double error = max_error(tensor_.type, tensor_.all(), {restored_.data(), restored_.size()});
  if (tolerance_ == 0 && std::memcmp(restored_.data(), tensor_.values.data(), restored_.size()) != 0)
    throw std::runtime_error("what was decoded is not what was encoded");
  if (tolerance_ != 0 && !(error <= tolerance_)) throw std::runtime_error("what was decoded is beyond the bound");
  error_ = error;
  verified_ = true;
}

row runner::measure(const point& p, operation what) {
  prepare(p);
  row r;
  r.what = what;
  r.coder = p.coder.name;
  r.peer = p.coder.peer;
  r.lossy = tolerance_ != 0;
  r.tensor = p.tensor;
  r.sparsity = tensor_.sparsity;
  r.where = p.where;
  r.way = p.way;
  if (what == operation::copy) return whole(measure_copy(r));
  return p.where == place::host ? measure_on_host(r) : whole(measure_on_device(r));
}

row runner::measure_copy(row r) {
  r.encoded_bytes = wanted_.raw_bytes;
  r.moved_bytes = 2 * static_cast<double>(wanted_.raw_bytes);
  if (r.where == place::host) {
    const auto copy = [&] { std::memcpy(restored_.data(), tensor_.values.data(), restored_.size()); };
    r.time = statistics_of(run_in_turn(on_host_, r.tensor.raw_bytes, copy, copy)[0]);
  } else {
    const device_cost cost = copy_on_device(wanted_.raw_bytes, on_device_);
    r.time = statistics_of(cost.seconds);
    r.counts = cost.counts;
    r.lines = cost.lines;
    r.predicted = cost.predicted;
  }
  r.copy_time = r.time;
  return r;
}

row runner::measure_on_host(row r) {
  const auto copy = [&] { std::memcpy(restored_.data(), tensor_.values.data(), restored_.size()); };
  const auto encode = [&] { encoded_bytes_ = host_->encode(tensor_.all()); };
  const auto decode = [&] { host_->decode({restored_.data(), restored_.size()}); };
  if (!verified_) {
    encode();
    std::memset(restored_.data(), 0xa5, restored_.size());
    decode();
    verify();
  }
  const auto seconds = r.what == operation::encode ? run_in_turn(on_host_, r.tensor.raw_bytes, encode, copy)
                                                   : run_in_turn(on_host_, r.tensor.raw_bytes, decode, copy);
  r.time = statistics_of(seconds[0]);
  r.copy_time = statistics_of(seconds[1]);
  r.encoded_bytes = encoded_bytes_;
  r.moved_bytes = static_cast<double>(r.tensor.raw_bytes + r.encoded_bytes);
  r.max_error = error_;
  return r;
}

row runner::measure_on_device(row r) {
  if (!verified_) {
    encoded_ = device_->encode(tensor_.all(), on_device_);
    if (const device_peer* found = device_peer_of(r.coder); found == nullptr || found->decodes) {
      std::fill(restored_.begin(), restored_.end(), std::byte{0xa5});
      decoded_ = device_->decode({restored_.data(), restored_.size()}, on_device_);
      verify();
    }
    verified_ = true;
  }
  const device_cost& cost = r.what == operation::encode ? encoded_ : decoded_;
  r.encoded_bytes = device_->encoded_bytes();
  r.moved_bytes = cost.moved_bytes;
  r.max_error = error_;
  r.counts = cost.counts;
  r.lines = cost.lines;
  r.predicted = cost.predicted;
  r.time = statistics_of(cost.seconds);
  r.copy_time = statistics_of(cost.copy_seconds);
  return r;
}

}  // namespace tuck::bench
