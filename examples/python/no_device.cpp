// The program without device code.
#include "codecs.hpp"

#include <stdexcept>

namespace tuck::tools {
namespace {

[[noreturn]] void refuse() { throw std::runtime_error("--on device: this build of tuck has no GPU code"); }

}  // namespace

outcome encode_on_device(const codec_choice&, dtype, const_bytes, bytes, const frame_options&, const const_bytes*) {
  refuse();
}
outcome decode_on_device(const_bytes, bytes) { refuse(); }

}  // namespace tuck::tools
