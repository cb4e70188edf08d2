// The codecs of the program on tensors that are in device memory, behind types that are chosen at run time.
#pragma once

#include "codecs.hpp"
#include "support/on_device.cuh"

#include <tuck/frame/device.cuh>

#include <memory>

namespace tuck::tools {

// A codec that was chosen, for elements of one type: the calls of frame/device.cuh.
class chosen_device_codec {
 public:
  virtual ~chosen_device_codec() = default;

  // What the frame of `count` values may take, and what encoding them needs; decoding needs no more.
  virtual uint64_t max_frame_bytes(uint64_t count, const frame_options& options = {}) const = 0;
  virtual uint64_t scratch_bytes(uint64_t count, const frame_options& options = {}) const = 0;

  // Tensors are whole elements.
  virtual result encode(const_bytes values, bytes frame, scratch_span scratch, outcome* written, cudaStream_t stream,
                        const frame_options& options = {}) const = 0;
  virtual result decode(const_bytes frame, bytes values, scratch_span scratch, outcome* restored,
                        cudaStream_t stream) const = 0;
};

// Null where there is none of that name for that type.
std::unique_ptr<chosen_device_codec> choose_device_codec(const codec_choice& choice, dtype type);

// A stream, and what its calls cost: seconds on a GPU; on the simulator the bytes that the kernels moved. Tensors and
// frames are on the host. What a call refuses comes back as its outcome, what CUDA refuses throws.
class device_session {
 public:
  // `frame` has room for max_frame_bytes.
  outcome encode(const chosen_device_codec& codec, const_bytes values, uint64_t count, bytes frame,
                 frame_options options = {});
  outcome decode(const chosen_device_codec& codec, const_bytes frame, bytes values);

  // Of the last call: bytes moved if simulated, else seconds.
  double cost() const noexcept { return cost_; }

 private:
  template <class Call> outcome timed(const Call& call);

  device_stream stream_;
  double cost_ = 0;
};

}  // namespace tuck::tools
