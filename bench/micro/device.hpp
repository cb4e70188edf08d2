// Measuring on the device: kernels on a GPU by events, on the simulator by the traffic it counts, in the engine that
// executes what nvcc emits by their instructions.
#pragma once

#include "bench/micro/coder.hpp"
#include "bench/micro/model.hpp"
#include "bench/micro/points.hpp"
#include "bench/micro/statistics.hpp"
#include "bench/support/roofline.hpp"

#include <optional>
#include <vector>

namespace tuck::bench {

struct source_line {
  std::string file;  // empty where kernels were compiled without -lineinfo
  int line;
  device_counts counts;
};

// What a call cost. On the simulator, which has no clock worth reading, there are no seconds; on a GPU nobody counts
// the bytes, and moved_bytes is what a codec cannot do without: those of the tensor and of the result.
struct device_cost {
  std::vector<double> seconds;          // of each run, with cold caches
  std::vector<double> copy_seconds;     // of a kernel that copies so many bytes that it moves moved_bytes, run in turn
  double moved_bytes = 0;               // read and written, in a run
  uint64_t launches = 0;                // counted, as the bytes
  device_counts counts = {};            // by the engine
  std::vector<source_line> lines = {};  // likewise, that which executes most first
  prediction predicted = {};            // under the model of time
};

// A coder whose tensors are in device memory. The simulator runs once, whatever the limits are.
class device_coder {
 public:
  device_coder() = default;
  device_coder(const device_coder&) = delete;
  device_coder& operator=(const device_coder&) = delete;
  virtual ~device_coder() = default;

  // Encodes `raw`, which is in host memory and is copied beforehand. Throws std::runtime_error where it fails, as the
  // others do.
  virtual device_cost encode(const_bytes raw, const run_limits& limits) = 0;
  // Of the last result, all that decoding needs included.
  virtual uint64_t encoded_bytes() const = 0;
  // Decodes the last result; `out`, in host memory, gets what came back. Throws where it only encodes.
  virtual device_cost decode(bytes out, const run_limits& limits) = 0;
};

// One of tuck's, by its name in the program `tuck`: null where there is none for that type. tolerance is absolute.
std::unique_ptr<device_coder> make_device_coder(const std::string& codec, const coder_request& request,
                                                const coder_way& way = {});

struct device_peer {
  std::string name;     // "nvcomp-lz4", "cub-select"
  std::string library;  // "nvCOMP 4.0.1"
  bool decodes;
  bool (*takes)(dtype);
  std::unique_ptr<device_coder> (*make)(const coder_request& request);
};
// Those that this program was built with: on the simulator none.
std::span<const device_peer> device_peers();

// The same runs for a copy alone, of `raw_bytes`: `seconds`, or what was counted; nothing on the simulator.
device_cost copy_on_device(uint64_t raw_bytes, const run_limits& limits);

// Where this build's kernels run; nowhere in a build of host rows alone.
std::optional<place> device_place();

struct device_description {
  std::string name;     // "NVIDIA H200"
  std::string driver;   // "580.65"
  std::string runtime;  // of CUDA, "13.0"
  std::string clocks;   // "SM 1980 MHz, memory 3201 MHz": the highest, as the driver says
};
// Nothing where there is no GPU.
std::optional<device_description> describe_device();

}  // namespace tuck::bench
