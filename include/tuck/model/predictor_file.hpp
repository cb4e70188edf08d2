// SPDX-License-Identifier: Apache-2.0
// Reads the predictors that `bench_predict fit` writes. A file is text, a line each of
//
//   tuck-predictors/2
//   environment <the machine, as JSON>
//   codecs <how many follow>
//   codec <name> <type> <where> <pattern> <lossy or lossless>
//   encode count <1> used <1> squares <1> bytes <2> zeros <2> least <1> c <7> covariance <28>
//   decode ...
//   frame ... c <3> covariance <6>
//
// and the last four again for each codec. A name is followed by so many numbers: of bytes and zeros the least and the
// most, of the covariance the lower triangle. Numbers come back bit by bit.
#pragma once

#include <tuck/model/predictor.hpp>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace tuck::inline TUCK_ABI {

/// A predictor, and what it was fitted on.
struct saved_predictor {
  std::string codec,               ///< name of the codec, as "zvc+huffman"
      type,                        ///< element type, as "f32"
      where,                       ///< "host" or "gpu"
      pattern;                     ///< of the tensors, as "recorded"
  bool lossy = false;              ///< whether the codec changes values
  codec_predictor predictor = {};  ///< the predictor
};

/// What a file of predictors has.
struct saved_predictors {
  std::string environment;              ///< the machine that was measured, as JSON
  std::vector<saved_predictor> codecs;  ///< in the order of the file
};

namespace detail {

// The lines of a file of predictors, word by word. Complains of file, line and field.
class predictor_lines {
 public:
  predictor_lines(std::istream& file, const std::string& path) : file_(file), path_(path) {}

  // Goes on to the next line; false at the end.
  bool next() {
    field_.clear();
    ++number_;
    if (!std::getline(file_, line_)) return false;
    left_ = line_;
    return true;
  }
  // Goes on to the next line, which begins with `name`.
  void next(std::string_view name) {
    if (!next()) fail("the file ends where a line \"" + std::string(name) + "\" is due");
    expect(name);
  }

  std::string next_word(std::string_view field) {
    field_ = field;
    const size_t end = (std::min)(left_.find(' '), left_.size());
    std::string found(left_.substr(0, end));
    left_.remove_prefix((std::min)(end + 1, left_.size()));
    if (found.empty()) fail("is missing");
    return found;
  }
  void expect(std::string_view name) {
    if (const std::string found = next_word(name); found != name) fail("is due, not \"" + found.substr(0, 40) + "\"");
  }
  std::string rest() { return std::string(left_); }
  void end() {
    field_.clear();
    if (!left_.empty()) fail("more than there should be: \"" + std::string(left_.substr(0, 40)) + "\"");
  }

  // A finite number that is not below `least`.
  template <class Number = double> Number number(double least = -(std::numeric_limits<double>::max)()) {
    const std::string text = next_word(std::string(field_));
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) fail("\"" + text.substr(0, 40) + "\" is no number");
    if (!std::isfinite(static_cast<double>(value)) || static_cast<double>(value) < least)
      fail(text.substr(0, 40) + " is out of range");
    return value;
  }

  [[noreturn]] void fail(const std::string& reason) const {
    detail::raise(std::runtime_error(path_ + ": line " + std::to_string(number_) + ": " +
                                     (field_.empty() ? "" : field_ + ": ") + reason));
  }

 private:
  std::istream& file_;
  std::string path_, line_, field_;
  std::string_view left_;
  size_t number_ = 0;
};

template <size_t N> void read_part(predictor_lines& in, std::string_view name, tensor_regression<N>& to) {
  in.next(name);
  in.expect("count");
  to.count = in.number(0);
  in.expect("used");
  to.used = in.number<uint64_t>();
  if (to.used >> N != 0) in.fail("there are " + std::to_string(N) + " coefficients");
  in.expect("squares");
  to.squares = in.number(0);
  in.expect("bytes");
  to.least_bytes = in.number(0);
  to.most_bytes = in.number(to.least_bytes);
  in.expect("zeros");
  to.least_zeros = in.number(0);
  to.most_zeros = in.number(to.least_zeros);
  if (to.most_zeros > 1) in.fail("a share of zeros is at most 1");
  in.expect("least");
  to.least = in.number(0);
  in.expect("c");
  for (double& c : to.c) c = in.number();
  in.expect("covariance");
  for (size_t i = 0; i < N; ++i)
    for (size_t j = 0; j <= i; ++j) to.covariance[i][j] = to.covariance[j][i] = i == j ? in.number(0) : in.number();
  in.end();
}

}  // namespace detail

/// Reads what `bench_predict fit` wrote. Throws std::runtime_error that names the line and the field that are wrong.
/// @param path name of the file in messages
inline saved_predictors read_predictors(std::istream& file, const std::string& path) {
  detail::predictor_lines in(file, path);
  saved_predictors found;
  in.next("tuck-predictors/2");
  in.next("environment");
  found.environment = in.rest();
  in.next("codecs");
  for (auto left = in.number<uint64_t>(); left != 0; --left) {
    in.next("codec");
    saved_predictor one{
        in.next_word("name"), in.next_word("type"), in.next_word("where"), in.next_word("pattern"), false, {}};
    const std::string loss = in.next_word("lossy or lossless");
    if (loss != "lossy" && loss != "lossless") in.fail("is \"" + loss + "\"");
    one.lossy = loss == "lossy";
    in.end();
    for (const saved_predictor& other : found.codecs)
      if (other.codec == one.codec && other.type == one.type && other.where == one.where &&
          other.pattern == one.pattern && other.lossy == one.lossy)
        in.fail(one.codec + " of such tensors is there twice");
    detail::read_part(in, "encode", one.predictor.encode);
    detail::read_part(in, "decode", one.predictor.decode);
    detail::read_part(in, "frame", one.predictor.frame);
    found.codecs.push_back(one);
  }
  if (in.next()) in.fail("is more than there should be");
  return found;
}
/// Reads the file of that path.
inline saved_predictors read_predictors(const std::string& path) {
  std::ifstream file(path);
  if (!file) detail::raise(std::system_error(errno, std::generic_category(), path));
  return read_predictors(file, path);
}

}  // namespace tuck::inline TUCK_ABI
