// In place of device.cu where a program has the rows of the host alone, so that no kernel is compiled.
#include "bench/micro/device.hpp"

namespace tuck::bench {

std::unique_ptr<device_coder> make_device_coder(const std::string&, const coder_request&, const coder_way&) {
  return nullptr;
}
std::span<const device_peer> device_peers() { return {}; }
device_cost copy_on_device(uint64_t, const run_limits&) { return {}; }
std::optional<place> device_place() { return {}; }
std::optional<device_description> describe_device() { return {}; }

}  // namespace tuck::bench
