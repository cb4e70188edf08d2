// safetensors files by the program: all tensors of a file to frames and back, with a base too.
#include "support/npy.hpp"

#include "examples/cli_fixture.hpp"

#include <sys/resource.h>

#include <filesystem>
#include <iterator>

namespace {

using namespace cli;

class CliSafetensors : public Cli {
 protected:
  const std::string model = dir / "model.safetensors", base = dir / "base.safetensors",
                    packed = dir / "packed.safetensors", back = dir / "back.safetensors";

  // Of every kind of type, values that are not aligned, nothing, a scalar; in a header with spaces of its own.
  static std::string all_kinds(const std::string& data) {
    return safetensors("{" + described("odd", "U8", "3", 0, 3) + ",  " + described("w", "BF16", "100,  101", 3, 20203) +
                           ", \"__metadata__\": {\"format\": \"pt\"}, " + described("x", "F32", "300", 20203, 21403) +
                           "," + described("none", "F16", "0, 4", 21403, 21403) + "," +
                           described("one", "I64", "", 21403, 21411) + "," +
                           described("e4", "F8_E4M3", "9", 21411, 21420) + "} ",
                       data);
  }
  static std::string changed(std::string data) {
    for (size_t i = 3; i < data.size(); i += 257) data[i] = static_cast<char>(data[i] ^ 1);
    return data;
  }
  void write_two() {
    scratch::write(base, all_kinds(sparse_data(21420)));
    scratch::write(model, all_kinds(changed(sparse_data(21420))));
  }
  std::string two(const std::string& first, const std::string& second, size_t bytes) {
    return safetensors("{" + first + "," + second + "}", std::string(bytes, 'x'));
  }
};

TEST_F(CliSafetensors, all_tensors_come_back_byte_for_byte) {
  write_two();
  for (const arguments& options : {arguments{}, arguments{"--codec", "rle", "--no-checksums", "--threads", "1"},
                                   arguments{"--chunk-values", "64"}}) {
    arguments words{"encode", model, packed};
    words.insert(words.end(), options.begin(), options.end());
    expect_ok(words);
    expect_ok({"verify", packed});
    expect_ok({"decode", packed, back});
    EXPECT_EQ(scratch::read(back), scratch::read(model));
  }
  EXPECT_NE(tuck_cli({"verify", packed}).out.find("of 6 tensors in"), std::string::npos);
  EXPECT_EQ(refusal({"encode", packed, back}, packed),
            "its metadata has 'tuck.header', which marks tensors that are frames already");
  EXPECT_EQ(refusal({"decode", model, back}, model), "its tensors are not frames: no 'tuck.header' in its metadata");
}

TEST_F(CliSafetensors, the_device_writes_the_same_file) {
  scratch::write(model, safetensors("{" + described("w", "BF16", "3000", 0, 6000) + "}", sparse_data(6000)));
  expect_ok({"encode", model, packed});
  expect_ok({"encode", "--on", "device", model, back});
  EXPECT_EQ(scratch::read(back), scratch::read(packed));
  expect_ok({"decode", "--on", "device", packed, back});
  EXPECT_EQ(scratch::read(back), scratch::read(model));
}

// Any reader of safetensors sees the frames, aligned, and the other metadata.
TEST_F(CliSafetensors, frames_are_bytes_with_a_name) {
  write_two();
  expect_ok({"encode", model, packed});
  const std::string content = scratch::read(packed);
  uint64_t length = 0;
  std::memcpy(&length, content.data(), 8);
  EXPECT_EQ((8 + length) % 64, 0u);
  const auto header = nlohmann::json::parse(content.substr(8, length));
  EXPECT_EQ(header["__metadata__"]["format"], "pt");
  EXPECT_EQ(header.size(), 7u);
  uint64_t sum = 0;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const uint64_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
    sum += end - begin;
    if (name != "w") continue;  // the others are too small
    EXPECT_EQ(tensor["dtype"], "U8");
    EXPECT_EQ(tensor["shape"][0], end - begin);
    EXPECT_EQ(content.substr(8 + length + begin, 4), "TUCK") << name;
    EXPECT_EQ(begin % 32, 0u);
  }
  EXPECT_EQ(8 + length + sum, content.size());
}

