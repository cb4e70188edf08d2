#include "bench/papers/tuner/surface.hpp"

#include "bench/support/json_file.hpp"

#include <algorithm>

namespace tuck::bench {
namespace {

template <class T> std::vector<T> axis_of(const ordered_json& file, const char* name) {
  std::vector<T> values;
  for (const ordered_json& v : file.at(name)) {
    if (!v.is_number_unsigned() || v.get<uint64_t>() - 1 >= uint64_t{0xffffffff})
      throw std::domain_error(std::string(name) + ": " + v.dump() + " is no value of a launch option");
    values.push_back(v.get<T>());
  }
  std::vector<T> once = values;
  std::sort(once.begin(), once.end());
  if (values.empty() || std::adjacent_find(once.begin(), once.end()) != once.end())
    throw std::domain_error(std::string(name) + ": no values, or one is there twice");
  return values;
}

surface surface_of(const ordered_json& file) {
  surface s{.name = file.at("name"),
            .space = {axis_of<unsigned>(file, "blocks"), axis_of<unsigned>(file, "threads"),
                      axis_of<uint32_t>(file, "chunk_bytes")},
            .description = file};
  s.description.erase("seconds");
  const ordered_json& expert = file.at("expert");
  s.expert = s.number_of({expert.at("blocks"), expert.at("threads"), expert.at("chunk_bytes")});
  if (s.expert == s.space.size()) throw std::domain_error("expert: no combination of the values");
  read_rows(file.at("seconds"), "combination", [&](const ordered_json& row) {
    std::vector<double> runs = row;
    s.runs.push_back(runs);
    std::sort(runs.begin(), runs.end());
    if (runs.empty() || !(runs[0] > 0)) throw std::domain_error("no runs, or a time that is not above 0");
    s.truth.push_back((runs[(runs.size() - 1) / 2] + runs[runs.size() / 2]) / 2);
  });
  if (s.runs.size() != s.space.size())
    throw std::domain_error("seconds of " + std::to_string(s.runs.size()) + " combinations instead of " +
                            std::to_string(s.space.size()));
  return s;
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

surface load(const std::string& path) { return read_json(path, "tuck-surface/1", surface_of); }

}  // namespace tuck::bench
