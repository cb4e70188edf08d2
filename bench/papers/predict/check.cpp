#include "bench/papers/predict/check.hpp"

#include "bench/papers/predict/predictor_file.hpp"

#include <tuck/model/advisor.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

namespace tuck::bench {
namespace {

using nlohmann::ordered_json;

// What is held out: all codecs of a tensor, so that no codec's time tells another's.
struct tensor_point {
  tensor_kind on;
  uint64_t size = 0;
  double sparsity = 0;
  auto operator<=>(const tensor_point&) const = default;
};
tensor_point point_of(const measurement& m) { return {m.of.on, m.size, m.sparsity}; }

struct split {
  std::vector<measurement> known, held_out;
};

split split_of(const std::vector<measurement>& all, double share, uint64_t seed) {
  std::map<tensor_kind, std::set<tensor_point>> kinds;
  for (const measurement& m : all) kinds[m.of.on].insert(point_of(m));
  std::mt19937_64 random(seed);
  std::set<tensor_point> out;
  for (const auto& [kind, points] : kinds) {
    std::vector<tensor_point> order(points.begin(), points.end());
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);  // the same everywhere
    const auto n = static_cast<size_t>(std::lround(share * static_cast<double>(order.size())));
    out.insert(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n));
  }
  split parts;
  for (const measurement& m : all) (out.contains(point_of(m)) ? parts.held_out : parts.known).push_back(m);
  return parts;
}

// What was predicted of one held-out row.
struct forecast {
  const measurement* measured = nullptr;
  codec_predictor::estimate predicted;

  codec_estimate by_measurement() const {
    return {measured->ratio, measured->encode, measured->decode, measured->of.lossy};
  }
  // Not to be chosen where a figure may as well be nothing, or twice as much.
  codec_estimate by_prediction() const {
    const auto& [encode, decode, ratio] = predicted;
    const bool sure = encode.sure() && decode.sure() && ratio.sure();
    return {ratio.value, sure ? encode.value : INFINITY, decode.value, measured->of.lossy};
  }
};

std::vector<forecast> forecasts_of(const split& parts) {
  std::map<coder_key, codec_predictor> models;
  for (const auto& [of, model] : fit(parts.known)) models[of] = model;
  std::vector<forecast> all;
  for (const measurement& m : parts.held_out)
    if (const auto found = models.find(m.of); found != models.end())
      all.push_back({&m, found->second.at(m.size, m.zeros)});
  return all;
}

class errors {
 public:
  // Predictions without a deviation are refusals.
  void add(const prediction& p, double measured) {
    ++asked_;
    if (!std::isfinite(p.deviation)) return;
    relative_.push_back(std::abs(p.value / measured - 1));
    within_ += std::abs(p.value - measured) <= 2 * p.deviation;
  }
  size_t asked() const { return asked_; }
  ordered_json row() {
    std::sort(relative_.begin(), relative_.end());
    const auto count = static_cast<double>(relative_.size());
    const auto at = [&](double share) {
      return count > 0 ? relative_[static_cast<size_t>(std::ceil(share * count)) - 1] : 0;
    };
    return {{"median_error", at(.5)},
            {"p90_error", at(.9)},
            {"within_two_deviations", count > 0 ? static_cast<double>(within_) / count : 0},
            {"refused", 1 - count / static_cast<double>(asked_)}};
  }

 private:
  std::vector<double> relative_;
  size_t within_ = 0, asked_ = 0;
};

// Decisions of one question, as they are counted together.
class tally {
 public:
  // One tensor, and the codecs that there are for it.
  void add(const std::vector<forecast>& codecs, const link_rates& link) {
    const swap_profile tensor{.bytes = codecs.front().measured->size};
    std::vector<codec_estimate> measured, predicted;
    for (const forecast& f : codecs) {
      measured.push_back(f.by_measurement());
      predicted.push_back(f.by_prediction());
    }
    const swap_decision best = choose(tensor, link, measured), chosen = choose(tensor, link, predicted);
    const auto name = [&](const swap_decision& d) {
      return d.how == swap_decision::mode::encode ? codecs[d.codec].measured->of.codec : std::string();
    };
    const double cost =
        chosen.how == swap_decision::mode::encode ? encoded_cost(tensor, link, measured[chosen.codec]) : best.raw_cost;
    ++points_;
    right_ += name(best) == name(chosen);
    regret_ += cost / best.cost - 1;
    regret_of_raw_ += best.raw_cost / best.cost - 1;
    ++best_ways_[name(best)];
  }

  ordered_json row(const std::string& where, const std::string& among, double gb_per_s) const {
    size_t most = 0;
    for (const auto& [name, count] : best_ways_) most = std::max(most, count);
    const auto n = static_cast<double>(points_);
    return {{"where", where},
            {"among", among},
            {"link_gb_per_s", gb_per_s},
            {"points", points_},
            {"right", static_cast<double>(right_) / n},
            {"commonest", static_cast<double>(most) / n},
            {"regret", regret_ / n},
            {"regret_of_raw", regret_of_raw_ / n}};
  }

 private:
  size_t points_ = 0, right_ = 0;
  double regret_ = 0, regret_of_raw_ = 0;
  std::map<std::string, size_t> best_ways_;
};

using questions = std::map<std::tuple<std::string, std::string, double>, tally>;

void decide(questions& to, const std::vector<forecast>& forecasts, const std::vector<double>& links) {
  std::map<std::pair<tensor_point, size_t>, std::vector<forecast>> tensors;
  for (const forecast& f : forecasts)
    if (!f.measured->of.lossy) tensors[{point_of(*f.measured), f.measured->file}].push_back(f);
  for (const auto& [at, codecs] : tensors) {
    const std::string& where = at.first.on.where;
    for (const double gb_per_s : links.empty() ? default_links(where) : links) {
      const link_rates link{gb_per_s * 1e9, gb_per_s * 1e9};
      if (codecs.size() > 1) to[{where, "all", gb_per_s}].add(codecs, link);
      for (const forecast& f : codecs)
        if (f.measured->of.codec == "zvc") to[{where, "zvc", gb_per_s}].add({f}, link);
    }
  }
}

}  // namespace

std::vector<double> default_links(const std::string& where) {
  return where == "host" ? std::vector{.1, .3, 1., 1.25, 3., 6., 12.} : std::vector{12.8, 25.6, 32., 64.};
}

ordered_json check(const std::vector<measurement>& measured, const check_options& options) {
  std::map<coder_key, std::array<errors, 3>> codecs;
  questions asked;
  for (unsigned i = 0; i < options.splits; ++i) {
    const split parts = split_of(measured, options.hold_out, options.seed + i);
    const std::vector<forecast> forecasts = forecasts_of(parts);
    for (const auto& [m, p] : forecasts) {
      auto& [encode, decode, ratio] = codecs[m->of];
      encode.add(p.encode, m->encode);
      decode.add(p.decode, m->decode);
      ratio.add(p.ratio, m->ratio);
    }
    decide(asked, forecasts, options.gb_per_s);
  }
  auto rows = ordered_json::array(), decisions = rows;
  for (auto& [of, e] : codecs) {
    rows.push_back(as_json(of));
    rows.back().update(
        {{"points", e[0].asked()}, {"encode", e[0].row()}, {"decode", e[1].row()}, {"ratio", e[2].row()}});
  }
  for (const auto& [question, answers] : asked) {
    const auto& [where, among, gb_per_s] = question;
    decisions.push_back(answers.row(where, among, gb_per_s));
  }
  return {{"codecs", rows}, {"decisions", decisions}};
}

}  // namespace tuck::bench
