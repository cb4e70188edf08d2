// Predictors fitted to measurements, and the file that they are kept in.
#pragma once

#include "bench/papers/predict/measurements.hpp"

#include <tuck/model/predictor_file.hpp>

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

// The time of a measurement that a predictor misses most; "factor" is predicted / measured.
nlohmann::ordered_json worst_residual(const fitted& one, const std::vector<measurement>& measured);

// The file that tuck/model/predictor_file.hpp describes. It is written entirely or not at all. Both throw
// std::runtime_error, also about figures that are not finite.
void save(const std::string& path, const predictor_file& file);
predictor_file load(const std::string& path);

}  // namespace tuck::bench
