// A codec of the library, by its name in the program `tuck`, as a coder of whole tensors on the host.
#pragma once

#include "bench/micro/coder.hpp"

#include "tuck/codecs.hpp"

#include <memory>
#include <stdexcept>
#include <vector>

namespace tuck::bench {

class tuck_coder final : public coder {
 public:
  // With a base, tensors are encoded as deltas against it. It must outlive the coder.
  tuck_coder(const tools::codec_choice& choice, const coder_request& request, unsigned threads,
             const const_bytes* base = nullptr)
      : codec_(tools::choose_codec(choice, request.type)), how_{.threads = threads}, base_(base) {
    if (codec_ == nullptr) throw std::runtime_error(choice.name + ": not for " + tuck::name(request.type));
    if (base != nullptr && choice.name == name(codec_id::steps))
      options_ = {.chunk_values = tools::most_chunk_values(choice.name, request.type),
                  .alignment = tools::delta_alignment};
    const tools::frame_plan plan = codec_->plan(request.raw_bytes / size_of(request.type), options_);
    require({.code = plan.code});
    frame_.resize(plan.most_bytes);
  }
  uint64_t encode(const_bytes raw) override {
    const outcome done = codec_->encode(raw, {frame_.data(), frame_.size()}, options_, how_, base_);
    require(done);
    return bytes_ = done.bytes;
  }
  void decode(bytes out) override {
    require(base_ == nullptr ? codec_->decode(frame(), out, 0, how_)
                             : tools::decode_delta_frame(frame(), *base_, out, how_));
  }

  // What `encode` made last.
  const_bytes frame() const { return {frame_.data(), bytes_}; }

 private:
  static void require(const outcome& done) {
    if (!done) throw std::runtime_error(message(done.code));
  }

  std::unique_ptr<tools::chosen_codec> codec_;
  host::execution how_;
  const const_bytes* base_;
  frame_options options_;
  std::vector<std::byte> frame_;
  uint64_t bytes_ = 0;
};

}  // namespace tuck::bench
