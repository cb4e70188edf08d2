// Host side: calls, streams, events, captures. Everything here runs inside a runtime_scope.
#pragma once

#include "kernels.hpp"
#include "quiet_mutex.hpp"
#include "sanitizers.hpp"
#include "state.hpp"

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace cudasim::detail {

// --- Calls -----------------------------------------------------------------------------------------------

// Every call passes here: counted, perhaps refused by fail_call or, where it gives work to the device, by
// an earlier device error.
enum class call_kind : bool { work, housekeeping };
cudaError_t admit(call_kind kind);
cudaError_t leave_call(cudaError_t e);  // remembers it for cudaGetLastError
int current_device();

template <class Body> cudaError_t api(call_kind kind, Body&& body) {
  runtime_scope quiet;
  cudaError_t e = admit(kind);
  if (e == cudaSuccess) e = body();
  return leave_call(e);
}

// --- Streams ---------------------------------------------------------------------------------------------

using operation = std::function<void(CUstream_st&)>;

// What an event's record marks in its stream.
struct event_point {
  std::atomic<std::uint32_t> done{0};
  std::chrono::steady_clock::time_point time;
  order_point order;
  void complete();
  void wait();
};

struct graph_data {
  struct node {
    operation run;
    std::vector<std::size_t> after;
  };
  std::vector<node> nodes;
  std::vector<std::shared_ptr<void>> memory;  // of captured cudaMallocAsync, as long as the graph lives
};

struct capture {
  cudaStreamCaptureMode mode;
  std::thread::id owner;
  CUstream_st* origin;
  std::vector<CUstream_st*> members;
  std::shared_ptr<graph_data> graph = std::make_shared<graph_data>();
  bool invalidated = false;
};

CUstream_st* valid(cudaStream_t stream);  // or null
cudaError_t submit(cudaStream_t stream, operation run);
void drain(CUstream_st& s);  // waits for all that has been submitted
// All streams, destroyed ones too, or those the legacy default stream waits for; of one device, or all.
void drain_all(bool legacy_only, int device = -1);
// CUDA may wait for the device when it allocates memory, and when it loads a kernel, at its first launch. Here such
// calls wait for host functions alone: kernels of several streams shall race.
void wait_for_host_functions();
bool inside_stream();  // on a stream's own thread, where CUDA calls are not allowed

void run_launch(CUstream_st& s, const kernel_launch& l);

// --- Captures --------------------------------------------------------------------------------------------

// For calls that a capture of this thread, or a global one of any thread, forbids: invalidates it.
cudaError_t forbidden_while_capturing(bool even_relaxed = false);
cudaError_t invalidate_if_capturing(CUstream_st& s);
// Adds a node if the stream captures. False if it does not.
bool captured(CUstream_st& s, operation& run, cudaError_t& e);
cudaError_t record_captured(CUstream_st& s, CUevent_st& e, bool& was_captured);
cudaError_t wait_captured(CUstream_st& s, CUevent_st& e, bool& was_captured);
std::shared_ptr<graph_data> graph_of(CUstream_st& s);  // being captured, or null
void forget_captures();

}  // namespace cudasim::detail

struct CUstream_st {
  struct entry {
    cudasim::detail::operation run;
    cudasim::detail::order_point submitted;
  };
  int device = 0;
  bool legacy_waits = true;  // not cudaStreamNonBlocking
  bool is_legacy = false;    // the default stream of its device
  cudasim::detail::quiet_mutex mutex;
  std::deque<std::unique_ptr<entry>> queue;
  std::atomic<std::uint32_t> submitted{0}, completed{0};
  std::atomic<std::uint32_t> waited_for{0};  // of submitted, by the host
  std::atomic<std::uint32_t> launched{0};    // of submitted, the last with a kernel
  std::atomic<std::uint32_t> signal{0};      // changes when the thread has something to look at
  bool closing = false;
  cudasim::detail::order_point done;
  cudasim::detail::random delays;
  std::unique_ptr<cudasim::detail::kernel_runner> runner;
  std::vector<std::unique_ptr<cudasim::detail::kernel_runner>> branches;  // for a graph's parallel nodes, under TSan
  std::shared_ptr<cudasim::detail::capture> capturing;
  std::vector<std::size_t> frontier;  // nodes that the next one of this stream comes after
};

struct CUevent_st {
  bool timing = true;
  std::shared_ptr<cudasim::detail::event_point> point;
  std::shared_ptr<cudasim::detail::capture> captured;
  std::vector<std::size_t> frontier;
};

struct CUgraph_st {
  std::shared_ptr<cudasim::detail::graph_data> data;
};

struct CUgraphExec_st {
  std::shared_ptr<cudasim::detail::graph_data> data;
};