TEST_F(CliSafetensors, deltas) {
  write_two();
  expect_ok({"encode", "--base", base, model, packed});
  expect_ok({"decode", "--base", base, packed, back});
  EXPECT_EQ(scratch::read(back), scratch::read(model));
  const auto list = nlohmann::json::parse(tuck_cli({"info", "--json", packed}).out)["tensors"];
  ASSERT_EQ(list.size(), 6u);
  EXPECT_EQ(list[1]["name"], "w");
  EXPECT_EQ(list[1]["dtype"], "BF16");
  EXPECT_EQ(list[1]["shape"], (nlohmann::json{100, 101}));
  EXPECT_EQ(list[1]["codec"], "steps");
  EXPECT_EQ(list[1]["base_digest"].get<std::string>().size(), 16u);
  EXPECT_LT(list[1]["frame_bytes"], 600);
  EXPECT_NE(tuck_cli({"info", packed}).out.find("BF16 100x101             steps, a delta"), std::string::npos);

  scratch::write(back, "precious");
  EXPECT_EQ(refusal({"decode", packed, back}, packed),
            "tensor 'w': the frame is a delta and needs its base: pass it with --base");
  EXPECT_EQ(refusal({"verify", packed}, packed),
            "tensor 'w': the frame is a delta and needs its base: decode --base verifies both");
  EXPECT_EQ(refusal({"decode", "--base", model, packed, back}, model),
            "tensor 'w': the base is not the tensor that the delta was made against");
  EXPECT_EQ(scratch::read(back), "precious");
  expect_ok({"encode", model, packed});
  EXPECT_EQ(refusal({"decode", "--base", base, packed, back}, packed),
            "tensor 'w': the frame is not a delta and takes no --base");
  EXPECT_EQ(dir.names(),
            (arguments{"back.safetensors", "base.safetensors", "model.safetensors", "packed.safetensors"}));
}

TEST_F(CliSafetensors, a_base_has_the_same_tensors) {
  const std::string a = described("a", "F32", "2, 2", 0, 16), b = described("b", "U16", "4", 16, 24);
  scratch::write(model, two(a, b, 24));
  const auto reason = [&](const std::string& content) {
    scratch::write(base, content);
    return refusal({"encode", "--base", base, model, packed}, base);
  };
  EXPECT_EQ(reason(safetensors("{" + a + "}", std::string(16, 'x'))),
            "tensor 'b': it is in " + model + " but not in the base");
  EXPECT_EQ(
      reason(safetensors("{" + a + "," + b + "," + described("c", "U8", "1", 24, 25) + "}", std::string(25, 'x'))),
      "tensor 'c': it is in the base but not in " + model);
  EXPECT_EQ(reason(two(described("a", "F32", "4", 0, 16), b, 24)),
            "tensor 'a': F32 4 in the base, F32 2x2 in " + model);
  EXPECT_EQ(reason(two(a, described("b", "F16", "4", 16, 24), 24)), "tensor 'b': F16 4 in the base, U16 4 in " + model);
  EXPECT_FALSE(std::filesystem::exists(packed));
}

