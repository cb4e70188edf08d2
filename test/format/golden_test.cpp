// The frames of version 1.0.0, in golden/. Encoding must give these bytes as long as the format has its version.
// Decoding must always give these values, on the host and on the device. values.txt has digests of the restored values.
//
// The files are frozen: golden.sha256 lists them, and the test format.frozen compares. If a codec has to write other
// bytes, its stage gets another version, and these frames are still read. Frames of later codecs get another folder.
// `golden_test --write FOLDER` writes the frames of all cases.
#include "format/golden_cases.hpp"
#include "support/bounds.hpp"
#include "support/codec_list.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace tuck::test {
namespace {

namespace fs = std::filesystem;
using byte_vector = std::vector<std::byte>;

const fs::path folder = TUCK_GOLDEN;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(bool(file)) << path;
  return text.str();
}
byte_vector bytes_of(const fs::path& path) {
  const std::string text = text_of(path);
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}
byte_vector golden_frame(const golden_case& of) { return bytes_of(folder / (of.name + ".tuck")); }

// FNV-1a, which the library has no part in.
std::string digest_of_bytes(const byte_vector& bytes) {
  uint64_t digest = 0xcbf29ce484222325;
  for (const std::byte b : bytes) digest = (digest ^ static_cast<uint64_t>(b)) * 0x100000001b3;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(digest));
  return text;
}

const std::map<std::string, std::string>& golden_digests() {
  static const auto digests = [] {
    std::map<std::string, std::string> all;
    std::istringstream lines(text_of(folder / "values.txt"));
    for (std::string name, digest; lines >> name >> digest;) all[name] = digest;
    return all;
  }();
  return digests;
}

template <class Encode> byte_vector encoded(const golden_case& of, const Encode& encode) {
  const uint64_t count = of.values.size() / size_of(of.type);
  byte_vector frame(tools::plan_frame(of.codec, of.type, count, of.options).most_bytes);
  const outcome done = encode(frame);
  EXPECT_EQ(done.code, status::ok) << message(done.code);
  frame.resize(done.bytes);
  return frame;
}
byte_vector encoded_on_host(const golden_case& of) {
  const const_bytes base = of.base;
  return encoded(of, [&](bytes frame) {
    return tools::encode_frame(of.codec, of.type, of.values, frame, of.options, {.threads = 2},
                               of.base.empty() ? nullptr : &base);
  });
}

byte_vector decoded_on_host(const golden_case& of, const byte_vector& frame) {
  byte_vector restored(of.values.size());
  EXPECT_EQ((of.base.empty() ? tools::decode_frame(frame, restored, 0, {.threads = 2})
                             : tools::decode_delta_frame(frame, of.base, restored, {.threads = 2}))
                .code,
            status::ok);
  return restored;
}

// What decoding must have given: what was encoded, or values within the bound that was asked for.
template <floating_element T> void expect_within(const golden_case& of, const byte_vector& restored) {
  using format = float_format<T>;
  const size_t count = of.values.size() / sizeof(T);
  const auto at = [](const byte_vector& values, size_t i) {
    return load_unaligned<bits_t<T>>(values.data() + i * sizeof(T));
  };
  double lowest = HUGE_VAL, highest = -HUGE_VAL;
  for (size_t i = 0; i < count; ++i)
    if (format::is_finite(at(of.values, i))) {
      lowest = std::min(lowest, exact_value<T>(at(of.values, i)));
      highest = std::max(highest, exact_value<T>(at(of.values, i)));
    }
  const bound_mode mode = of.codec.bound.mode;
  const double bound = of.codec.bound.value * (mode == bound_mode::range_relative ? highest - lowest : 1);
  size_t changed = 0;
  for (size_t i = 0; i < count; ++i) {
    const bits_t<T> before = at(of.values, i), after = at(restored, i);
    if (before == after) continue;
    ++changed;
    ASSERT_TRUE(format::is_finite(before) && format::is_finite(after)) << i;
    const bool becomes_zero = format::magnitude(before) == 0 && after == 0;
    ASSERT_TRUE(format::magnitude(before) != 0 || becomes_zero) << i;
    ASSERT_TRUE(is_within(exact_value<T>(before), exact_value<T>(after), mode, bound)) << i;
  }
  EXPECT_GT(changed, count / 20);
}
void expect_right(const golden_case& of, const byte_vector& restored) {
  EXPECT_EQ(digest_of_bytes(restored), golden_digests().at(of.name));
  if (!tools::is_lossy(of.codec.name)) {
    EXPECT_TRUE(restored == of.values);
    return;
  }
  switch (of.type) {
    case dtype::f16: return expect_within<f16>(of, restored);
    case dtype::bf16: return expect_within<bf16>(of, restored);
    case dtype::f32: return expect_within<float>(of, restored);
    default: return expect_within<double>(of, restored);
  }
}

