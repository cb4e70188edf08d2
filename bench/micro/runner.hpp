// Measures points one after the other and keeps what they have in common: a tensor, its coder, what it was encoded to.
#pragma once

#include "bench/micro/coder.hpp"
#include "bench/micro/device.hpp"
#include "bench/micro/results.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tuck::bench {

class runner {
 public:
  // peer_chunk_bytes: of what peers code on its own.
  runner(std::string recordings, const run_limits& on_host, const run_limits& on_device,
         uint64_t peer_chunk_bytes = 64 * 1024, model_request model = {})
      : tensors_(std::move(recordings)),
        on_host_(on_host),
        on_device_(on_device),
        peer_chunk_bytes_(peer_chunk_bytes),
        model_(std::move(model)) {}

  // Every coder there is, copies among them.
  static std::vector<entry> host_coders(bool with_peers);
  static std::vector<entry> device_coders(bool with_peers);
  // What is measured of a coder.
  static std::vector<operation> operations_of(const point& p);

  // A row. What comes back is compared with what was encoded: throws std::runtime_error where it differs.
  row measure(const point& p, operation what);

 private:
  // How exact lossy coders must be here: within a thousandth of the range, and where zfp is there, as exact as zfp
  // comes out at the largest of its tolerances that keeps to it.
  struct exactness {
    double of_codecs;
    double of_zfp;
  };

  void prepare(const point& p);
  tensor_request run_tensor(const point& p);
  row whole(row r) const;
  exactness lossy_bounds();
  exactness as_exact_as(const peer& zfp, double bound);
  double tolerance_for(const point& p);
  row measure_on_host(row r);
  row measure_on_device(row r);
  row measure_copy(row r);
  void verify();

  tensor_maker tensors_;
  run_limits on_host_, on_device_;
  uint64_t peer_chunk_bytes_;
  model_request model_;
  model_sample sample_ = {};
  cpu_level usual_level_ = level_of_cpu();

  tensor_request wanted_{};
  tensor tensor_;
  std::vector<std::byte> restored_;
  std::optional<exactness> bounds_;

  std::string coder_name_;
  double tolerance_ = 0;
  std::unique_ptr<coder> host_;
  std::unique_ptr<device_coder> device_;
  // Of the coder, and whether what it decoded was looked at.
  bool verified_ = false;
  uint64_t encoded_bytes_ = 0;
  device_cost encoded_, decoded_;
  double error_ = 0;
};

}  // namespace tuck::bench
