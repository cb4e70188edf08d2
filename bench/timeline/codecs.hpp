// What codecs make of a tensor: as bench_predict has learnt it from a GPU, or as the goals for kernels have it.
#pragma once

#include "bench/predict/measurements.hpp"
#include "bench/timeline/tables.hpp"

#include <functional>
#include <map>

namespace tuck::bench {

using codec_model = std::function<codec_estimate(uint64_t size, double zeros)>;
using codec_models = std::map<std::string, codec_model>;  // zvc, rle, deflate, quantize

// Times are goals and not measurements: the least R that kernels are to reach, of a copy of as many bytes, and a
// launch; deflate's in bytes a second of an H200, by the memory's rate. ZVC's ratio by its formula, the others' as
// measured on a host: of clustered zeros among |N(0, 1)|. Throws tools::file_error about `path`, where they are from.
codec_models goal_codecs(const machine& on, const std::vector<measurement>& measured, const std::string& path);

// Of the predictors of a GPU for clustered f32. Throws tools::file_error, where ZVC has none too.
codec_models predicted_codecs(const std::string& path);

// All times so many times as long.
codec_models slower(codec_models codecs, double times);

// ZVC on one thread of a host as measured, at the largest size. Throws tools::file_error about `path`.
codec_model host_zvc(const std::vector<measurement>& measured, const std::string& path);

// cDMA's engine: takes no time, and reads memory as fast as a copy does, whatever the ratio.
codec_model engine_zvc(const machine& on);

}  // namespace tuck::bench
