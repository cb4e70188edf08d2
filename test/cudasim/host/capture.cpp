// Stream capture and graphs. A capturing stream adds nodes to a graph instead of tasks to its queue; its
// frontier is what the next node comes after.
#include "host.hpp"

#include <algorithm>
#include <numeric>

namespace cudasim::detail {
namespace {

struct captures {
  quiet_mutex mutex;
  std::vector<std::shared_ptr<capture>> active;
};

captures& all_captures() {
  static captures& c = *new captures;
  return c;
}

constinit thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

void end(const std::shared_ptr<capture>& c) {
  for (CUstream_st* s : c->members) {
    s->capturing = nullptr;
    s->frontier.clear();
  }
  std::erase(all_captures().active, c);
}

// Does every node of the stream come before the end of the origin?
bool joined(const capture& c) {
  std::vector<bool> before(c.graph->nodes.size());
  std::vector<std::size_t> open = c.origin->frontier;
  while (!open.empty()) {
    const std::size_t n = open.back();
    open.pop_back();
    if (before[n]) continue;
    before[n] = true;
    open.insert(open.end(), c.graph->nodes[n].after.begin(), c.graph->nodes[n].after.end());
  }
  return std::all_of(before.begin(), before.end(), [](bool b) { return b; });
}

// Runs a graph's nodes in any order that the edges allow, a different one for every seed. To
// ThreadSanitizer each node is a fiber that knows what its edges tell it, and parallel nodes have
// different runners, because a runner's fibers remember the kernels that they ran.
class replay {
 public:
  replay(const graph_data& g, CUstream_st& s)
      : graph_(g),
        stream_(s),
        done_(g.nodes.size()),
        heir_(g.nodes.size(), none),
        set_(g.nodes.size()),
        ends_(g.nodes.size()) {}
  ~replay() {
    for (void* f : fibers_) __tsan_destroy_fiber(f);
  }

  void run() {
    for (std::size_t executed = 0; executed < done_.size(); ++executed) {
      const std::vector<std::size_t> ready = ready_nodes();
      const std::size_t i = ready[stream_.delays.below(ready.size())];
      if (tsan())
        run_as_fiber(i);
      else
        graph_.nodes[i].run(stream_);
      done_[i] = true;
    }
    for (auto& e : ends_) e.acquire();
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  std::vector<std::size_t> ready_nodes() const {
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < done_.size(); ++i) {
      const auto& after = graph_.nodes[i].after;
      if (!done_[i] && std::all_of(after.begin(), after.end(), [&](std::size_t a) { return done_[a]; }))
        ready.push_back(i);
    }
    return ready;
  }

  // A node inherits the runner of one that it comes after, unless another has it already.
  std::size_t choose_set(std::size_t i) {
    for (const std::size_t a : graph_.nodes[i].after) {
      if (heir_[a] != none) continue;
      heir_[a] = i;
      return set_[a];
    }
    if (sets_ == stream_.branches.size()) stream_.branches.emplace_back();
    return sets_++;
  }

  void run_as_fiber(std::size_t i) {
    set_[i] = choose_set(i);
    std::swap(stream_.runner, stream_.branches[set_[i]]);
    void* native = __tsan_get_current_fiber();
    fibers_.push_back(__tsan_create_fiber(0));
    __tsan_switch_to_fiber(fibers_.back(), 1);
    for (const std::size_t a : graph_.nodes[i].after) ends_[a].acquire();
    {
      runtime_scope quiet;
      graph_.nodes[i].run(stream_);
    }
    ends_[i].release();
    __tsan_switch_to_fiber(native, 1);
    std::swap(stream_.runner, stream_.branches[set_[i]]);
  }

