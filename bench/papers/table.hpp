// Rows of JSON as a table of text.
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace tuck::bench {

struct column {
  std::string title;
  const char* at;    // a JSON pointer in each row: "/encode/median_error"
  int digits = 0;    // of numbers, behind the point
  double times = 1;  // what numbers are multiplied by: 100 for percent
};

// Each column is as wide as it has to be: text to the left, numbers to the right, "-" for what a row lacks.
inline void print_table(const nlohmann::ordered_json& rows, const std::vector<column>& columns) {
  std::vector<std::string> lines(rows.size() + 1);
  for (const column& c : columns) {
    std::vector<std::string> cells{c.title};
    bool text = false;
    for (const auto& row : rows) {
      const auto value = row.value(nlohmann::ordered_json::json_pointer(c.at), nlohmann::ordered_json());
      text |= value.is_string();
      char number[64] = "-";
      if (value.is_number()) std::snprintf(number, sizeof number, "%.*f", c.digits, c.times * value.get<double>());
      cells.push_back(value.is_string() ? value.get<std::string>() : number);
    }
    size_t width = 0;
    for (const std::string& cell : cells) width = std::max(width, cell.size());
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string blank(width - cells[i].size(), ' ');
      lines[i] += "  " + (text ? cells[i] + blank : blank + cells[i]);
    }
  }
  for (const std::string& line : lines) std::puts(line.substr(0, line.find_last_not_of(' ') + 1).c_str());
}

}  // namespace tuck::bench
