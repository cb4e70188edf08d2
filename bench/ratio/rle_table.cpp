#include "bench/support/run_models.hpp"

#include "coders.hpp"
#include "frame_bytes.hpp"

#include <cstdio>
#include <cstring>

namespace tuck::bench {
namespace {

struct by_zvc {
  static constexpr const char* name = "zvc";
  template <class T> static double bytes(span<const T> values) { return frame_bytes(zvc<T>{}, values); }
};
struct by_pairs {
  static constexpr const char* name = "pairs (value, u8)";
  template <class T> static double bytes(span<const T> values) {
    return frame_bytes(size_of_model<pairs, T>{}, values);
  }
};
struct by_zero_runs {
  static constexpr const char* name = "zero runs u8";
  template <class T> static double bytes(span<const T> values) {
    return frame_bytes(size_of_model<zero_runs, T>{}, values);
  }
};
struct by_heads {
  static constexpr const char* name = "one-level heads";
  template <class T> static double bytes(span<const T> values) {
    return frame_bytes(size_of_model<one_level_heads, T>{}, values);
  }
};
struct by_rle {
  static constexpr const char* name = "rle";
  template <class T> static double bytes(span<const T> values) { return rle_bytes(values); }
};
struct by_rle_zero {
  static constexpr const char* name = "rle-zero";
  template <class T> static double bytes(span<const T> values) { return rle_zero_bytes(values); }
};

template <class Coder, class T> double ratio(span<const T> values) {
  const double bytes = Coder::bytes(values);
  return bytes == 0 ? 0 : static_cast<double>(values.size_bytes()) / bytes;
}

template <class Coder> std::string recorded_text(const data_set& set) {
  std::vector<double> ratios;
  for (const tensor& t : set.tensors) {
    std::vector<uint32_t> bits(t.values.size());
    std::memcpy(bits.data(), t.values.data(), bits.size() * sizeof(uint32_t));
    ratios.push_back(ratio<Coder, uint32_t>(bits));
    if (ratios.back() == 0) return "-";
  }
  return ratio_text(geometric_mean(ratios));
}

// One kind of tensor in elements of 1, 2 and 4 bytes.
struct column {
  const char* title;
  std::vector<uint8_t> bytes;
  std::vector<uint16_t> halves;
  std::vector<uint32_t> words;
};

template <class Make> column made(const char* title, const Make& make) {
  return {
    title,
    make.template operator()<uint8_t>(),
    make.template operator()<uint16_t>(),
    make.template operator()<uint32_t>()
  };
}

constexpr uint64_t count = 1 << 20;

std::vector<column> columns() {
  return {made("iid s=.8", []<class T>() { return iid<T>(count, 0.8); }),
          made("iid s=.93", []<class T>() { return iid<T>(count, 0.93); }),
          made("clustered s=.93", []<class T>() { return clustered<T>(count, 0.93); }),
          made("runs of 500", []<class T>() { return equal_runs<T>(count, 500); })};
}

template <class Coder> std::string column_text(const column& c) {
  const std::string first = ratio_text(ratio<Coder, uint8_t>(c.bytes));
  if (first == "-") return first;
  return first + "/" + ratio_text(ratio<Coder, uint16_t>(c.halves)) + "/" + ratio_text(ratio<Coder, uint32_t>(c.words));
}

template <class Coder> void print_row(const data_set& recorded, const std::vector<column>& all) {
  show_progress(Coder::name);
  std::string line = recorded_text<Coder>(recorded);
  char text[128];
  std::snprintf(text, sizeof text, "  %-18s%13s", Coder::name, line.c_str());
  line = text;
  for (const column& c : all) {
    std::snprintf(text, sizeof text, "%16s", column_text<Coder>(c).c_str());
    line += text;
  }
  show_progress("");
  std::printf("%s\n", line.c_str());
}

}  // namespace

void print_rle_table(const data_set& recorded) {
  show_progress("tensors for the RLE table");
  const std::vector<column> all = columns();
  show_progress("");
  std::printf("Run-length coding: ratios of whole frames, payloads aligned to 32 bytes, elements of 1/2/4 bytes;\n");
  std::printf("recorded ones: f32, geometric mean. The second to the fourth row are models of sizes.\n\n");
  std::printf("  %-18s%13s", "", "recorded ReLU");
  for (const column& c : all) std::printf("%16s", c.title);
  std::printf("\n");
  print_row<by_zvc>(recorded, all);
  print_row<by_pairs>(recorded, all);
  print_row<by_zero_runs>(recorded, all);
  print_row<by_heads>(recorded, all);
  print_row<by_rle>(recorded, all);
  print_row<by_rle_zero>(recorded, all);
}

}  // namespace tuck::bench
