// Folders of safetensors files by the program: shards with an index, other files, deltas, and what is refused.
#include "examples/cli_fixture.hpp"

#include <cstring>
#include <filesystem>
#include <map>

namespace {

using namespace cli;
namespace fs = std::filesystem;

class CliCheckpoint : public Cli {
 protected:
  const std::string model = dir / "model", old = dir / "old", packed = dir / "packed", back = dir / "back";
  static constexpr const char* first = "model-00001-of-00002.safetensors";
  static constexpr const char* second = "model-00002-of-00002.safetensors";

  static void write_index(const std::string& folder, const std::string& places) {
    scratch::write(folder + "/model.safetensors.index.json",
                   "{\"metadata\": {\"total_size\": 41000},\n  \"weight_map\": {" + places + "}}");
  }
  static std::string place(const std::string& tensor, const std::string& file) {
    return "\"" + tensor + "\": \"" + file + "\"";
  }
  // Two shards, "b" in the second with the values of "a" in the first, and two files more.
  static void write_model(const std::string& folder, const std::string& of_c) {
    const std::string a = sparse_data(20000), ids = dense_data(500);
    fs::create_directories(folder + "/sub");
    scratch::write(folder + "/" + first,
                   safetensors("{\"__metadata__\": {\"format\": \"pt\"}," + described("a", "F32", "50, 100", 0, 20000) +
                                   "," + described("ids", "U8", "500", 20000, 20500) + "}",
                               a + ids));
    scratch::write(folder + "/" + second, safetensors("{" + described("b", "F32", "100, 50", 0, 20000) + "," +
                                                          described("c", "BF16", "1000", 20000, 22000) + "," +
                                                          described("more_ids", "U8", "500", 22000, 22500) + "}",
                                                      a + of_c + ids));
    write_index(folder, place("a", first) + ", " + place("b", second) + ", " + place("c", second));
    scratch::write(folder + "/config.json", "{}");
    scratch::write(folder + "/sub/tokens.txt", "tokens");
  }
  // The files of a folder and what they have.
  static std::map<std::string, std::string> content_of(const std::string& folder) {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) all[entry.path().lexically_relative(folder)] = scratch::read(entry.path());
    return all;
  }
  static size_t bytes_of(const std::string& folder) {
    size_t sum = 0;
    for (const auto& [name, content] : content_of(folder)) sum += content.size();
    return sum;
  }
  nlohmann::json index_of(const std::string& folder) {
    return nlohmann::json::parse(scratch::read(folder + "/model.safetensors.index.json"));
  }
};

TEST_F(CliCheckpoint, comes_back_byte_for_byte) {
  write_model(model, sparse_data(2000));
  size_t bytes = 0;
  for (const arguments& options : {arguments{}, arguments{"--once"}}) {
    arguments words{"encode", "-c", "huffman", model, packed + "/"};
    words.insert(words.end(), options.begin(), options.end());
    expect_ok(words);
    EXPECT_EQ(tuck_cli({"verify", packed}).code, 0);
    expect_ok({"decode", packed, back});
    EXPECT_EQ(content_of(back), content_of(model));
    // A single file finds what it has in others.
    expect_ok({"decode", packed + "/" + second, dir / "one.safetensors"});
    EXPECT_EQ(scratch::read(dir / "one.safetensors"), scratch::read(model + "/" + second));
    EXPECT_TRUE(bytes == 0 || bytes_of(packed) + 5000 < bytes);
    bytes = bytes_of(packed);
    if (options.empty()) fs::remove_all(packed);
    fs::remove_all(back);
    fs::remove(dir / "one.safetensors");
  }
  EXPECT_EQ(dir.names(), (arguments{"model", "packed"}));
  const nlohmann::json index = index_of(packed);
  EXPECT_EQ(index["weight_map"], index_of(model)["weight_map"]);
  uint64_t sum = 0;
  const auto stored = [&](const std::string& file) {
    const std::string content = scratch::read(packed + "/" + file);
    uint64_t length = 0;
    std::memcpy(&length, content.data(), 8);
    return nlohmann::json::parse(content.substr(8, length));
  };
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    const nlohmann::json offsets = stored(file)[tensor]["data_offsets"];
    sum += offsets[1].get<uint64_t>() - offsets[0].get<uint64_t>();
  }
  EXPECT_EQ(index["metadata"]["total_size"], sum);
  EXPECT_EQ(refusal({"encode", packed, back}, packed + "/" + first),
            "its metadata has 'tuck.header', which marks tensors that are frames already");
  EXPECT_EQ(dir.names(), (arguments{"model", "packed"}));
}

TEST_F(CliCheckpoint, of_one_file) {
  fs::create_directory(model);
  scratch::write(model + "/model.safetensors",
                 safetensors("{" + described("a", "F32", "5000", 0, 20000) + "}", sparse_data(20000)));
  fs::create_directory(packed);
  expect_ok({"encode", model, packed});
  expect_ok({"decode", packed, back});
  EXPECT_EQ(content_of(back), content_of(model));
}

