#include "bench/papers/tuner/surface.hpp"

#include "bench/support/json_file.hpp"
#include "bench/support/random.hpp"

#include <algorithm>
#include <cstdio>

namespace tuck::bench {
namespace {

using nlohmann::ordered_json;

constexpr const char* schema = "tuck-surface/1";

template <class T> std::vector<T> axis_of(const ordered_json& file, const char* name) {
  std::vector<T> values;
  for (const ordered_json& v : file.at(name)) {
    if (!v.is_number_unsigned() || v.get<uint64_t>() - 1 >= uint64_t{0xffffffff})
      throw std::domain_error(std::string(name) + ": " + v.dump() + " is no value of a launch option");
    values.push_back(v.get<T>());
  }
  if (values.empty()) throw std::domain_error(std::string(name) + ": no values");
  std::vector<T> once = values;
  std::sort(once.begin(), once.end());
  if (std::adjacent_find(once.begin(), once.end()) != once.end())
    throw std::domain_error(std::string(name) + ": a value is there twice");
  return values;
}

std::vector<double> runs_of(const ordered_json& row) {
  auto runs = row.get<std::vector<double>>();
  if (runs.empty()) throw std::domain_error("no runs");
  for (const double v : runs)
    if (!(v > 0 && std::isfinite(v))) throw std::domain_error("a time is not above 0");
  return runs;
}

surface of_json(const ordered_json& file, const std::string& path) {
  size_t row = 0;
  try {
    surface s{.name = file.at("name"),
              .space = {axis_of<unsigned>(file, "blocks"), axis_of<unsigned>(file, "threads"),
                        axis_of<uint32_t>(file, "chunk_bytes")},
              .description = file};
    s.description.erase("seconds");
    const ordered_json& expert = file.at("expert");
    s.expert = s.number_of({expert.at("blocks"), expert.at("threads"), expert.at("chunk_bytes")});
    if (s.expert == s.space.size()) throw std::domain_error("expert: no combination of the values");
    for (const ordered_json& runs : file.at("seconds")) {
      ++row;
      s.runs.push_back(runs_of(runs));
      s.truth.push_back(median(s.runs.back()));
    }
    row = 0;
    if (s.runs.size() != s.space.size())
      throw std::domain_error("seconds of " + std::to_string(s.runs.size()) + " combinations instead of " +
                              std::to_string(s.space.size()));
    return s;
  } catch (const std::exception& error) {  // of JSON, and of our own
    const auto* const of_json = dynamic_cast<const nlohmann::json::exception*>(&error);
    throw tools::file_error(path, (row == 0 ? "" : "combination " + std::to_string(row) + ": ") +
                                      (of_json != nullptr ? reason_of(*of_json) : error.what()));
  }
}

}  // namespace

size_t surface::best() const {
  return static_cast<size_t>(std::min_element(truth.begin(), truth.end()) - truth.begin());
}

size_t surface::number_of(const launch_point& p) const {
  size_t i = 0;
  while (i < space.size() && !(space[i] == p)) ++i;
  return i;
}

std::vector<std::vector<double>> record(const launch_space& space, const launch_timer& seconds, size_t expert,
                                        unsigned runs, const std::function<void()>& done) {
  struct run {
    size_t point;
    double share;  // of what its reference takes at that moment
  };
  std::vector<run> all;
  std::vector<std::vector<double>> references(space.threads.size());
  std::vector<size_t> order(space.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto threads_of = [&](size_t i) { return i / space.blocks.size() % space.threads.size(); };
  generator random(1);
  for (unsigned pass = 0; pass <= runs; ++pass) {
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[below(random, i)]);
    for (const size_t i : order) {
      launch_point reference = space[expert];
      reference.threads = space[i].threads;
      const double before = seconds(reference), took = seconds(space[i]), after = seconds(reference);
      if (pass != 0) {
        all.push_back({i, took / ((before + after) / 2)});
        references[threads_of(i)].insert(references[threads_of(i)].end(), {before, after});
      }
      done();
    }
  }
  std::vector<double> usual;
  for (const auto& of_one : references) usual.push_back(of_one.empty() ? 0 : median(of_one));
  std::vector<std::vector<double>> answer(space.size());
  for (const run& r : all) answer[r.point].push_back(r.share * usual[threads_of(r.point)]);
  return answer;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

double spread(const surface& recorded) {
  std::vector<double> off;
  for (size_t i = 0; i < recorded.runs.size(); ++i)
    for (const double v : recorded.runs[i]) off.push_back(std::fabs(v / recorded.truth[i] - 1));
  return off.empty() ? 0 : median(off);
}

size_t nearest(const launch_space& space, const launch_point& wanted) {
  const auto off = [](double a, double b) { return std::fabs(std::log(a / b)); };
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < space.size(); ++i) {
    const launch_point p = space[i];
    const double distance =
        off(p.blocks, wanted.blocks) + off(p.threads, wanted.threads) + off(p.chunk_bytes, wanted.chunk_bytes);
    if (distance >= least) continue;
    least = distance;
    best = i;
  }
  return best;
}

void save(const std::string& path, const surface& recorded) {
  const launch_point expert = recorded.space[recorded.expert];
  ordered_json file{{"schema", schema}, {"name", recorded.name}};
  file.update(recorded.description);
  file.update(
      {{"expert", {{"blocks", expert.blocks}, {"threads", expert.threads}, {"chunk_bytes", expert.chunk_bytes}}},
       {"blocks", recorded.space.blocks},
       {"threads", recorded.space.threads},
       {"chunk_bytes", recorded.space.chunk_bytes}});
  std::string text = "{";
  for (const auto& [key, value] : file.items()) text += "\"" + key + "\": " + value.dump() + ",\n";
  text += "\"seconds\": [";
  for (size_t i = 0; i < recorded.runs.size(); ++i) {
    text += i == 0 ? "\n[" : ",\n[";
    for (size_t k = 0; k < recorded.runs[i].size(); ++k) {
      char number[32];
      std::snprintf(number, sizeof number, "%s%.4g", k == 0 ? "" : ",", recorded.runs[i][k]);
      text += number;
    }
    text += "]";
  }
  text += "\n]}\n";
  of_json(ordered_json::parse(text), path);  // what could not be read again is not written
  tools::output_file out(path);
  out.write(tools::bytes_of(text));
  out.commit();
}

surface load(const std::string& path) { return of_json(read_json(path, schema), path); }

}  // namespace tuck::bench
