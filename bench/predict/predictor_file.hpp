// Predictors fitted to measurements, and the file that they are kept in.
#pragma once

#include "bench/predict/measurements.hpp"

#include <tuck/model/predictor.hpp>

#include <string>
#include <vector>

namespace tuck::bench {

struct fitted {
  coder_key of;
  codec_predictor model;
};

struct predictor_file {
  nlohmann::ordered_json environment;
  std::vector<fitted> codecs;
};

// One predictor a codec and kind of tensor, in order; none where a measurement more than coefficients is not there, so
// that each says how sure it is.
std::vector<fitted> fit(const std::vector<measurement>& measured);

// {"schema": "tuck-predictors/1", ...}, as bench/README.md describes it; all doubles come back bit by bit. A file is
// written entirely or not at all. Both throw tools::file_error, also about figures that are not finite.
void save(const std::string& path, const predictor_file& file);
predictor_file load(const std::string& path);

}  // namespace tuck::bench
