// JSON files: what is wrong with one that others wrote is a file_error.
#pragma once

#include "support/files.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <stdexcept>
#include <string>

namespace tuck::bench {

using nlohmann::ordered_json;

// What nlohmann_json complains of, without the name of its exception; of others, what they say.
inline std::string reason_of(const std::exception& error) {
  const std::string text = error.what();
  const size_t end = dynamic_cast<const nlohmann::json::exception*>(&error) == nullptr ? text.npos : text.find("] ");
  return end == text.npos ? text : text.substr(end + 2);
}

// What `read` makes of a file of that schema. It may throw nlohmann's exceptions and std::domain_error.
template <class Read> auto read_json(const std::string& path, const std::string& schema, const Read& read) {
  const tools::byte_buffer content = tools::read_file(path);
  const auto* begin = reinterpret_cast<const char*>(content.all().data());
  ordered_json file;
  try {
    file = ordered_json::parse(begin, begin + content.size());
  } catch (const nlohmann::json::exception& error) {
    throw tools::file_error(path, "not JSON: " + reason_of(error));
  }
  const auto found = file.is_object() && file.contains("schema") ? file["schema"] : ordered_json();
  if (found != schema)
    throw tools::file_error(
        path, "its schema is " + (found.is_string() ? found.get<std::string>() : "missing") + " instead of " + schema);
  try {
    return read(file);
  } catch (const nlohmann::json::exception& error) {
    throw tools::file_error(path, reason_of(error));
  } catch (const std::domain_error& error) {
    throw tools::file_error(path, error.what());
  }
}

// read(row) of each, in order; a complaint of it names the row, from 1 on.
template <class Read> void read_rows(const ordered_json& rows, const std::string& what, const Read& read) {
  size_t number = 0;
  for (const ordered_json& row : rows) {
    ++number;
    try {
      read(row);
    } catch (const std::exception& error) {
      throw std::domain_error(what + " " + std::to_string(number) + ": " + reason_of(error));
    }
  }
}

// Of a row's: from least to most.
inline double number_of(const ordered_json& of, const char* key, double least, double most) {
  const double value = of.at(key);
  if (!(value >= least && value <= most && std::isfinite(value)))
    throw std::domain_error(std::string(key) + " is " + of.at(key).dump() + ", which cannot be");
  return value;
}
inline double above_0(const ordered_json& of, const char* key) { return number_of(of, key, 5e-324, 1.7e308); }

// The file is written entirely or not at all. Throws tools::file_error.
inline void write_json(const std::string& path, const ordered_json& file) {
  tools::output_file out(path);
  out.write(tools::bytes_of(file.dump(1) + "\n"));
  out.commit();
}

}  // namespace tuck::bench
