// libtuck_host.so: the host codecs by name, the advisor and the bound controller, behind functions that C can call.
// tuck_host.h says what they promise. One file, no dependency:
//
//   g++ -std=c++20 -O3 -shared -fPIC -fvisibility=hidden -I ../../include tuck_host.cpp -o libtuck_host.so
#include "tuck_host.h"

#include <tuck/host.hpp>
#include <tuck/model.hpp>

#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

struct tuck_advisor {
  tuck::advisor model;
  uint64_t codecs, tensors = 0;
};
struct tuck_bound {
  tuck::bound_controller model;
};
struct tuck_job {
  enum class stage { waiting, running, done };

  std::function<int(tuck_job&)> work;
  const void* owner = nullptr;  // the worker that has it
  size_t bytes = 0;             // of values
  stage now = stage::waiting;
  int status = 0;
  double seconds = 0;
  std::vector<std::byte> frame;  // of those that encode

  void run() noexcept {
    const auto begin = std::chrono::steady_clock::now();
    status = work(*this);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
};

namespace {

template <template <class> class Codec, class... Types> using over = tuck::codec_list<Codec<Types>...>;

struct named {
  const char* name;
  bool lossy;
};
// In the order of `lists`.
constexpr named names[] = {{"zvc", false},
                           {"rle", false},
                           {"zvc+rle+huffman", false},
                           {"quantize", true},
                           {"quantize+delta+zvc+huffman", true},
                           {"bitpack", false}};

using lists = std::tuple<over<tuck::zvc, tuck::f16, tuck::bf16, float, double>,
                         over<tuck::rle, tuck::f16, tuck::bf16, float, double>,
                         over<tuck::zvc_rle_huffman, tuck::f16, tuck::bf16, float>,
                         over<tuck::quantize, tuck::f16, tuck::bf16, float, double>,
                         over<tuck::quantize_delta_huffman, tuck::f16, tuck::bf16, float, double>,
                         over<tuck::bitpack, uint8_t, int32_t, int64_t>>;
static_assert(std::tuple_size_v<lists> == std::size(names));

// The same of deltas: floats, or all types of 2 and of 4 bytes.
constexpr named delta_names[] = {{"steps", false}, {"gaps", false}, {"zvc+rle+huffman", false}};
using delta_lists =
    std::tuple<over<tuck::steps, tuck::f16, tuck::bf16, float>, over<tuck::gaps, tuck::untyped<2>, tuck::untyped<4>>,
               over<tuck::zvc_rle_huffman, tuck::untyped<2>, tuck::untyped<4>>>;
static_assert(std::tuple_size_v<delta_lists> == std::size(delta_names));

template <class... Lists> struct joined;
template <tuck::codec... Cs> struct joined<tuck::codec_list<Cs...>> {
  using type = tuck::codec_list<Cs...>;
};
template <tuck::codec... As, tuck::codec... Bs, class... Others>
struct joined<tuck::codec_list<As...>, tuck::codec_list<Bs...>, Others...>
    : joined<tuck::codec_list<As..., Bs...>, Others...> {};
template <class... Lists> joined<Lists...> join(std::tuple<Lists...>);
using all_codecs = typename decltype(join(lists{}))::type;
using delta_codecs = typename decltype(join(delta_lists{}))::type;

template <tuck::codec C> C with_bound(const tuck::error_bound& bound) {
  if constexpr (tuck::is_lossy<C>)
    return C(bound);
  else
    return C{};
}

// The enumeration of a C caller's number. Numbers that do not fit become `unknown`, not what their low bits say.
template <class Enum> Enum enum_of(int number, Enum unknown) {
  const auto e = static_cast<Enum>(number);
  return static_cast<int>(e) == number ? e : unknown;
}
tuck::dtype type_of(int dtype) { return enum_of(dtype, tuck::dtype::none); }
tuck::error_bound bound_of(int mode, double bound) {
  return {.mode = enum_of(mode, tuck::bound_mode{255}), .value = bound};
}

// visitor(codec) for the one of that name and type in Lists, which `called` names; whether there is one.
template <class Lists, size_t n, class Visitor>
bool with_codec(const named (&called)[n], const char* name, const tuck::error_bound& bound, int dtype,
                const Visitor& visitor) {
  if (name == nullptr) return false;
  const auto in_list = [&]<tuck::codec... Cs>(tuck::codec_list<Cs...>) {
    const auto one = [&]<class C>(std::type_identity<C>) {
      if (!tuck::holds<tuck::value_t<C>>(type_of(dtype))) return false;
      visitor(with_bound<C>(bound));
      return true;
    };
    return (one(std::type_identity<Cs>{}) || ...);
  };
  bool found = false;
  [&]<size_t... I>(std::index_sequence<I...>) {
    found = ((std::string_view(name) == called[I].name && in_list(std::tuple_element_t<I, Lists>{})) || ...);
  }(std::make_index_sequence<n>{});
  return found;
}
template <class Visitor>
bool with_codec(const char* name, const tuck::error_bound& bound, int dtype, const Visitor& visitor) {
  return with_codec<lists>(names, name, bound, dtype, visitor);
}
template <class Visitor> bool with_delta_codec(const char* name, int dtype, const Visitor& visitor) {
  return with_codec<delta_lists>(delta_names, name, {}, dtype, visitor);
}

// Deltas change few values: large chunks, close to each other.
template <tuck::codec C> constexpr tuck::frame_options shape_of_delta(int dtype) {
  return {.chunk_values = tuck::max_chunk_values(C{}.stages(), sizeof(tuck::value_t<C>)),
          .alignment = 16,
          .type = type_of(dtype)};
}

// What was asked for, or the status of what went wrong; no exception leaves the library.
template <class Body> int guarded(const Body& body) noexcept {
  try {
    return static_cast<int>(body());
  } catch (...) {  // the standard library's, of memory
    return static_cast<int>(tuck::status::out_of_memory);
  }
}

// One thread, which begins with the first job. fork() copies no threads, but perhaps a locked mutex: the child has a
// worker of its own.
class worker {
 public:
  static worker& get() { return *now; }

