#include "bench/timeline/codecs.hpp"

#include "bench/predict/predictor_file.hpp"

#include "support/files.hpp"

#include <set>

namespace tuck::bench {
namespace {

struct goal {
  const char* codec;
  double encode, decode;                // R where less than 60 % are zeros
  double sparse_encode, sparse_decode;  // and from 90 % on
};
constexpr goal goals[] = {{"zvc", .85, .90, .75, .85}, {"rle", .60, .70, .60, .70}, {"quantize", .60, .70, .60, .70}};
constexpr double deflate_encode = 100e9, deflate_decode = 300e9, h200_bytes_per_second = 4.8e12;

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

}  // namespace

codec_models goal_codecs(const machine& on, const std::vector<measurement>& measured, const std::string& path) {
  codec_models found;
  for (const goal& g : goals) {
    const bool zvc = g.codec == std::string("zvc");
    const curve of = zvc ? curve{} : measured_curve(measured, g.codec, false, path);
    const bool lossy = g.codec == std::string("quantize");
    found[g.codec] = [=](uint64_t size, double zeros) {
      const double ratio = zvc ? zvc_with_raw_chunks(zeros) : 1 / between(of.zeros, of.frame, zeros);
      const double copy = static_cast<double>(size) * (1 + 1 / ratio) / on.copy_rate();
      return codec_estimate{ratio, copy / between({.6, .9}, {g.encode, g.sparse_encode}, zeros) + on.launch,
                            copy / between({.6, .9}, {g.decode, g.sparse_decode}, zeros) + on.launch, lossy};
    };
  }
  const curve of = measured_curve(measured, "deflate", false, path);
  const double scale = on.bytes_per_second / h200_bytes_per_second;
  found["deflate"] = [=](uint64_t size, double zeros) {
    const double raw = static_cast<double>(size) / scale;
    return codec_estimate{1 / between(of.zeros, of.frame, zeros), raw / deflate_encode + on.launch,
                          raw / deflate_decode + on.launch};
  };
  return found;
}

codec_models predicted_codecs(const std::string& path) {
  const std::set<std::string> wanted = {"zvc", "rle", "deflate", "quantize"};
  codec_models found;
  for (const fitted& f : load(path).codecs) {
    if (f.of.on.where != "gpu" || f.of.on.type != "f32" || f.of.on.pattern != "clustered" ||
        !wanted.contains(f.of.codec))
      continue;
    found[f.of.codec] = [f](uint64_t size, double zeros) {
      const auto e = f.model.at(size, zeros);
      return codec_estimate{e.ratio.value, e.encode.value, e.decode.value, f.of.lossy};
    };
  }
  if (!found.contains("zvc")) throw tools::file_error(path, "no zvc of clustered f32 on a GPU is in it");
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
  const double most = on.copy_rate() / std::max(on.link.d2h, on.link.h2d);
  return [most](uint64_t, double zeros) { return codec_estimate{std::min(zvc_ratio(zeros, 4), most)}; };
}

}  // namespace tuck::bench
