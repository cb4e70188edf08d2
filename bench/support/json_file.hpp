// JSON files that others wrote: what is wrong with one is a file_error.
#pragma once

#include "support/files.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace tuck::bench {

// What nlohmann_json complains of, without the name of its exception.
inline std::string reason_of(const nlohmann::json::exception& error) {
  const std::string text = error.what();
  const size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

inline nlohmann::ordered_json read_json(const std::string& path, const std::string& schema) {
  const tools::byte_buffer content = tools::read_file(path);
  const auto* begin = reinterpret_cast<const char*>(content.all().data());
  nlohmann::ordered_json file;
  try {
    file = nlohmann::ordered_json::parse(begin, begin + content.size());
  } catch (const nlohmann::json::exception& error) {
    throw tools::file_error(path, "not JSON: " + reason_of(error));
  }
  const auto found = file.is_object() && file.contains("schema") ? file["schema"] : nlohmann::ordered_json();
  if (found != schema)
    throw tools::file_error(
        path, "its schema is " + (found.is_string() ? found.get<std::string>() : "missing") + " instead of " + schema);
  return file;
}

}  // namespace tuck::bench