  // It is woken for several jobs: waking costs as much as encoding some 32 KiB.
  void add(tuck_job& job) {
    const std::lock_guard lock(mutex_);
    if (!runs_) std::thread([this] { loop(); }).detach();
    runs_ = true;
    push(job);
    if (waiting_ >= enough) added_.notify_one();
  }
  // Does it here if it is waiting for its turn.
  void finish(tuck_job& job) {
    std::unique_lock lock(mutex_);
    adopt(job);
    if (job.now == tuck_job::stage::waiting) run(lock, job);
    done_.wait(lock, [&] { return job.now == tuck_job::stage::done; });
  }
  void forget(tuck_job& job) {
    std::unique_lock lock(mutex_);
    adopt(job);
    if (job.now == tuck_job::stage::waiting) return take(job);
    done_.wait(lock, [&] { return job.now == tuck_job::stage::done; });
  }
  bool is_done(tuck_job& job) {
    const std::lock_guard lock(mutex_);
    adopt(job);
    return job.now == tuck_job::stage::done;
  }

 private:
  static constexpr size_t enough = 1 << 19;  // bytes of values
  static worker* now;                        // never destroyed: jobs may be freed while the program ends

  void push(tuck_job& job) {
    job.owner = this;
    jobs_.push_back(&job);
    waiting_ += job.bytes;
  }
  // In a child of fork(), what its parent's thread has not done waits again. A frame half written is left behind.
  void adopt(tuck_job& job) {
    if (job.owner == this || job.now == tuck_job::stage::done) return;
    new (&job.frame) std::vector<std::byte>;
    job.now = tuck_job::stage::waiting;
    push(job);
  }
  void take(tuck_job& job) {
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
    waiting_ -= job.bytes;
  }

  // Does a waiting job without the lock.
  void run(std::unique_lock<std::mutex>& lock, tuck_job& job) {
    take(job);
    job.now = tuck_job::stage::running;
    lock.unlock();
    job.run();
    lock.lock();
    job.now = tuck_job::stage::done;
  }

