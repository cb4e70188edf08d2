// What examples/torch needs besides codecs: encoding and decoding beside a training, and the models that decide how a
// tensor is stored. tuck/training.py describes them.
#include "plan.hpp"

#include <tuck/model.hpp>

#include <nanobind/stl/string.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

using namespace nanobind::literals;

namespace tuck::python {
namespace {

struct job {
  enum class stage { waiting, running, done };

  std::unique_ptr<array> from, to;  // stay until it is done
  std::function<outcome(job&)> work;
  const void* owner = nullptr;  // the worker that has it; null before it is started
  size_t bytes = 0;             // of values
  stage now = stage::waiting;
  outcome done;
  double seconds = 0;
  std::vector<std::byte> frame;  // of those that encode

  job() = default;
  job(const job&) = delete;
  ~job();

  void run() noexcept {
    const auto begin = std::chrono::steady_clock::now();
    try {
      done = work(*this);
    } catch (...) {  // the standard library's, of memory
      done = {.code = status::out_of_memory};
    }
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
};

// One thread, which begins with the first job. fork() copies no threads, but perhaps a locked mutex: the child has a
// worker of its own.
class worker {
 public:
  static worker& get() { return *now; }

  // It is woken for several jobs: waking costs as much as encoding some 32 KiB.
  void add(job& job) {
    const std::lock_guard lock(mutex_);
    if (job.owner != nullptr) return;
    if (!runs_ && !begin()) return;  // who waits for the job does it
    push(job);
    if (waiting_ >= enough) added_.notify_one();
  }
  // Does it here if it is waiting for its turn.
  void finish(job& job) {
    std::unique_lock lock(mutex_);
    adopt(job);
    if (job.now == job::stage::waiting) run(lock, job);
    done_.wait(lock, [&] { return job.now == job::stage::done; });
  }
  void forget(job& job) {
    std::unique_lock lock(mutex_);
    adopt(job);
    if (job.now == job::stage::waiting) return take(job);
    done_.wait(lock, [&] { return job.now == job::stage::done; });
  }
  bool is_done(job& job) {
    const std::lock_guard lock(mutex_);
    adopt(job);
    return job.now == job::stage::done;
  }

 private:
  static constexpr size_t enough = 1 << 19;  // bytes of values
  static worker* now;                        // never destroyed: jobs may be freed while the program ends

  // Starts the thread, unless the system has no more.
  bool begin() {
    try {
      std::thread([this] { loop(); }).detach();
      runs_ = true;
    } catch (const std::system_error&) {
    }
    return runs_;
  }
  void push(job& job) {
    job.owner = this;
    jobs_.push_back(&job);
    waiting_ += job.bytes;
  }
  // In a child of fork(), what its parent's thread has not done waits again. A frame half written is left behind.
  void adopt(job& job) {
    if (job.owner == this || job.now == job::stage::done) return;
    new (&job.frame) std::vector<std::byte>;
    job.now = job::stage::waiting;
    push(job);
  }
  void take(job& job) {
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
    waiting_ -= job.bytes;
  }