template <class Check> void for_each_case(const Check& check) {
  for (const golden_case& of : golden_cases()) {
    SCOPED_TRACE(of.name);
    check(of, golden_frame(of));
  }
}

TEST(golden, host_encodes_to_these_bytes) {
  for_each_case([](const golden_case& of, const byte_vector& frame) { EXPECT_TRUE(encoded_on_host(of) == frame); });
}

TEST(golden, host_decodes_to_these_values) {
  for_each_case([](const golden_case& of, const byte_vector& frame) { expect_right(of, decoded_on_host(of, frame)); });
}

TEST(golden, device_encodes_to_these_bytes) {
  for_each_case([](const golden_case& of, const byte_vector& frame) {
    if (!of.base.empty()) return;
    const auto mine = encoded(
        of, [&](bytes room) { return tools::encode_on_device(of.codec, of.type, of.values, room, of.options); });
    EXPECT_TRUE(mine == frame);
  });
}

TEST(golden, device_decodes_to_these_values) {
  for_each_case([](const golden_case& of, const byte_vector& frame) {
    if (!of.base.empty()) return;
    byte_vector restored(of.values.size());
    EXPECT_EQ(tools::decode_on_device(frame, restored).code, status::ok);
    expect_right(of, restored);
  });
}

// -- is that all?
// ------------------------------------------------------------------------------------------------------

