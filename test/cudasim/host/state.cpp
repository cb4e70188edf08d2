#include "state.hpp"

#include "host.hpp"

#include <cstdio>
#include <cstdlib>
#include <map>

namespace cudasim {
namespace detail {
namespace {

struct state {
  quiet_mutex mutex;
  settings options;
  counters sums;
  std::string report;
  std::atomic<bool> failed{false};
  std::atomic<std::uint64_t> launch_seed{0};
  std::uint64_t fail_in = 0;
  cudaError_t fail_with = cudaSuccess;
};

state& the_state() {
  static state& s = *new state;
  return s;
}

constinit thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

settings get_settings() {
  quiet_lock lock(the_state().mutex);
  return the_state().options;
}

void add_counts(const counters& c) {
  quiet_lock lock(the_state().mutex);
  for (const auto what :
       {&counters::atomics, &counters::shared_atomics, &counters::polls, &counters::barriers,
        &counters::tensor_bytes_read, &counters::tensor_bytes_written, &counters::other_bytes_read,
        &counters::other_bytes_written, &counters::tensor_sectors_read, &counters::tensor_sectors_written,
        &counters::other_sectors_read, &counters::other_sectors_written})
    the_state().sums.*what += c.*what;
}

void count(std::uint64_t counters::* what, std::uint64_t n) {
  quiet_lock lock(the_state().mutex);
  the_state().sums.*what += n;
}

void count_most(std::uint64_t counters::* what, std::uint64_t n) {
  quiet_lock lock(the_state().mutex);
  if (n > the_state().sums.*what) the_state().sums.*what = n;
}

void record_error(const std::string& report) {
  {
    quiet_lock lock(the_state().mutex);
    if (the_state().failed.exchange(true)) return;
    the_state().report = report;
  }
  std::fputs(report.c_str(), stderr);
}

void remember(const std::string& report) {
  quiet_lock lock(the_state().mutex);
  if (the_state().report.empty()) the_state().report = report;
}

bool device_failed() { return the_state().failed.load(); }

std::uint64_t seed() {
  static const char* const more = std::getenv("CUDASIM_SEED");
  const std::uint64_t configured = get_settings().seed;
  return more == nullptr ? configured : mix(configured, std::strtoull(more, nullptr, 0));
}

std::uint64_t next_launch_seed() { return mix(seed(), the_state().launch_seed.fetch_add(1)); }

cudaError_t admit(call_kind kind) {
  quiet_lock lock(the_state().mutex);
  ++the_state().sums.calls;
  if (the_state().fail_in > 0 && --the_state().fail_in == 0) {
    ++(kind == call_kind::work ? the_state().sums.failed_work : the_state().sums.failed_housekeeping);
    return the_state().fail_with;
  }
  if (inside_stream()) return cudaErrorNotSupported;  // a host function must not call CUDA
  return kind == call_kind::work && the_state().failed ? cudaErrorLaunchFailure : cudaSuccess;
}

cudaError_t leave_call(cudaError_t e) {
  if (e != cudaSuccess) last_error = e;
  return e;
}

}  // namespace detail

using namespace detail;

void configure(const settings& s) {
  runtime_scope quiet;
  drain_all(false);
  quiet_lock lock(the_state().mutex);
  the_state().options = s;
  the_state().launch_seed = 0;
  apply(s);
}

settings current_settings() { return get_settings(); }

void reset() {
  runtime_scope quiet;
  forget_captures();
  drain_all(false);
  clear_tags();
  quiet_lock lock(the_state().mutex);
  the_state().failed = false;
  the_state().report.clear();
  the_state().fail_in = 0;
  the_state().sums = {};
  last_error = cudaSuccess;
}

std::string last_report() {
  runtime_scope quiet;
  quiet_lock lock(the_state().mutex);
  return the_state().report;
}

counters snapshot() {
  quiet_lock lock(the_state().mutex);
  return the_state().sums;
}

void clear_counters() {
  runtime_scope quiet;
  quiet_lock lock(the_state().mutex);
  the_state().sums = {};
}

void fail_call(std::uint64_t k, cudaError_t error) {
  quiet_lock lock(the_state().mutex);
  the_state().fail_in = k;
  the_state().fail_with = error;
}

}  // namespace cudasim

cudaError_t cudaGetLastError() {
  cudasim::detail::count(&cudasim::counters::get_last_error);
  const cudaError_t e = cudaPeekAtLastError();
  cudasim::detail::last_error = cudaSuccess;
  return e;
}

// A device error stays the last error until the simulator is reset.
cudaError_t cudaPeekAtLastError() {
  return cudasim::detail::device_failed() ? cudaErrorLaunchFailure : cudasim::detail::last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define CUDASIM_NAME(e) \
  case e: return #e;
    CUDASIM_NAME(cudaSuccess)
    // clang-format off
    CUDASIM_NAME(cudaErrorInvalidValue) CUDASIM_NAME(cudaErrorMemoryAllocation)
        CUDASIM_NAME(cudaErrorInvalidConfiguration) CUDASIM_NAME(cudaErrorInvalidDevice) CUDASIM_NAME(cudaErrorNoDevice)
            CUDASIM_NAME(cudaErrorInvalidDeviceFunction) CUDASIM_NAME(cudaErrorInvalidKernelImage)
            CUDASIM_NAME(cudaErrorInvalidResourceHandle) CUDASIM_NAME(
                cudaErrorIllegalState) CUDASIM_NAME(cudaErrorNotReady)
                CUDASIM_NAME(cudaErrorLaunchFailure) CUDASIM_NAME(cudaErrorNotSupported)
                    CUDASIM_NAME(cudaErrorStreamCaptureUnsupported) CUDASIM_NAME(cudaErrorStreamCaptureInvalidated)
                        CUDASIM_NAME(cudaErrorStreamCaptureMerge) CUDASIM_NAME(cudaErrorStreamCaptureUnmatched)
                            CUDASIM_NAME(cudaErrorStreamCaptureUnjoined) CUDASIM_NAME(cudaErrorStreamCaptureIsolation)
                                CUDASIM_NAME(cudaErrorStreamCaptureImplicit) CUDASIM_NAME(cudaErrorCapturedEvent)
                                    CUDASIM_NAME(cudaErrorStreamCaptureWrongThread) CUDASIM_NAME(cudaErrorUnknown)
    // clang-format on
#undef CUDASIM_NAME
                                            default : break;
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
