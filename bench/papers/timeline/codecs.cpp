#include "bench/papers/timeline/codecs.hpp"

#include "bench/papers/predict/predictor_file.hpp"
#include "bench/support/json_file.hpp"

#include "support/files.hpp"

#include <cmath>
#include <set>

namespace tuck::bench {
namespace {

constexpr const char* codec_names[] = {"zvc", "rle", "deflate", "quantize"};

double zvc_with_raw_chunks(double zeros) { return std::max(1., zvc_ratio(zeros, 4)); }

// What a codec was measured to do with clustered f32 on a host, at the size of which most is known, or the largest.
struct curve {
  std::vector<double> zeros = {}, frame = {}, encode = {}, decode = {};  // all by byte
};

curve measured_curve(const std::vector<measurement>& measured, const std::string& codec, bool largest,
                     const std::string& path) {
  std::map<uint64_t, std::map<double, measurement>> by_size;
  for (const measurement& m : measured)
    if (m.of.codec == codec && m.of.on.where == "host" && m.of.on.type == "f32" && m.of.on.pattern == "clustered")
      by_size[m.size][m.zeros] = m;
  const std::map<double, measurement>* best = nullptr;
  for (const auto& [size, points] : by_size)
    if (best == nullptr || largest || points.size() >= best->size()) best = &points;
  if (best == nullptr) throw tools::file_error(path, "no " + codec + " of clustered f32 on a host is in it");
  curve c;
  for (const auto& [zeros, m] : *best) {
    const auto size = static_cast<double>(m.size);
    c.zeros.push_back(zeros);
    c.frame.push_back(1 / m.ratio);
    c.encode.push_back(m.encode / size);
    c.decode.push_back(m.decode / size);
  }
  return c;
}

counted_curve curve_of(const std::map<double, ordered_json>& rows) {
  counted_curve c;
  for (const auto& [zeros, row] : rows) {
    const auto by_byte = [&](const char* key) { return row.at(key).is_null() ? 0. : row.at(key).get<double>() / 128; };
    c.zeros.push_back(zeros);
    c.instructions.push_back(by_byte("instructions_per_128_bytes"));
    c.wavefronts.push_back(by_byte("shared_wavefronts"));
    c.sectors.push_back(by_byte("sectors"));
  }
  return c;
}

// Of `raw` bytes; what must be moved counts where more was not counted.
double bound(const counted_curve& c, double raw, double moved, double zeros, const gpu_rates& on) {
  const auto counted = [&](const std::vector<double>& by_byte) { return raw * between(c.zeros, by_byte, zeros); };
  const device_counts all{.instructions = counted(c.instructions),
                          .wavefronts = counted(c.wavefronts),
                          .sectors = std::max(counted(c.sectors), moved / 32)};
  return walls_of(all, on, good_issue).least_time();
}

}  // namespace

std::map<std::string, counted_codec> read_counts(const std::string& path) {
  return read_json(path, "tuck-bench/1", [](const ordered_json& file) {
    // By codec, operation and zeros.
    std::map<std::string, std::map<std::string, std::map<double, ordered_json>>> found;
    for (const auto& row : file.at("rows"))
      if (row.at("type") == "f32" && row.at("pattern") == "sums" && !row.at("instructions_per_128_bytes").is_null())
        found[row.at("codec")][row.at("operation")][row.at("zeros")] = row;
    std::map<std::string, counted_codec> counted;
    for (const char* codec : codec_names) {
      counted[codec] = {curve_of(found[codec]["encode"]), curve_of(found[codec]["decode"])};
      if (counted[codec].encode.zeros.empty() || counted[codec].decode.zeros.empty())
        throw std::domain_error(std::string("no counts of ") + codec + " on sums of f32 are in it");
    }
    return counted;
  });
}

codec_models counted_codecs(const machine& on, const std::map<std::string, counted_codec>& counted,
                            const std::vector<measurement>& measured, const std::string& path) {
  codec_models found;
  for (const char* codec : codec_names) {
    const bool zvc = codec == std::string("zvc");
    const curve of = zvc ? curve{} : measured_curve(measured, codec, false, path);
    const bool lossy = codec == std::string("quantize");
    found[codec] = [=, counts = counted.at(codec)](uint64_t size, double zeros) {
      const double ratio = zvc ? zvc_with_raw_chunks(zeros) : 1 / between(of.zeros, of.frame, zeros);
      const auto raw = static_cast<double>(size);
      const auto seconds = [&](const counted_curve& c) {
        return bound(c, raw, raw * (1 + 1 / ratio), zeros, on.rates) + on.launch;
      };
      return codec_estimate{ratio, seconds(counts.encode), seconds(counts.decode), lossy};
    };
  }
  return found;
}

codec_models predicted_codecs(const std::string& path) {
  const std::set<std::string> wanted(std::begin(codec_names), std::end(codec_names));
  codec_models found;
  const predictor_file file = load(path);
  for (const fitted& f : file.codecs) {
    if (f.of.on.where != "gpu" || f.of.on.type != "f32" || f.of.on.pattern != "clustered" ||
        !wanted.contains(f.of.codec))
      continue;
    found[f.of.codec] = [f, path](uint64_t size, double zeros) {
      const auto e = f.model.at(size, zeros);
      if (!e.encode.sure() || !e.decode.sure() || !e.ratio.sure())
        throw tools::file_error(path, f.of.codec + " is not sure of " + std::to_string(size) + " bytes, " +
                                          std::to_string(std::lround(100 * zeros)) + " % of them zero: measure such");
      return codec_estimate{e.ratio.value, e.encode.value, e.decode.value, f.of.lossy};
    };
  }
  for (const std::string& codec : wanted)
    if (!found.contains(codec)) throw tools::file_error(path, "no " + codec + " of clustered f32 on a GPU is in it");
  return found;
}

codec_models slower(codec_models codecs, double times) {
  for (auto& [name, model] : codecs)
    model = [of = model, times](uint64_t size, double zeros) {
      codec_estimate e = of(size, zeros);
      e.encode *= times;
      e.decode *= times;
      return e;
    };
  return codecs;
}

codec_model host_zvc(const std::vector<measurement>& measured, const std::string& path) {
  const curve of = measured_curve(measured, "zvc", true, path);
  return [of](uint64_t size, double zeros) {
    const auto raw = static_cast<double>(size);
    return codec_estimate{zvc_with_raw_chunks(zeros), raw * between(of.zeros, of.encode, zeros),
                          raw * between(of.zeros, of.decode, zeros)};
  };
}

codec_model engine_zvc(const machine& on) {
  const double most = on.rates.copy / std::max(on.link.d2h, on.link.h2d);
  return [most](uint64_t, double zeros) { return codec_estimate{std::min(zvc_ratio(zeros, 4), most)}; };
}

}  // namespace tuck::bench
