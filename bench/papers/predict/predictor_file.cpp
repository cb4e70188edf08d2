#include "bench/papers/predict/predictor_file.hpp"

#include "support/files.hpp"

#include <charconv>
#include <cmath>
#include <map>
#include <sstream>

namespace tuck::bench {
namespace {

template <class... Numbers> void put(std::string& to, const char* name, const Numbers&... numbers) {
  to += name;
  const auto one = [&](auto number) {
    char text[32];
    to += ' ';
    to.append(text, std::to_chars(text, text + sizeof text, number).ptr);
  };
  (one(numbers), ...);
}

template <size_t N> void put_part(std::string& to, const char* name, const tensor_regression<N>& part) {
  to += name;
  put(to, " count", part.count);
  put(to, " used", part.used);
  put(to, " squares", part.squares);
  put(to, " bytes", part.least_bytes, part.most_bytes);
  put(to, " zeros", part.least_zeros, part.most_zeros);
  put(to, " least", part.least);
  to += " c";
  for (const double c : part.c) put(to, "", c);
  to += " covariance";
  for (size_t i = 0; i < N; ++i)
    for (size_t j = 0; j <= i; ++j) put(to, "", part.covariance[i][j]);
  to += '\n';
}

std::string as_text(const predictor_file& file) {
  std::string text = "tuck-predictors/2\nenvironment " + file.environment.dump() + "\n";
  put(text, "codecs", file.codecs.size());
  text += '\n';
  for (const auto& [of, model] : file.codecs) {
    text += "codec " + of.codec + " " + of.on.type + " " + of.on.where + " " + of.on.pattern +
            (of.lossy ? " lossy\n" : " lossless\n");
    put_part(text, "encode", model.encode);
    put_part(text, "decode", model.decode);
    put_part(text, "frame", model.frame);
  }
  return text;
}

}  // namespace

std::vector<fitted> fit(const std::vector<measurement>& measured) {
  std::map<coder_key, codec_predictor> models;
  for (const measurement& m : measured) models[m.of].add(m.size, m.zeros, m.encode, m.decode, m.ratio);
  std::vector<fitted> found;
  for (const auto& [of, model] : models)
    if (model.encode.freedom() > 0) found.push_back({of, model});
  return found;
}

nlohmann::ordered_json worst_residual(const fitted& one, const std::vector<measurement>& measured) {
  nlohmann::ordered_json worst;
  double most = 0;
  const auto look_at = [&](const char* operation, const measurement& m, double factor) {
    if (std::abs(std::log(factor)) < most) return;
    most = std::abs(std::log(factor));
    worst = as_json(m.of);
    worst.update({{"operation", operation}, {"bytes", m.size}, {"zeros", m.zeros}, {"factor", factor}});
  };
  for (const measurement& m : measured) {
    if (m.of != one.of) continue;
    const auto e = one.model.at(m.size, m.zeros);
    look_at("encode", m, e.encode.value / m.encode);
    look_at("decode", m, e.decode.value / m.decode);
  }
  return worst;
}

void save(const std::string& path, const predictor_file& file) {
  const std::string text = as_text(file);
  std::istringstream again(text);  // what could not be read again is not written
  read_predictors(again, path);
  tools::output_file out(path);
  out.write(tools::bytes_of(text));
  out.commit();
}

predictor_file load(const std::string& path) {
  const saved_predictors found = read_predictors(path);
  predictor_file file{nlohmann::ordered_json::parse(found.environment, nullptr, false), {}};
  for (const saved_predictor& one : found.codecs)
    file.codecs.push_back({{{one.where, one.type, one.pattern}, one.codec, one.lossy}, one.predictor});
  return file;
}

}  // namespace tuck::bench