  // Does a waiting job without the lock.
  void run(std::unique_lock<std::mutex>& lock, job& job) {
    take(job);
    job.now = job::stage::running;
    lock.unlock();
    job.run();
    lock.lock();
    job.now = job::stage::done;
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
  std::deque<job*> jobs_;
  size_t waiting_ = 0;
  bool runs_ = false;
};
worker* worker::now = [] {
  pthread_atfork(nullptr, nullptr, [] { now = new worker; });
  return new worker;
}();

job::~job() {
  const unlocked interpreter;
  worker::get().forget(*this);
}

job* encode_job(nb::handle tensor, encode_settings& how) {
  auto made = std::make_unique<job>();
  made->from = std::make_unique<array>(tensor, "the tensor");
  plan p(*made->from, how, false);
  p.options.metadata = {};  // who has the job knows the shape
  made->bytes = p.values.size();
  made->work = [codec = p.codec, values = p.values, options = p.options, most = p.most_bytes(how)](job& self) {
    thread_local std::vector<std::byte> scratch;
    if (scratch.size() < most) scratch.resize(most);
    const outcome done = codec->encode(values, scratch, options, {.threads = 1});
    if (done) self.frame.assign(scratch.data(), scratch.data() + done.bytes);
    return done;
  };
  return made.release();
}

job* decode_job(nb::handle frame, nb::handle out, const std::string& as) {
  auto made = std::make_unique<job>();
  made->from = std::make_unique<array>(frame, "the frame");
  made->to = std::make_unique<array>(out, "out", true);
  const bytes values = room_for(made->from->all(), *made->to, as);
  if (overlap(made->from->all(), values)) refuse(refusal::overlap, "out overlaps the frame");
  made->bytes = values.size();
  made->work = [from = made->from->all(), values](job&) {
    return tools::decode_frame(from, values, 0, {.threads = 1});
  };
  return made.release();
}

// The size of the frame, and how long it took.
nb::tuple finish(job& waited) {
  {
    const unlocked interpreter;
    worker::get().finish(waited);
  }
  check(waited.done);
  return nb::make_tuple(waited.frame.size(), waited.seconds);
}

void copy_frame(const job& done, nb::handle out) {
  const array to(out, "out", true);
  if (done.now != job::stage::done || to.bytes() != done.frame.size())
    refuse(refusal::wrong_size, "out has another size than the frame");
  if (!done.frame.empty()) std::memcpy(to.data(), done.frame.data(), done.frame.size());
}

}  // namespace

void bind_training(nb::module_& m) {
  nb::class_<job>(m, "Job", "What is encoded or decoded beside the program. Made by tuck.training.")
      .def(
          "start", [](job& j) { worker::get().add(j); }, "Hands it to the thread of the package.")
      .def("wait", &finish,
           "Waits for it, or does it here if it has not begun. Returns the size of the frame in bytes, 0 of one that "
           "decodes, and the seconds that it took.")
      .def_prop_ro("is_done", [](job& j) { return worker::get().is_done(j); })
      .def("copy_frame", &copy_frame, "out"_a, "Copies the frame to an array of its size, once it is done.");
  m.def("encode_job", &encode_job, "tensor"_a, "how"_a);
  m.def("decode_job", &decode_job, "frame"_a, "out"_a, "as_type"_a);

  // tuck/training.py checks what these are given.
  nb::class_<advisor>(m, "Advisor")
      .def(
          "__init__",
          [](advisor* self, double d2h, double h2d, unsigned codecs) {
            new (self) advisor({d2h, h2d}, std::vector<advised_codec>(codecs));
          },
          "d2h"_a, "h2d"_a, "codecs"_a)
      .def(
          "add",
          [](advisor& self, uint64_t bytes, double hidden_out, double hidden_in) {
            return self.add({.bytes = bytes, .hidden_out = hidden_out, .hidden_in = hidden_in});
          },
          "bytes"_a, "hidden_out"_a, "hidden_in"_a)
      .def(
          "decide",
          [](advisor& self, size_t tensor, double sparsity) {
            const swap_decision d = self.decide(tensor, sparsity);
            return d.how == swap_decision::mode::encode ? static_cast<int64_t>(d.codec) : -1;
          },
          "tensor"_a, "sparsity"_a)
      .def("measured", &advisor::measured, "tensor"_a, "codec"_a, "sparsity"_a, "encode"_a, "decode"_a, "ratio"_a);

  const bound_control_options usual;
  m.attr("bound_control_options") =
      nb::make_tuple(usual.a, usual.share, usual.refresh, usual.first, usual.lowest, usual.highest);
  nb::class_<bound_controller>(m, "BoundController")
      .def(
          "__init__",
          [](bound_controller* self, double a, double share, uint64_t refresh, double first, double lowest,
             double highest) {
            new (self) bound_controller(
                {.a = a, .share = share, .refresh = refresh, .first = first, .lowest = lowest, .highest = highest});
          },
          "a"_a, "share"_a, "refresh"_a, "first"_a, "lowest"_a, "highest"_a)
      .def_prop_ro("bound", &bound_controller::bound)
      .def("wants", &bound_controller::wants, "iteration"_a)
      .def(
          "update",
          [](bound_controller& self, uint64_t iteration, double mean_gradient, double batch, double nonzero,
             double mean_momentum) { self.update(iteration, {mean_gradient, batch, nonzero, mean_momentum}); },
          "iteration"_a, "mean_gradient"_a, "batch"_a, "nonzero"_a, "mean_momentum"_a);
}

}  // namespace tuck::python