  const graph_data& graph_;
  CUstream_st& stream_;
  std::vector<bool> done_;
  std::vector<std::size_t> heir_, set_;  // who has a node's runner after it; which it is
  std::size_t sets_ = 0;
  std::vector<order_point> ends_;
  std::vector<void*> fibers_;
};

}  // namespace

cudaError_t forbidden_while_capturing(bool even_relaxed) {
  quiet_lock lock(all_captures().mutex);
  cudaError_t e = cudaSuccess;
  for (auto& c : all_captures().active) {
    const bool mine = c->owner == std::this_thread::get_id();
    const bool only_mine = std::max(c->mode, thread_mode) == cudaStreamCaptureModeThreadLocal;
    const bool relaxed = c->mode == cudaStreamCaptureModeRelaxed || thread_mode == cudaStreamCaptureModeRelaxed;
    if (!even_relaxed && (relaxed || (only_mine && !mine))) continue;
    c->invalidated = true;
    e = cudaErrorStreamCaptureUnsupported;
  }
  return e;
}

cudaError_t invalidate_if_capturing(CUstream_st& s) {
  quiet_lock lock(all_captures().mutex);
  if (!s.capturing) return cudaSuccess;
  s.capturing->invalidated = true;
  return cudaErrorStreamCaptureUnsupported;
}

bool captured(CUstream_st& s, operation& run, cudaError_t& e) {
  quiet_lock lock(all_captures().mutex);
  if (!s.capturing) return false;
  e = s.capturing->invalidated ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  if (e != cudaSuccess) return true;
  auto& nodes = s.capturing->graph->nodes;
  nodes.push_back({std::move(run), s.frontier});
  s.frontier = {nodes.size() - 1};
  return true;
}

cudaError_t record_captured(CUstream_st& s, CUevent_st& e, bool& was_captured) {
  quiet_lock lock(all_captures().mutex);
  was_captured = s.capturing != nullptr;
  if (!was_captured) return cudaSuccess;
  if (s.capturing->invalidated) return cudaErrorStreamCaptureInvalidated;
  e.captured = s.capturing;
  e.frontier = s.frontier;
  e.point = nullptr;
  return cudaSuccess;
}

cudaError_t wait_captured(CUstream_st& s, CUevent_st& e, bool& was_captured) {
  quiet_lock lock(all_captures().mutex);
  was_captured = s.capturing || e.captured;
  if (!was_captured) return cudaSuccess;
  const auto invalidate = [](const std::shared_ptr<capture>& c) {
    if (c) c->invalidated = true;
  };
  if (!e.captured) {
    invalidate(s.capturing);
    return cudaErrorStreamCaptureIsolation;
  }
  if (s.capturing && s.capturing != e.captured) {
    invalidate(s.capturing);
    invalidate(e.captured);
    return cudaErrorStreamCaptureMerge;
  }
  if (e.captured->invalidated) return cudaErrorStreamCaptureInvalidated;
  if (std::find(all_captures().active.begin(), all_captures().active.end(), e.captured) == all_captures().active.end())
    return cudaErrorInvalidValue;
  if (!s.capturing) {
    s.capturing = e.captured;
    s.capturing->members.push_back(&s);
  }
  for (const std::size_t n : e.frontier)
    if (std::find(s.frontier.begin(), s.frontier.end(), n) == s.frontier.end()) s.frontier.push_back(n);
  return cudaSuccess;
}

std::shared_ptr<graph_data> graph_of(CUstream_st& s) {
  quiet_lock lock(all_captures().mutex);
  return s.capturing ? s.capturing->graph : nullptr;
}

void forget_captures() {
  quiet_lock lock(all_captures().mutex);
  while (!all_captures().active.empty()) end(std::shared_ptr<capture>(all_captures().active.back()));
}

}  // namespace cudasim::detail

using namespace cudasim::detail;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return api(call_kind::work, [&] {
    CUstream_st* s = valid(stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (s->is_legacy) return cudaErrorStreamCaptureUnsupported;
    quiet_lock lock(all_captures().mutex);
    if (s->capturing) return cudaErrorIllegalState;
    auto c = std::make_shared<capture>();
    c->mode = mode;
    c->owner = std::this_thread::get_id();
    c->origin = s;
    c->members = {s};
    s->capturing = c;
    all_captures().active.push_back(c);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return api(call_kind::housekeeping, [&] {
    CUstream_st* s = valid(stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (!graph) return cudaErrorInvalidValue;
    *graph = nullptr;
    quiet_lock lock(all_captures().mutex);
    const std::shared_ptr<capture> c = s->capturing;
    if (!c) return cudaErrorIllegalState;
    if (c->origin != s) {
      c->invalidated = true;
      return cudaErrorStreamCaptureUnmatched;
    }
    if (c->mode != cudaStreamCaptureModeRelaxed && c->owner != std::this_thread::get_id())
      return cudaErrorStreamCaptureWrongThread;
    const bool complete = joined(*c);
    end(c);
    if (c->invalidated) return cudaErrorStreamCaptureInvalidated;
    if (!complete) return cudaErrorStreamCaptureUnjoined;
    *graph = new CUgraph_st{c->graph};
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return api(call_kind::housekeeping, [&] {
    if (!mode || *mode < cudaStreamCaptureModeGlobal || *mode > cudaStreamCaptureModeRelaxed)
      return cudaErrorInvalidValue;
    std::swap(*mode, thread_mode);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return api(call_kind::housekeeping, [&] {
    CUstream_st* s = valid(stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (!status) return cudaErrorInvalidValue;
    quiet_lock lock(all_captures().mutex);
    *status = !s->capturing               ? cudaStreamCaptureStatusNone
              : s->capturing->invalidated ? cudaStreamCaptureStatusInvalidated
                                          : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return api(call_kind::work, [&] {
    if (!exec || !graph) return cudaErrorInvalidValue;
    *exec = new CUgraphExec_st{graph->data};
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return api(call_kind::work, [&] {
    if (!exec) return cudaErrorInvalidValue;
    return submit(stream, [data = exec->data](CUstream_st& s) { replay(*data, s).run(); });
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return api(call_kind::housekeeping, [&] {
    if (!exec) return cudaErrorInvalidValue;
    delete exec;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api(call_kind::housekeeping, [&] {
    if (!graph) return cudaErrorInvalidValue;
    delete graph;
    return cudaSuccess;
  });
}