TEST(golden_set, every_file_belongs_to_a_case) {
  std::set<std::string> expected{"values.txt"}, found;
  uint64_t size = 0;
  for (const golden_case& of : golden_cases()) {
    expected.insert(of.name + ".tuck");
    if (!of.base.empty()) expected.insert(of.name + ".base");
  }
  for (const auto& file : fs::directory_iterator(folder)) {
    found.insert(file.path().filename().string());
    size += file.file_size();
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(golden_digests().size(), golden_cases().size());
  EXPECT_LT(size, 256u << 10);
}

// Ids and names are in frames and scripts: none changes, and none that was taken before is taken again.
TEST(golden_set, ids_keep_their_names) {
  const char* const taken = "unknown";  // once, by a codec that is gone
  const char* const names[] = {"none",    "zvc",      "rle",     taken, "quantize", "deflate", taken,  "delta",
                               "bitpack", "quantize", "huffman", taken, taken,      "steps",   "rows", "codebooks"};
  for (uint16_t id = 0; id < 100; ++id)
    EXPECT_STREQ(name(codec_id{id}), id < std::size(names) ? names[id] : "unknown") << id;
}

// A new codec or chain is in none of them, until golden frames of it are written.
TEST(golden_set, every_codec_has_frames) {
  std::set<codec_id> ids;
  std::set<dtype> types;
  std::map<std::string, std::set<bound_mode>> modes;
  for (const golden_case& of : golden_cases()) {
    frame_header header;
    ASSERT_EQ(inspect(golden_frame(of), header), status::ok) << of.name;
    EXPECT_EQ(header.type, of.type);
    EXPECT_EQ(tools::stage_names(header.stages), of.codec.name);
    for (const stage& s : header.stages.at) ids.insert(s.id);
    types.insert(of.type);
    modes[of.codec.name].insert(of.codec.bound.mode);
  }
  int known_ids = 0;
  for (uint16_t id = 1; id < 100; ++id)
    if (std::string(name(codec_id{id})) != "unknown") {
      ++known_ids;
      EXPECT_TRUE(ids.contains(codec_id{id})) << name(codec_id{id});
    }
  EXPECT_GE(known_ids, 9);
  for (uint8_t type = 1; size_of(dtype{type}) != 0; ++type)
    EXPECT_TRUE(types.contains(dtype{type})) << name(dtype{type});
  for (const std::string& codec : tools::codec_names())
    EXPECT_EQ(modes[codec].size(), tools::is_lossy(codec) ? 3u : 1u) << codec;
}

// The stages of the codecs in a list, by their names.
template <codec... Cs> std::map<std::string, stage_list> stages_of(codec_list<Cs...>) {
  std::map<std::string, stage_list> all;
  (all.emplace(tools::stage_names(Cs{}.stages()), Cs{}.stages()), ...);
  return all;
}
std::string ids_of(const stage_list& stages) {
  std::string ids;
  for (const stage& s : stages.at)
    if (s.id != codec_id::none) ids += (ids.empty() ? "" : ", ") + std::to_string(static_cast<int>(s.id));
  return ids;
}

// What no compiler says to somebody who adds a codec or a chain.
TEST(golden_set, every_codec_is_in_all_lists_and_on_the_pages) {
  const fs::path root = folder / "../../..";
  const std::string format = text_of(root / "docs/format.md");
  const auto tested = stages_of(listed_codecs{}), quick = stages_of(quick_codecs{});
  std::map<std::string, std::string> names;  // of stages, to C++
  for (const auto& [stages, list] : stages_of(single_codecs{})) {
    names[stages] = stages;
    EXPECT_TRUE(quick.contains(stages)) << stages << " is not in quick_codecs of test/support/codec_list.hpp";
    EXPECT_NE(format.find("\n### " + stages + "\n"), std::string::npos) << stages << " has no section in format.md";
  }
  const std::string header = text_of(root / "include/tuck/codec/chain/chains.hpp");
  const std::regex alias("using ([a-z_]+) =");
  for (std::sregex_iterator i(header.begin(), header.end(), alias), end; i != end; ++i) {
    // The shortest one with the stages of its name, in their order.
    std::string any = std::regex_replace((*i)[1].str(), std::regex("_"), ".*\\+"), found;
    for (const auto& [stages, list] : stages_of(chain_codecs{}))
      if (std::regex_match(stages, std::regex(any)) && (found.empty() || stages.size() < found.size())) found = stages;
    EXPECT_FALSE(found.empty()) << (*i)[1] << " is not in tuck/all_codecs.hpp";
    names[found] = (*i)[1];
  }
  EXPECT_EQ(names.size(), stages_of(all_codecs{}).size());
  for (const auto& [stages, list] : stages_of(chain_codecs{}))
    EXPECT_NE(format.find("| " + stages + " | " + ids_of(list) + " |"), std::string::npos) << stages;
  for (const auto& [stages, cpp] : names) {
    EXPECT_TRUE(tested.contains(stages)) << stages << " is not in test/support/codec_list.hpp";
    const std::regex word("(^|[^a-z_])" + cpp + "([^a-z_]|$)");
    for (const char* const page : {"README.md", "docs/guide.md", "test/nvcc/kernels.cu"})
      EXPECT_TRUE(std::regex_search(text_of(root / page), word)) << cpp << " is not in " << page;
    EXPECT_NE(text_of(root / "CHANGELOG.md").find(stages), std::string::npos) << stages << " is not in CHANGELOG.md";
  }
  for (uint16_t id = 1; id < 100; ++id) {
    const std::string known = name(codec_id{id});
    if (known == "unknown") continue;
    EXPECT_NE(format.find("\n| " + std::to_string(id) + " | " + known), std::string::npos) << known;
    const bool transforms = format.find(" | " + known + ", a transform |") != std::string::npos;
    EXPECT_TRUE(!transforms || format.find("\n### The transform " + known + "\n") != std::string::npos) << known;
  }
}

TEST(golden_set, frames_have_all_that_frames_can_have) {
  std::map<std::string, int> seen;
  for (const golden_case& of : golden_cases()) {
    const byte_vector frame = golden_frame(of);
    frame_view view;
    ASSERT_EQ(frame_view::open(frame, view), status::ok);
    int encoded = 0;
    for (uint64_t i = 0; i < view.chunks(); ++i) {
      chunk_view chunk;
      ASSERT_EQ(view.chunk(i, chunk), status::ok);
      encoded += chunk.kind == chunk_kind::encoded;
      ++seen[std::string(name(chunk.kind)) + (chunk.kind == chunk_kind::uniform && chunk.payload.empty() ? " 0" : "") +
             (i + 1 == view.chunks() ? ", last" : "")];
    }
    EXPECT_GT(encoded, 0) << of.name;
    frame_header header;
    ASSERT_EQ(inspect(frame, header), status::ok);
    ++seen[(header.flags & flag_checksums) != 0 ? "checksums" : "none"];
    ++seen["metadata of " + std::to_string(header.metadata_bytes)];
    ++seen["alignment " + std::to_string(1u << header.alignment_log2)];
    seen["delta"] += (header.flags & flag_delta) != 0;
  }
  for (const char* what : {"encoded", "encoded, last", "raw", "raw, last", "uniform", "uniform 0", "checksums", "none",
                           "metadata of 0", "metadata of 13", "alignment 16", "alignment 32", "delta"})
    EXPECT_GE(seen[what], 5) << what;
}

// What a reader of a delta needs besides.
void write_base(const fs::path& to, const golden_case& of) {
  std::ofstream(to / (of.name + ".base"), std::ios::binary)
      .write(reinterpret_cast<const char*>(of.base.data()), static_cast<std::streamsize>(of.base.size()));
}

void write_all(const fs::path& to) {
  fs::create_directories(to);
  std::ofstream digests(to / "values.txt");
  for (const golden_case& of : golden_cases()) {
    const byte_vector frame = encoded_on_host(of);
    std::ofstream(to / (of.name + ".tuck"), std::ios::binary)
        .write(reinterpret_cast<const char*>(frame.data()), static_cast<std::streamsize>(frame.size()));
    digests << of.name << ' ' << digest_of_bytes(decoded_on_host(of, frame)) << '\n';
    if (!of.base.empty()) write_base(to, of);
  }
}

}  // namespace
}  // namespace tuck::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc == 3 && std::string(argv[1]) == "--write") {
    tuck::test::write_all(argv[2]);
    return ::testing::Test::HasFailure() ? 1 : 0;
  }
  return RUN_ALL_TESTS();
}
