// What codecs make of a tensor: as bench_predict has learnt it from a GPU, or as what kernels execute bounds it.
#pragma once

#include "bench/papers/predict/measurements.hpp"
#include "bench/papers/timeline/tables.hpp"

#include <functional>
#include <map>

namespace tuck::bench {

using codec_model = std::function<codec_estimate(uint64_t size, double zeros)>;
using codec_models = std::map<std::string, codec_model>;  // zvc, rle, deflate, quantize

// What a call was counted to do for each byte of an f32 tensor, by its zeros, which ascend.
struct counted_curve {
  std::vector<double> zeros = {}, instructions = {}, wavefronts = {}, sectors = {};
};
struct counted_codec {
  counted_curve encode = {}, decode = {};
};
// Of what tuck-bench --where ptx wrote. Throws tools::file_error, where one of the four codecs is missing too.
std::map<std::string, counted_codec> read_counts(const std::string& path);

// Times are bounds and not measurements: the least that what is counted takes where 70 % of what can be issued is, and
// a launch. ZVC's ratio by its formula, the others' as measured on a host: of clustered zeros among |N(0, 1)|. Throws
// tools::file_error about `path`, where they are from.
codec_models counted_codecs(const machine& on, const std::map<std::string, counted_codec>& counted,
                            const std::vector<measurement>& measured, const std::string& path);

// Of the predictors of a GPU for clustered f32. Throws tools::file_error, where one of the four codecs has none too.
codec_models predicted_codecs(const std::string& path);

// All times so many times as long.
codec_models slower(codec_models codecs, double times);

// ZVC on one thread of a host as measured, at the largest size. Throws tools::file_error about `path`.
codec_model host_zvc(const std::vector<measurement>& measured, const std::string& path);

// cDMA's engine: takes no time, and reads memory as fast as a copy does, whatever the ratio.
codec_model engine_zvc(const machine& on);

}  // namespace tuck::bench