TEST_F(CliCheckpoint, deltas_against_other_shards) {
  std::string changed = sparse_data(2000);
  for (size_t i = 0; i < changed.size(); i += 100) changed[i] = static_cast<char>(changed[i] ^ 1);
  write_model(model, changed);
  write_model(old, sparse_data(2000));
  // The base has the tensor b in its first file.
  scratch::write(old + "/" + first, safetensors("{" + described("a", "F32", "50, 100", 0, 20000) + "," +
                                                    described("b", "F32", "100, 50", 20000, 40000) + "," +
                                                    described("ids", "U8", "500", 40000, 40500) + "}",
                                                sparse_data(20000) + sparse_data(20000) + dense_data(500)));
  scratch::write(old + "/" + second, safetensors("{" + described("c", "BF16", "1000", 0, 2000) + "," +
                                                     described("more_ids", "U8", "500", 2000, 2500) + "}",
                                                 sparse_data(2000) + dense_data(500)));
  write_index(old, place("b", first));
  expect_ok({"encode", "--base", old, model, packed});
  expect_ok({"decode", "--base", old, packed, back});
  EXPECT_EQ(content_of(back), content_of(model));
  fs::remove_all(back);
  const std::string of = packed + "/" + first;
  EXPECT_NE(refusal({"decode", packed, back}, of).find("needs its base"), std::string::npos);
  EXPECT_EQ(refusal({"decode", "--base", model, packed, back}, model),
            "tensor 'c': the base is not the tensor that the delta was made against");
  scratch::write(old + "/" + second, safetensors("{" + described("c", "BF16", "1000", 0, 2000) + "}", changed));
  EXPECT_EQ(refusal({"encode", "--base", old, model, back}, old),
            "tensor 'more_ids': it is in " + model + " but not in the base");
  EXPECT_EQ(tuck_cli({"encode", "--once", "--base", old, model, back}).code, 2);
  EXPECT_EQ(dir.names(), (arguments{"model", "old", "packed"}));
}

TEST_F(CliCheckpoint, refusals_name_the_file_and_leave_nothing) {
  write_model(model, sparse_data(2000));
  const std::string index = model + "/model.safetensors.index.json";
  const auto why = [&] { return refusal({"encode", model, packed}, index); };
  write_index(model, place("a", "../model/" + std::string(first)));
  EXPECT_EQ(why(), "tensor 'a': '../model/" + std::string(first) + "' is not a file of this folder");
  write_index(model, place("a", "model-3.safetensors"));
  EXPECT_EQ(why(), "tensor 'a': its file 'model-3.safetensors' is missing");
  write_index(model, place("a", second));
  EXPECT_EQ(why(), "tensor 'a': its file '" + std::string(second) + "' does not have it");
  scratch::write(index, "{}");
  EXPECT_EQ(why(), "not an index of shards: it has no 'weight_map' from tensors to files");
  scratch::write(index, "{");
  EXPECT_EQ(why(), "not JSON");
  scratch::write(index,
                 "{\"weight_map\": {}, \"deep\": " + std::string(99, '[') + "\"[\"" + std::string(99, ']') + "}");
  EXPECT_EQ(tuck_cli({"encode", model, packed}).code, 0);
  std::filesystem::remove_all(packed);
  for (const size_t deep : {100, 200000}) {
    scratch::write(index, "{\"weight_map\": {}, \"deep\": " + std::string(deep, '[') + std::string(deep, ']') + "}");
    EXPECT_EQ(why(), "its JSON is nested more than 100 deep");
  }
  EXPECT_EQ(refusal({"encode", index, dir / "x.safetensors"}, index), "an index of several files; encode its folder");
  write_index(model, place("a", first));
  EXPECT_EQ(refusal({"encode", model, dir / "x.safetensors"}, model),
            "a folder of safetensors files becomes a folder; name one for the output");
  EXPECT_EQ(refusal({"encode", model, model}, model), "the folder exists and is not empty");
  scratch::write(model + "/" + second, "not a file of tensors");
  EXPECT_NE(tuck_cli({"encode", model, packed}).code, 0);
  EXPECT_EQ(dir.names(), (arguments{"model"}));
}

TEST_F(CliCheckpoint, a_file_that_others_need_is_missing_or_changed) {
  write_model(model, sparse_data(2000));
  expect_ok({"encode", "--once", model, packed});
  fs::remove(packed + "/model.safetensors.index.json");
  const std::string content = scratch::read(packed + "/" + first);
  std::string damaged = content;
  damaged[damaged.size() - 1000] = static_cast<char>(damaged[damaged.size() - 1000] ^ 1);
  scratch::write(packed + "/" + first, damaged);
  const auto why = [&] {
    return refusal({"decode", packed + "/" + second, dir / "x.safetensors"}, packed + "/" + second);
  };
  EXPECT_NE(why().find("has changed"), std::string::npos);
  fs::remove(packed + "/" + first);
  EXPECT_EQ(why(), "tensor 'b': its values are in '" + std::string(first) + "', which is missing");
}

}  // namespace
