#include "bench/predict/predictor_file.hpp"

#include "bench/predict/json_file.hpp"

#include <cmath>
#include <map>
#include <set>

namespace tuck::bench {
namespace {

using nlohmann::ordered_json;
using regression = codec_predictor::regression;

constexpr const char* schema = "tuck-predictors/1";

struct part {
  const char* name;
  regression codec_predictor::* at;
};
constexpr part parts[] = {
    {"encode", &codec_predictor::encode}, {"decode", &codec_predictor::decode}, {"frame", &codec_predictor::frame}};

ordered_json as_json(const regression& r) {
  return {{"c", r.c}, {"covariance", r.covariance}, {"squares", r.squares}, {"count", r.count}};
}

ordered_json as_json(const predictor_file& file) {
  ordered_json codecs = ordered_json::array();
  for (const auto& [of, model] : file.codecs) {
    codecs.push_back({{"codec", of.codec},
                      {"type", of.on.type},
                      {"where", of.on.where},
                      {"pattern", of.on.pattern},
                      {"lossy", of.lossy}});
    for (const part& p : parts) codecs.back()[p.name] = as_json(model.*p.at);
  }
  return {{"schema", schema}, {"environment", file.environment}, {"codecs", codecs}};
}

// nlohmann_json takes an array that is too long.
template <class T, size_t N> void get_exactly(const ordered_json& from, std::array<T, N>& to) {
  if (!from.is_array() || from.size() != N) throw std::domain_error("not " + std::to_string(N) + " coefficients");
  if constexpr (std::is_same_v<T, double>)
    to = from.get<std::array<T, N>>();
  else
    for (size_t i = 0; i < N; ++i) get_exactly(from[i], to[i]);
}

regression regression_of(const ordered_json& from) {
  regression r;
  get_exactly(from.at("c"), r.c);
  get_exactly(from.at("covariance"), r.covariance);
  r.squares = from.at("squares");
  r.count = from.at("count");
  bool sane = std::isfinite(r.squares) && std::isfinite(r.count) && r.squares >= 0 && r.count >= 0;
  for (size_t i = 0; i < r.c.size(); ++i) {
    sane = sane && std::isfinite(r.c[i]) && r.covariance[i][i] >= 0;
    for (const double v : r.covariance[i]) sane = sane && std::isfinite(v);
  }
  if (!sane) throw std::domain_error("figures that no fit has");
  return r;
}

fitted fitted_of(const ordered_json& from) {
  fitted one{{{from.at("where"), from.at("type"), from.at("pattern")}, from.at("codec"), from.at("lossy")}, {}};
  for (const part& p : parts) {
    try {
      one.model.*p.at = regression_of(from.at(p.name));
    } catch (const std::domain_error& error) {
      throw std::domain_error(std::string(p.name) + ": " + error.what());
    }
  }
  return one;
}

predictor_file of_json(const ordered_json& file, const std::string& path) {
  size_t number = 0;
  try {
    predictor_file found{file.at("environment"), {}};
    std::set<coder_key> names;
    for (const ordered_json& one : file.at("codecs")) {
      ++number;
      found.codecs.push_back(fitted_of(one));
      if (!names.insert(found.codecs.back().of).second) throw std::domain_error("it is there twice");
    }
    return found;
  } catch (const nlohmann::json::exception& error) {
    throw tools::file_error(path, (number == 0 ? "" : "codec " + std::to_string(number) + ": ") + reason_of(error));
  } catch (const std::domain_error& error) {
    throw tools::file_error(path, "codec " + std::to_string(number) + ": " + error.what());
  }
}

}  // namespace

std::vector<fitted> fit(const std::vector<measurement>& measured) {
  std::map<coder_key, codec_predictor> models;
  for (const measurement& m : measured) models[m.of].add(m.size, m.zeros, m.encode, m.decode, m.ratio);
  std::vector<fitted> found;
  for (const auto& [of, model] : models)
    if (model.encode.count > static_cast<double>(model.encode.c.size())) found.push_back({of, model});
  return found;
}

void save(const std::string& path, const predictor_file& file) {
  const ordered_json json = as_json(file);
  of_json(json, path);  // what could not be read again is not written
  const std::string text = json.dump(1) + "\n";
  tools::output_file out(path);
  out.write(tools::bytes_of(text));
  out.commit();
}

predictor_file load(const std::string& path) { return of_json(read_json(path, schema), path); }

}  // namespace tuck::bench