  [[noreturn]] void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      added_.wait(lock, [&] { return !jobs_.empty(); });
      run(lock, *jobs_.front());
      done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable added_, done_;
  std::deque<tuck_job*> jobs_;
  size_t waiting_ = 0;
  bool runs_ = false;
};
worker* worker::now = [] {
  pthread_atfork(nullptr, nullptr, [] { now = new worker; });
  return new worker;
}();

template <class Work> tuck_job* begun(int dtype, uint64_t count, const Work& work) noexcept {
  try {
    auto job = std::make_unique<tuck_job>();
    job->work = work;
    job->bytes = count * tuck::size_of(type_of(dtype));
    worker::get().add(*job);
    return job.release();
  } catch (...) {  // of memory, or there can be no thread
    return nullptr;
  }
}

int encode_to(std::vector<std::byte>& frame, const char* codec, int mode, double bound, int dtype, const void* values,
              uint64_t count) {
  return guarded([&] {
    thread_local std::vector<std::byte> scratch;
    const uint64_t room = tuck_host_room(codec, mode, bound, dtype, count);
    if (scratch.size() < room) scratch.resize(room);
    uint64_t used = 0;
    const int status = tuck_host_encode(codec, mode, bound, dtype, values, count, scratch.data(), room, 1, &used);
    if (status == 0) frame.assign(scratch.data(), scratch.data() + used);
    return static_cast<tuck::status>(status);
  });
}

}  // namespace

extern "C" {

const char* const* tuck_host_codecs(void) {
  static constexpr auto list = [] {
    std::array<const char*, std::size(names) + 1> all = {};
    for (size_t i = 0; i < std::size(names); ++i) all[i] = names[i].name;
    return all;
  }();
  return list.data();
}

int tuck_host_is_lossy(const char* codec) {
  for (const named& n : names)
    if (codec != nullptr && n.name == std::string_view(codec)) return n.lossy;
  return 0;
}

const char* tuck_host_message(int status) { return message(static_cast<tuck::status>(status)); }

uint64_t tuck_host_room(const char* codec, int mode, double bound, int dtype, uint64_t count) {
  uint64_t room = 0;
  with_codec(codec, bound_of(mode, bound), dtype, [&](const auto& c) { room = tuck::max_frame_bytes(c, count); });
  return room;
}

int tuck_host_encode(const char* codec, int mode, double bound, int dtype, const void* values, uint64_t count,
                     void* frame, uint64_t room, unsigned threads, uint64_t* frame_bytes) {
  return guarded([&] {
    tuck::outcome done{.code = tuck::status::codec_mismatch};
    with_codec(codec, bound_of(mode, bound), dtype, [&]<class C>(const C& c) {
      const tuck::span<const tuck::value_t<C>> all(static_cast<const tuck::value_t<C>*>(values), count);
      done = tuck::host::encode(c, all, {static_cast<std::byte*>(frame), room}, {}, {.threads = threads});
    });
    *frame_bytes = done.bytes;
    return done.code;
  });
}

int tuck_host_decode(const void* frame, uint64_t frame_bytes, int dtype, void* values, uint64_t count,
                     unsigned threads) {
  return guarded([&] {
    const tuck::const_bytes from(static_cast<const std::byte*>(frame), frame_bytes);
    tuck::frame_header header;
    if (const auto s = tuck::inspect(from, header); s != tuck::status::ok) return s;
    if (static_cast<int>(header.type) != dtype) return tuck::status::type_mismatch;
    if (header.value_count != count) return tuck::status::invalid_argument;
    const tuck::bytes to(static_cast<std::byte*>(values), count * tuck::size_of(header.type));
    return tuck::host::decode(all_codecs{}, from, to, 0, {.threads = threads}).code;
  });
}

uint64_t tuck_host_delta_room(const char* codec, int dtype, uint64_t count) {
  uint64_t room = 0;
  with_delta_codec(codec, dtype,
                   [&]<class C>(const C& c) { room = tuck::max_delta_bytes(c, count, shape_of_delta<C>(dtype)); });
  return room;
}

int tuck_host_encode_delta(const char* codec, int dtype, const void* values, const void* base, uint64_t count,
                           void* frame, uint64_t room, unsigned threads, uint64_t* frame_bytes) {
  return guarded([&] {
    tuck::outcome done{.code = tuck::status::codec_mismatch};
    with_delta_codec(codec, dtype, [&]<class C>(const C& c) {
      using all = tuck::span<const tuck::value_t<C>>;
      const auto of = [&](const void* p) { return all(static_cast<const tuck::value_t<C>*>(p), count); };
      done = tuck::host::encode_delta(c, of(values), of(base), {static_cast<std::byte*>(frame), room},
                                      shape_of_delta<C>(dtype), {.threads = threads});
    });
    *frame_bytes = done.bytes;
    return done.code;
  });
}

int tuck_host_decode_delta(const void* frame, uint64_t frame_bytes, int dtype, const void* base, void* values,
                           uint64_t count, unsigned threads) {
  return guarded([&] {
    const tuck::const_bytes from(static_cast<const std::byte*>(frame), frame_bytes);
    tuck::frame_header header;
    if (const auto s = tuck::inspect(from, header); s != tuck::status::ok) return s;
    if (static_cast<int>(header.type) != dtype) return tuck::status::type_mismatch;
    tuck::outcome done;
    const tuck::status found = tuck::visit(delta_codecs{}, header, [&]<class C>(const C& c) {
      using T = tuck::value_t<C>;
      done = tuck::host::decode_delta(c, from, {static_cast<const T*>(base), count}, {static_cast<T*>(values), count},
                                      {}, {.threads = threads});
    });
    return found == tuck::status::ok ? done.code : found;
  });
}

uint64_t tuck_host_digest(const void* data, uint64_t bytes) {
  return tuck::checksum({static_cast<const std::byte*>(data), bytes});
}

tuck_job* tuck_job_encode(const char* codec, int mode, double bound, int dtype, const void* values, uint64_t count) {
  if (tuck_host_room(codec, mode, bound, dtype, count) == 0) return nullptr;
  return begun(dtype, count, [=, name = std::string(codec)](tuck_job& job) {
    return encode_to(job.frame, name.c_str(), mode, bound, dtype, values, count);
  });
}
tuck_job* tuck_job_decode(const void* frame, uint64_t frame_bytes, int dtype, void* values, uint64_t count) {
  return begun(dtype, count, [=](tuck_job&) { return tuck_host_decode(frame, frame_bytes, dtype, values, count, 1); });
}
int tuck_job_wait(tuck_job* job, uint64_t* frame_bytes, double* seconds) {
  worker::get().finish(*job);
  *frame_bytes = job->frame.size();
  *seconds = job->seconds;
  return job->status;
}
int tuck_job_is_done(tuck_job* job) { return worker::get().is_done(*job); }
void tuck_job_copy(const tuck_job* job, void* frame) { std::memcpy(frame, job->frame.data(), job->frame.size()); }
void tuck_job_free(tuck_job* job) {
  if (job != nullptr) worker::get().forget(*job);
  delete job;
}

tuck_advisor* tuck_advisor_new(double d2h, double h2d, unsigned codecs) {
  try {
    return new tuck_advisor{tuck::advisor({d2h, h2d}, std::vector<tuck::advised_codec>(codecs)), codecs};
  } catch (...) {
    return nullptr;
  }
}
void tuck_advisor_free(tuck_advisor* a) { delete a; }
int64_t tuck_advisor_add(tuck_advisor* a, uint64_t bytes, double hidden_out, double hidden_in) {
  try {
    const size_t tensor = a->model.add({.bytes = bytes, .hidden_out = hidden_out, .hidden_in = hidden_in});
    a->tensors = tensor + 1;
    return static_cast<int64_t>(tensor);
  } catch (...) {
    return -1;
  }
}
int64_t tuck_advisor_decide(tuck_advisor* a, uint64_t tensor, double sparsity) {
  if (tensor >= a->tensors) return -1;
  const tuck::swap_decision& d = a->model.decide(tensor, sparsity);
  return d.how == tuck::swap_decision::mode::encode ? static_cast<int64_t>(d.codec) : -1;
}
void tuck_advisor_measured(tuck_advisor* a, uint64_t tensor, uint64_t codec, double sparsity, double encode,
                           double decode, double ratio) {
  if (tensor < a->tensors && codec < a->codecs) a->model.measured(tensor, codec, sparsity, encode, decode, ratio);
}

tuck_bound* tuck_bound_new(double a, double share, uint64_t refresh, double first, double lowest, double highest) {
  tuck::bound_control_options o;
  if (a != 0) o.a = a;
  if (share != 0) o.share = share;
  if (refresh != 0) o.refresh = refresh;
  if (first != 0) o.first = first;
  if (lowest != 0) o.lowest = lowest;
  if (highest != 0) o.highest = highest;
  for (const double option : {o.a, o.share, o.first, o.lowest, o.highest})
    if (!(option > 0 && std::isfinite(option))) return nullptr;
  return new (std::nothrow) tuck_bound{tuck::bound_controller(o)};
}
void tuck_bound_free(tuck_bound* b) { delete b; }
double tuck_bound_now(const tuck_bound* b) { return b->model.bound(); }
int tuck_bound_wants(const tuck_bound* b, uint64_t iteration) { return b->model.wants(iteration); }
void tuck_bound_update(tuck_bound* b, uint64_t iteration, double mean_gradient, double batch, double nonzero,
                       double mean_momentum) {
  b->model.update(iteration, {mean_gradient, batch, nonzero, mean_momentum});
}

}  // extern "C"