TEST_F(CliSafetensors, refuses_damaged_headers) {
  const auto reason = [&](const std::string& content) {
    scratch::write(model, content);
    const std::string why = refusal({"encode", model, packed}, model);
    EXPECT_EQ(refusal({"info", model}, model), why);
    return why;
  };
  const std::string a = described("a", "U8", "8", 0, 8);
  const auto one = [&](const std::string& json, size_t bytes = 8) {
    return reason(safetensors(json, std::string(bytes, 'x')));
  };
  EXPECT_EQ(reason(""), "the input is empty");
  EXPECT_EQ(reason("1234567"), "not a safetensors file");
  EXPECT_EQ(reason("\x93NUMPY and more"), "not a safetensors file");
  EXPECT_EQ(reason(safetensors("{" + a + "}", "12345678").substr(0, 20)),
            "truncated safetensors header: 12 bytes of 60 are there");
  EXPECT_EQ(one("[1]"), "not a safetensors file");
  EXPECT_EQ(one("{\"a\": "), "the safetensors header is not a JSON object");
  EXPECT_EQ(one("{" + a + "," + a + "}"), "the safetensors header has two 'a'");
  EXPECT_EQ(one("{\"\": [], \"\": []}"), "the safetensors header has two ''");
  EXPECT_EQ(one("{\"a\": {\"shape\": [1], \"shape\": [1]}}"), "the safetensors header has two 'shape'");
  EXPECT_EQ(one("{\"__metadata__\": {\"b\": \"\", \"b\": \"\"}}"), "the safetensors header has two 'b'");
  EXPECT_EQ(one("{\"a\": 1}"), "tensor 'a': its description is not a JSON object");
  EXPECT_EQ(one("{\"a\": {}}"), "tensor 'a': it has no 'shape'");
  EXPECT_EQ(one("{\"__metadata__\": {\"a\": 1}," + a + "}"), "its '__metadata__' is not an object of strings");
  EXPECT_EQ(one("{" + described("a", "F4", "8", 0, 8) + "}"),
            "tensor 'a': its 'data_offsets' are 8 bytes apart, its shape needs 4");
  EXPECT_EQ(one("{" + described("a", "U8", "-8", 0, 8) + "}"), "tensor 'a': its 'shape' is not a list of sizes");
  EXPECT_EQ(one("{" + described("a", "U8", "8", 8, 0) + "}"),
            "tensor 'a': its 'data_offsets' are not a begin and an end");
  EXPECT_EQ(one("{" + described("a", "F32", "8", 0, 8) + "}"),
            "tensor 'a': its 'data_offsets' are 8 bytes apart, its shape needs 32");
  EXPECT_EQ(one("{" + described("a", "F32", "4611686018427387904, 4", 0, 0) + "}"),
            "tensor 'a': the shape is too large");
  EXPECT_EQ(one("{" + described("a", "U8", "9223372036854775808, 2, 0", 0, 0) + "}"),
            "tensor 'a': the shape is too large");
  EXPECT_EQ(one("{" + a + "}", 7), "tensor 'a': its values end at byte 8 of the data, of which 7 are there");
  EXPECT_EQ(one("{" + a + "}", 9), "1 byte after the values of all tensors");
  EXPECT_EQ(reason(two(a, described("b", "U8", "8", 4, 12), 12)), "tensor 'b': its values overlap those of 'a'");
  EXPECT_EQ(reason(two(a, described("b", "U8", "8", 12, 20), 20)),
            "tensor 'b': the 4 bytes before its values belong to no tensor");
  EXPECT_EQ(dir.names(), arguments{"model.safetensors"});
}

// As the reference implementation does.
TEST_F(CliSafetensors, takes_headers_that_begin_with_spaces_and_shapes_with_a_0) {
  for (const char* const before : {"", " ", "\n", " \t\r\n "})
    for (const char* const shape : {"9223372036854775808, 0", "0, 9223372036854775808, 9223372036854775808"}) {
      scratch::write(model, safetensors(before + ("{" + described("a", "U8", shape, 0, 0) + "}"), ""));
      EXPECT_EQ(tuck_cli({"encode", model, packed}).code, 0) << before << shape;
      expect_ok({"decode", packed, back});
      EXPECT_EQ(scratch::read(back), scratch::read(model));
    }
}

// In linear time: a parser that looks through all tensors after each of them takes 20 seconds.
TEST_F(CliSafetensors, many_tensors) {
  constexpr size_t count = 40'000;
  std::string json;
  for (size_t i = 0; i < count; ++i)
    json += (i == 0 ? "" : ",") + described("layers." + std::to_string(i), "U8", "0", 0, 0);
  scratch::write(model, safetensors("{" + json + "}", ""));
  const auto seconds_of_children = [] {
    rusage used{};
    ::getrusage(RUSAGE_CHILDREN, &used);
    return used.ru_utime.tv_sec;
  };
  const auto before = seconds_of_children();
  EXPECT_EQ(tuck_cli({"info", model}).code, 0);
  EXPECT_LT(seconds_of_children() - before, 10);
}

