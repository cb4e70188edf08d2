#include "bench/micro/environment.hpp"

#include "bench/micro/device.hpp"

namespace tuck::bench {

nlohmann::ordered_json environment(unsigned threads, const std::string& command) {
  nlohmann::ordered_json peers = nlohmann::json::array(), device;
  std::string last;
  const auto add = [&](const std::string& library) {
    if (library != last) peers.push_back(last = library);
  };
  for (const peer& p : host_peers()) add(p.library);
  for (const device_peer& p : device_peers()) add(p.library);
  const auto found = describe_device();
  if (found)
    device = {{"name", found->name}, {"driver", found->driver}, {"runtime", found->runtime}, {"clocks", found->clocks}};
  nlohmann::ordered_json all = host_environment(command);
  all.erase("command");
  all.update({{"threads", threads},
              {"backend", found ? "cuda" : name(device_place().value_or(place::host))},
              {"device", device},
              {"peers", peers},
              {"command", command}});
  return all;
}

}  // namespace tuck::bench
