// The codecs of the program on tensors that are in device memory, behind types that are chosen at run time.
#pragma once

#include "codecs.hpp"

#include <tuck/frame/device.cuh>

#include <memory>

namespace tuck::tools {

// A codec that was chosen, for elements of one type: the calls of frame/device.cuh, with default options.
class chosen_device_codec {
 public:
  virtual ~chosen_device_codec() = default;

  // What the frame of `count` values may take, and what encoding them needs; decoding needs no more.
  virtual uint64_t max_frame_bytes(uint64_t count) const = 0;
  virtual uint64_t scratch_bytes(uint64_t count) const = 0;

  // Tensors are whole elements.
  virtual result encode(const_bytes values, bytes frame, bytes scratch, outcome* written,
                        cudaStream_t stream) const = 0;
  virtual result decode(const_bytes frame, bytes values, bytes scratch, outcome* restored,
                        cudaStream_t stream) const = 0;
};

// Null where there is none of that name for that type.
std::unique_ptr<chosen_device_codec> choose_device_codec(const codec_choice& choice, dtype type);

}  // namespace tuck::tools