TEST_F(CliSafetensors, refuses_damaged_frames) {
  scratch::write(model, two(described("a", "U8", "800", 0, 800), described("b", "U8", "800", 800, 1600), 1600));
  expect_ok({"encode", model, packed});
  const std::string content = scratch::read(packed);
  const auto reason = [&](std::string damaged) {
    scratch::write(packed, damaged);
    return refusal({"decode", packed, back}, packed);
  };
  std::string flipped = content;
  flipped[flipped.rfind("TUCK") + 8] ^= 1;
  EXPECT_EQ(reason(flipped), "tensor 'b': the frame's header is damaged");
  const auto renamed = [&](const std::string& from, const std::string& to, size_t at) {
    std::string other = content;
    other.replace(other.find(from, at), from.size(), to);
    return other;
  };
  // With the checksum of the header that it then has.
  const auto sealed = [](std::string changed) {
    const auto size = tuck::load_unaligned<uint64_t>(reinterpret_cast<const std::byte*>(changed.data()));
    const auto metadata = nlohmann::json::parse(changed.substr(8, size))["__metadata__"];
    const std::string header = metadata["tuck.header"], before = metadata["tuck.header.digest"];
    char digest[17];
    std::snprintf(digest, sizeof digest, "%016llx",
                  static_cast<unsigned long long>(
                      tuck::checksum({reinterpret_cast<const std::byte*>(header.data()), header.size()})));
    return changed.replace(changed.find(before), before.size(), digest);
  };
  const size_t original = content.find("tuck.header\"");
  EXPECT_EQ(reason(renamed("tuck.header\"", "tuck.hidden\"", 0)),
            "its tensors are not frames: no 'tuck.header' in its metadata");
  EXPECT_EQ(reason(renamed("a\\\"", "c\\\"", original)), "the metadata's 'tuck.header' fails its checksum");
  EXPECT_EQ(reason(sealed(renamed("a\\\"", "c\\\"", original))), "tensor 'c': it has no frame");
  EXPECT_EQ(reason(sealed(renamed("U8", "I8", original))),
            "tensor 'a': the frame has 800 values of u8, the tensor is I8 800");
  EXPECT_EQ(dir.names(), (arguments{"model.safetensors", "packed.safetensors"}));
}

TEST_F(CliSafetensors, one_tensor) {
  write_two();
  expect_ok({"encode", model, packed});
  const auto values = [&](const std::string& npy) { return npy.substr(npy.find('\n') + 1); };
  const std::string data = scratch::read(model), w = data.substr(data.size() - 21417, 20200);
  for (const std::string& file : {packed, model}) {  // frames, and tensors as they are
    expect_ok({"decode", "--tensor", "w", file, out});
    EXPECT_EQ(values(scratch::read(out)), w);
    EXPECT_NE(scratch::read(out).find("'<u2', 'fortran_order': False, 'shape': (100, 101)"), std::string::npos);
    expect_ok({"decode", "--tensor", "none", file, out});
    EXPECT_EQ(refusal({"decode", "--tensor", "v", file, out}, file), "it has no tensor 'v'; see 'tuck info'");
  }
  expect_ok({"encode", "--base", base, model, packed});
  expect_ok({"decode", "--base", base, "--tensor", "w", packed, out});
  EXPECT_EQ(values(scratch::read(out)), w);
  EXPECT_EQ(refusal({"decode", "--tensor", "w", packed, out}, packed),
            "tensor 'w': the frame is a delta and needs its base: pass it with --base");
  EXPECT_EQ(refusal({"decode", "--tensor", "w", packed, back}, back),
            "the output is no safetensors file, because the input is none; choose another name");
}

