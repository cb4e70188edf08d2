// The codecs of the program for tensors in device memory, for codec names and element types that are known only at run
// time.
#pragma once

#include "codecs.hpp"
#include "support/on_device.cuh"

#include <tuck/frame/device.cuh>

#include <memory>

namespace tuck::tools {

// A codec for elements of one type: a run-time interface to the calls of frame/device.cuh.
class chosen_device_codec {
 public:
  virtual ~chosen_device_codec() = default;

  // Return the maximum size of a frame of `count` values, and the scratch that encoding needs, in bytes. Decoding needs
  // no more scratch than that.
  virtual uint64_t max_frame_bytes(uint64_t count, const frame_options& options = {}) const = 0;
  virtual uint64_t scratch_bytes(uint64_t count, const frame_options& options = {}) const = 0;

  // Tensors consist of whole elements.
  virtual result encode(const_bytes values, bytes frame, scratch_span scratch, outcome* written, cudaStream_t stream,
                        const frame_options& options = {}, const launch_options& how = {}) const = 0;
  virtual result decode(const_bytes frame, bytes values, scratch_span scratch, outcome* restored, cudaStream_t stream,
                        const launch_options& how = {}) const = 0;

  // The same for deltas. `values` may be the base. Return codec_mismatch for other codecs than device_delta_codecs.
  virtual result encode_delta(const_bytes values, const_bytes base, bytes frame, scratch_span scratch, outcome* written,
                              cudaStream_t stream, const frame_options& options) const = 0;
  virtual result decode_delta(const_bytes frame, const_bytes base, bytes values, scratch_span scratch,
                              outcome* restored, cudaStream_t stream, const delta_options& options = {}) const = 0;
};

// Returns null if no codec has this name and accepts this type.
std::unique_ptr<chosen_device_codec> choose_device_codec(const codec_choice& choice, dtype type);

// A stream, and the cost of the calls on it: seconds on a GPU, or bytes moved by the kernels on the simulator. Tensors
// and frames are on the host. Errors of tuck are returned as outcomes. Errors of CUDA throw.
class device_session {
 public:
  // `frame` has at least max_frame_bytes, and 8 bytes more for a delta.
  outcome encode(const chosen_device_codec& codec, const_bytes values, uint64_t count, bytes frame,
                 frame_options options = {}, const const_bytes* base = nullptr);
  outcome decode(const chosen_device_codec& codec, const_bytes frame, bytes values, bool is_delta = false);

  // Returns the cost of the last call: bytes moved on the simulator, seconds on a GPU.
  double cost() const noexcept { return cost_; }

 private:
  template <class Call> outcome timed(const Call& call);

  device_stream stream_;
  double cost_ = 0;
};

}  // namespace tuck::tools