TEST_F(CliSafetensors, a_directory_of_arrays) {
  const std::string arrays = dir / "arrays";
  std::filesystem::create_directory(arrays);
  EXPECT_EQ(refusal({"encode", arrays, packed}, arrays), "there are no .npy files");
  const std::string bytes = npy(dict("|u1", "(3,)"), "xyz"), floats = npy(dict("<f4", "(10, 25)"), sparse_data(1000));
  scratch::write(arrays + "/a.npy", bytes);
  scratch::write(arrays + "/b.npy", floats);
  expect_ok({"encode", arrays, packed});
  expect_ok({"verify", packed});
  expect_ok({"decode", "--tensor", "b", packed, out});
  EXPECT_EQ(tuck_cli({"compare", arrays + "/b.npy", out}).code, 0);
  scratch::write(arrays + "/bits.npy", npy(dict("|b1", "(3,)"), std::string("\0\1\1", 3)));  // booleans stay such
  expect_ok({"encode", arrays, packed});
  EXPECT_NE(scratch::read(packed).find("BOOL"), std::string::npos);
  expect_ok({"decode", "--tensor", "bits", packed, out});
  EXPECT_NE(scratch::read(out).find("'|b1', 'fortran_order': False, 'shape': (3,)"), std::string::npos);
  EXPECT_EQ(scratch::read(out).substr(scratch::read(out).size() - 3), std::string("\0\1\1", 3));
  EXPECT_EQ(refusal({"encode", arrays, frame}, frame),
            "a folder becomes a safetensors file, whose name must end in .safetensors");
  EXPECT_EQ(tuck_cli({"encode", "--as", "bf16", arrays, packed}).code, 2);
  scratch::write(arrays + "/c.npy", npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", sparse_data(16)));
  EXPECT_EQ(refusal({"encode", arrays, packed}, arrays + "/c.npy"),
            "safetensors files have no Fortran order; save numpy.ascontiguousarray(x)");
  std::filesystem::rename(arrays + "/b.npy", arrays + "/c.npy");
  std::filesystem::rename(arrays + "/a.npy", arrays + "/\xff.npy");
  EXPECT_EQ(refusal({"encode", arrays, packed}, packed),
            "tensor '\xff': names in safetensors files are UTF-8, and this one is not");
}

// As numpy.save writes an array.
std::string saved(tuck::dtype type, const std::vector<uint64_t>& shape, const std::string& data,
                  bool is_boolean = false) {
  return tuck::tools::make_npy_prelude(type, shape, is_boolean) + data;
}

TEST_F(CliSafetensors, a_folder_comes_back) {
  const std::string arrays = dir / "arrays", back_to = dir / "new/folder";
  const std::vector<std::pair<std::string, std::string>> files = {
      {"a", saved(tuck::dtype::f32, {10, 25}, sparse_data(1000))},
      {"a.npy", saved(tuck::dtype::u8, {3}, "xyz")},
      {"bits", saved(tuck::dtype::u8, {3}, std::string("\0\1\1", 3), true)},
      {"layers/0/w", saved(tuck::dtype::i64, {}, "12345678")},
      {"layers/0.b", saved(tuck::dtype::f16, {0, 4}, "")},
      {"..", saved(tuck::dtype::u16, {1}, "xy")}};
  std::filesystem::create_directories(arrays + "/layers/0");
  for (const auto& [name, content] : files) scratch::write(arrays + "/" + name + ".npy", content);
  expect_ok({"encode", arrays + "/", packed});
  for (const std::string& to : {back_to + "/", back_to, dir / "."}) {  // new, there, and the current one
    expect_ok({"decode", packed, to});
    for (const auto& [name, content] : files) EXPECT_EQ(scratch::read(to + "/" + name + ".npy"), content) << name;
  }
  const auto entries = [](const std::string& folder) {
    return std::distance(std::filesystem::recursive_directory_iterator(folder), {});
  };
  EXPECT_EQ(entries(back_to), entries(arrays));
  // Types that NumPy lacks are integers or bytes, as with --tensor, also in a file without frames and in deltas.
  write_two();
  expect_ok({"encode", "--base", base, model, packed});
  expect_ok({"decode", "--base", base, packed, dir / "deltas/"});
  expect_ok({"decode", model, dir / "plain/"});
  for (const std::string name : {"odd", "w", "x", "none", "one", "e4"}) {
    expect_ok({"decode", "--tensor", name, model, out});
    EXPECT_EQ(scratch::read(dir / ("deltas/" + name + ".npy")), scratch::read(out));
    EXPECT_EQ(scratch::read(dir / ("plain/" + name + ".npy")), scratch::read(out));
  }
}

TEST_F(CliSafetensors, nothing_is_written_outside_a_folder) {
  const std::string folder = dir / "folder/";
  const auto reason = [&](const std::string& name, const std::string& other = "ok") {
    scratch::write(model, two(described(name, "U8", "1", 0, 1), described(other, "U8", "1", 1, 2), 2));
    return refusal({"decode", model, folder}, model);
  };
  const std::string longest(252, 'a');  // with ".npy" longer than names can be
  for (const std::string& name :
       arguments{"../x", "a/../../x", "/x", "a//b", "./a", "a/./b", "a/", "", "a\\u0000", "a/../b", longest})
    EXPECT_NE(reason(name).find("': no file in a folder can have this name; pass --tensor and"), std::string::npos)
        << name;
  EXPECT_EQ(reason("a", "a.npy/b"), "tensor 'a': its file would be the folder of another tensor; pass --tensor");
  EXPECT_EQ(dir.names(), arguments{"model.safetensors"});
  scratch::write(model, two(described("a", "U8", "1", 0, 1), described("b/c", "U8", "1", 1, 2), 2));
  std::filesystem::create_directories(folder + "b/c.npy");
  EXPECT_EQ(refusal({"decode", model, folder}, folder + "b/c.npy"), "Is a directory");
  std::filesystem::remove_all(folder + "b");
  scratch::write(folder + "b", "precious");
  EXPECT_EQ(refusal({"decode", model, folder}, folder + "b"), "Not a directory");
  EXPECT_EQ(scratch::read(folder + "b"), "precious");
  EXPECT_FALSE(std::filesystem::exists(folder + "a.npy"));
  scratch::write(dir / "a.npy", scratch::read(model));
  EXPECT_EQ(refusal({"decode", dir / "a.npy", dir / ""}, dir / "a.npy"), "input and output are the same file");
  // Damage is found first.
  expect_ok({"encode", model, packed});
  std::string damaged = scratch::read(packed);
  damaged.back() ^= 1;
  scratch::write(packed, damaged);
  EXPECT_EQ(refusal({"decode", packed, dir / "c/"}, packed), "the tensors that are stored raw fail their checksum");
  EXPECT_FALSE(std::filesystem::exists(dir / "c"));
}

TEST_F(CliSafetensors, what_a_folder_is_not_for) {
  write_two();
  const std::string place = dir / "folder/";
  EXPECT_EQ(refusal({"decode", "--tensor", "w", model, place}, place),
            "a folder is for all tensors; with --tensor, name a .npy file");
  EXPECT_EQ(refusal({"decode", model, out}, out),
            "all tensors of the input need a name in .safetensors, or a folder, which ends in '/'; one needs --tensor");
  make_small_frame();
  EXPECT_EQ(refusal({"decode", frame, place}, place),
            "a folder is for the tensors of a safetensors file; name a .npy file for this frame");
  EXPECT_FALSE(std::filesystem::exists(place));
}

TEST_F(CliSafetensors, usage_errors) {
  scratch::write(model, safetensors("{" + described("a", "U16", "8", 0, 16) + "}", std::string(16, 'x')));
  EXPECT_EQ(tuck_cli({"encode", "--as", "bf16", model, packed}).code, 2);
  EXPECT_EQ(tuck_cli({"encode", "--chunk-values", "65536", model, packed}).code, 2);
  EXPECT_EQ(refusal({"encode", model, model}, model), "input and output are the same file");
  const std::string other = dir / "other.npy";
  EXPECT_EQ(refusal({"encode", model, other}, other),
            "the output is a safetensors file, and its name must end in .safetensors");
  scratch::write(other, npy(dict("<f4", "(2,)"), std::string(8, 'x')));
  EXPECT_EQ(refusal({"encode", other, packed}, packed),
            "the output is no safetensors file, because the input is none; choose another name");
}

}  // namespace
