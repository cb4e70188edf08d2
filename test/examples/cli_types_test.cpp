// Files with tensors of many types: what each codec leaves as it is, codecs by type, and types that the library lacks.
#include "examples/cli_fixture.hpp"

#include <cstring>
#include <map>
#include <tuple>

namespace {

using namespace cli;

class CliTypes : public Cli {
 protected:
  const std::string model = dir / "model.safetensors", packed = dir / "packed.safetensors",
                    back = dir / "back.safetensors";

  // Encodes and decodes. Returns what encode says. Lossless: the file comes back.
  std::string round_trip(const arguments& options, bool lossless = true) {
    arguments words{"encode", model, packed};
    words.insert(words.end(), options.begin(), options.end());
    const answer a = tuck_cli(words);
    EXPECT_EQ(a.code, 0) << a.err;
    EXPECT_EQ(a.err, "");
    EXPECT_EQ(tuck_cli({"verify", packed}).code, 0);
    expect_ok({"decode", packed, back});
    EXPECT_EQ(scratch::read(back) == scratch::read(model), lossless);
    return a.out;
  }

  // The codecs of the tensors, by name; "raw" for those that are stored so.
  std::map<std::string, std::string> codecs() {
    std::map<std::string, std::string> found;
    const auto about = nlohmann::json::parse(tuck_cli({"info", "--json", packed}).out);
    for (const auto& t : about["tensors"])
      found[t["name"]] = t.contains("codec") ? t["codec"].get<std::string>() : "raw";
    return found;
  }

  // The header and the data of a safetensors file.
  static std::pair<nlohmann::json, std::string> parts(const std::string& path) {
    const std::string content = scratch::read(path);
    uint64_t length = 0;
    std::memcpy(&length, content.data(), 8);
    return {nlohmann::json::parse(content.substr(8, length)), content.substr(8 + length)};
  }

  // Weights that shrink, a counter, a mask and a table, as checkpoints have them.
  void write_checkpoint() {
    std::string data;
    for (int i = 0; i < 4000; ++i) {
      const float value = 1 + static_cast<float>(i * 37 % 101) / 128;
      data.append(reinterpret_cast<const char*>(&value), 4);
    }
    data += std::string("\7\0\0\0\0\0\0\0", 8) + std::string(64, '\1') + data.substr(0, 8000);
    scratch::write(model, safetensors("{" + described("w", "F32", "40, 100", 0, 16000) + "," +
                                          described("batches", "I64", "", 16000, 16008) + "," +
                                          described("mask", "BOOL", "64", 16008, 16072) + "," +
                                          described("table", "C64", "1000", 16072, 24072) + "}",
                                      data));
  }
};

using named = std::map<std::string, std::string>;

TEST_F(CliTypes, tensors_that_a_codec_does_not_take_stay_as_they_are) {
  write_checkpoint();
  const std::string left_out = model +
                               ": stored raw, because --codec has no codec for their type: "
                               "batches (I64), mask (BOOL), table (C64)\n";
  EXPECT_EQ(round_trip({"--codec", "codebooks"}), left_out);
  EXPECT_EQ(codecs(), (named{{"w", "codebooks"}, {"batches", "raw"}, {"mask", "raw"}, {"table", "raw"}}));
  EXPECT_EQ(round_trip({"--codec", "quantize", "--error-bound", "1e-3"}, false), left_out);
  EXPECT_EQ(codecs(), (named{{"w", "quantize"}, {"batches", "raw"}, {"mask", "raw"}, {"table", "raw"}}));
  const auto [header, data] = parts(packed);
  const auto [original, values] = parts(model);
  for (const char* name : {"batches", "mask", "table"}) {
    const auto& now = header[name];
    const auto& before = original[name];
    EXPECT_EQ(now["dtype"], before["dtype"]);
    EXPECT_EQ(now["shape"], before["shape"]);
    const auto text = [](const nlohmann::json& t, const std::string& all) {
      return all.substr(t["data_offsets"][0], t["data_offsets"][1].get<size_t>() - t["data_offsets"][0].get<size_t>());
    };
    EXPECT_EQ(text(now, data), text(before, values));
    EXPECT_EQ(text(parts(back).first[name], parts(back).second), text(before, values));
  }
}

TEST_F(CliTypes, many_names_are_counted) {
  std::string json;
  for (size_t i = 0; i < 20; ++i)
    json += (i == 0 ? "" : ",") + described("n" + std::to_string(i), "I64", "", 8 * i, 8 * i + 8);
  scratch::write(model, safetensors("{" + json + "}", dense_data(160)));
  EXPECT_NE(round_trip({"--codec", "codebooks"}).find("n0 (I64), n1 (I64), n2 (I64)"), std::string::npos);
  EXPECT_NE(round_trip({"--codec", "codebooks"}).find("n11 (I64), and 8 more\n"), std::string::npos);
  // Whatever their length: one is named, and a line stays short.
  json.clear();
  for (size_t i = 0; i < 20; ++i)
    json += (i == 0 ? "" : ",") + described(std::string(200, 'n') + std::to_string(i), "I64", "", 8 * i, 8 * i + 8);
  scratch::write(model, safetensors("{" + json + "}", dense_data(160)));
  EXPECT_NE(round_trip({"--codec", "codebooks"}).find(std::string(80, 'n') + " (I64), and 19 more\n"),
            std::string::npos);
}

TEST_F(CliTypes, codecs_by_type) {
  write_checkpoint();
  EXPECT_EQ(round_trip({"--codec", "f32=codebooks,*=rle"}), "");
  EXPECT_EQ(codecs(), (named{{"w", "codebooks"}, {"batches", "raw"}, {"mask", "raw"}, {"table", "rle"}}));
  EXPECT_EQ(round_trip({"--codec", "F32=quantize,i64=zvc,u8=huffman", "--error-bound", "1e-2"}, false), "");
  EXPECT_EQ(codecs(), (named{{"w", "quantize"}, {"batches", "raw"}, {"mask", "raw"}, {"table", "huffman"}}));
  EXPECT_EQ(round_trip({"--codec", " f32 = codebooks , *= rle "}), "");
  EXPECT_EQ(codecs(), (named{{"w", "codebooks"}, {"batches", "raw"}, {"mask", "raw"}, {"table", "rle"}}));
  EXPECT_EQ(round_trip({"--codec", "u8=huffman"}),
            model + ": stored raw, because --codec has no codec for their type: w (F32), batches (I64)\n");
  scratch::write(in, npy(dict("<f4", "(3000,)"), sparse_data(12000)));
  expect_ok({"encode", "--codec", "f32=rle,*=zvc", in, frame});
  EXPECT_EQ(info_json()["codec"], "rle");
  EXPECT_EQ(refusal({"encode", "--codec", "i64=rle", in, frame}, in), "no codec for f32");
}

TEST_F(CliTypes, wrong_rules_are_bad_usage) {
  write_checkpoint();
  const auto complaint = [&](const std::string& rules) {
    const answer a = tuck_cli({"encode", "--codec", rules, model, packed});
    EXPECT_EQ(a.code, 2) << rules;
    EXPECT_EQ(a.out, "");
    return a.err;
  };
  const std::string types =
      "; there are u8, i8, f8e4m3, f8e5m2, u16, i16, f16, bf16, u32, i32, f32, u64, i64, f64 and *\n";
  EXPECT_EQ(complaint("f32=zvc,i64=rle,f32=zvc"), "tuck: --codec: two codecs for 'f32'\n");
  EXPECT_EQ(complaint("f8e4m3=zvc,F8_E4M3=zvc"), "tuck: --codec: two codecs for 'F8_E4M3'\n");
  EXPECT_EQ(complaint("*=zvc,*=rle"), "tuck: --codec: two codecs for '*'\n");
  EXPECT_EQ(complaint("f31=zvc"), "tuck: --codec: unknown type 'f31'" + types);
  EXPECT_EQ(complaint("=zvc"), "tuck: --codec: unknown type ''" + types);
  EXPECT_TRUE(complaint("f32=zip").starts_with("tuck: --codec: unknown codec 'zip'; there are zvc, rle, "));
  EXPECT_TRUE(complaint("f32=").starts_with("tuck: --codec: unknown codec ''; there are zvc, rle, "));
  EXPECT_TRUE(complaint("zip").starts_with("tuck: --codec: unknown codec 'zip'; there are zvc, rle, "));
  EXPECT_TRUE(complaint("f32").starts_with("tuck: --codec: unknown codec 'f32'; there are zvc, rle, "));
  EXPECT_TRUE(complaint("").starts_with("tuck: --codec: unknown codec ''; there are zvc, rle, "));
  EXPECT_TRUE(complaint(" ").starts_with("tuck: --codec: unknown codec ''; there are zvc, rle, "));
  EXPECT_EQ(complaint("f32=zvc, rle zvc=rle"), "tuck: --codec: unknown type 'rle zvc'" + types);
  EXPECT_EQ(complaint("f32=zvc,rle"), "tuck: --codec: 'rle' is not TYPE=CODEC\n");
  EXPECT_EQ(complaint("f32=zvc,"), "tuck: --codec: '' is not TYPE=CODEC\n");
  EXPECT_EQ(complaint("i64=quantize"), "tuck: --codec: quantize takes f16, bf16, f32, f64, not i64\n");
  EXPECT_EQ(tuck_cli({"encode", "--base", model, "--codec", "f32=quantize,*=zvc", model, packed}).err,
            "tuck: --base needs a lossless codec, not quantize\n");
  EXPECT_FALSE(std::filesystem::exists(packed));
}

TEST_F(CliTypes, chains_take_every_type_of_their_stages) {
  for (const char* codec : {"zvc+huffman", "zvc+rle+huffman", "delta+rle+bitpack"})
    for (const auto& [descr, type] : {std::pair{"|b1", "u8"}, {"|i1", "i8"}, {"<u2", "u16"}, {"<i8", "i64"}}) {
      SCOPED_TRACE(std::string(codec) + ' ' + descr);
      expect_round_trip(npy(dict(descr, "(3, 1001)"), sparse_data(3003 * static_cast<size_t>(descr[2] - '0'))),
                        {"--codec", codec});
      EXPECT_EQ(info_json()["codec"], codec);
      EXPECT_EQ(info_json()["dtype"], type);
    }
}

TEST_F(CliTypes, tensors_whose_frames_would_be_larger_are_stored_raw) {
  // Values that are aligned in the file that was encoded, and must be in the other.
  std::string json = described("odd", "U8", "3", 0, 3), expected;
  const std::string data = dense_data(3 + 20 * 256 + 8);
  for (size_t i = 0; i < 20; ++i)
    json += "," + described("n" + std::to_string(i), "F32", "64", 3 + 256 * i, 259 + 256 * i);
  json += "," + described("c", "C64", "1", 5123, 5131);
  scratch::write(model, safetensors("{" + json + "}", data));
  const std::string said = round_trip({});
  const auto [header, values] = parts(packed);
  EXPECT_EQ(values, data.substr(3) + data.substr(0, 3));
  EXPECT_EQ(said, model + ": the output is larger, " + std::to_string(scratch::read(packed).size()) +
                      " bytes instead of " + std::to_string(scratch::read(model).size()) + "\n");
  EXPECT_EQ(header["n3"]["dtype"], "F32");
  EXPECT_EQ(header["n3"]["shape"], nlohmann::json{64});
  EXPECT_EQ(header["n3"]["data_offsets"], (nlohmann::json{768, 1024}));
  EXPECT_EQ(tuck_cli({"verify", packed}).out,
            packed + ": ok, 1291 values of 22 tensors in 0 chunks, checksums verified\n");
  const std::string table = tuck_cli({"info", packed}).out;
  EXPECT_NE(table.find("F32 64                   raw                                 256            256     1.00  n3"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("5131           5131     1.00  22 tensors"), std::string::npos) << table;

  // What is damaged is noticed.
  std::string damaged = scratch::read(packed);
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  scratch::write(packed, damaged);
  scratch::write(back, "precious");
  const std::string reason = "the tensors that are stored raw fail their checksum";
  EXPECT_EQ(refusal({"verify", packed}, packed), reason);
  EXPECT_EQ(refusal({"decode", packed, back}, packed), reason);
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  damaged.replace(damaged.find("\"F32\""), 5, "\"I32\"");
  scratch::write(packed, damaged);
  EXPECT_NE(refusal({"decode", packed, back}, packed).find("it is stored as I32 64, the tensor is F32 64"),
            std::string::npos);
  EXPECT_EQ(scratch::read(back), "precious");
}

// A delta has the values of a tensor that does not shrink, whatever the base.
TEST_F(CliTypes, deltas_of_small_tensors_and_of_types_that_the_library_lacks) {
  const std::string base = dir / "base.safetensors";
  const std::string json = "{" + described("small", "F32", "4", 0, 16) + "," + described("w", "F4", "4000", 16, 2016) +
                           "," + described("s", "F8_E8M0", "600", 2016, 2616) + "}";
  std::string data = dense_data(2616);
  scratch::write(base, safetensors(json, data));
  for (const size_t at : {0u, 20u, 2600u}) data[at] = static_cast<char>(data[at] ^ 2);
  scratch::write(model, safetensors(json, data));
  expect_ok({"encode", "--base", base, model, packed});
  EXPECT_EQ(codecs(), (named{{"small", "raw"}, {"w", "zvc+huffman"}, {"s", "zvc+huffman"}}));
  expect_ok({"decode", "--base", base, packed, back});
  EXPECT_EQ(scratch::read(back), scratch::read(model));
}

TEST_F(CliTypes, types_that_the_library_lacks_are_bytes) {
  for (const auto& [type, shape, bytes] : {std::tuple<const char*, const char*, size_t>{"F4", "64, 100", 3200},
                                           {"F6_E2M3", "64, 100", 4800},
                                           {"F6_E3M2", "4, 1000", 3000},
                                           {"F8_E8M0", "3200", 3200},
                                           {"F8_E4M3FNUZ", "3200", 3200},
                                           {"F8_E5M2FNUZ", "3200", 3200},
                                           {"C64", "400", 3200},
                                           {"C128", "200", 3200},
                                           {"I2", "64, 200", 3200},
                                           {"F4", "0, 3", 0},
                                           {"NEXT", "0", 0},
                                           {"NEXT\\u0000", "2", 4}}) {
    SCOPED_TRACE(std::string(type) + ' ' + shape);
    scratch::write(model, safetensors("{" + described("pad", "U8", "1000", 0, 1000) + "," +
                                          described("t", type, shape, 1000, 1000 + bytes) + "}  ",
                                      std::string(1000, 'x') + sparse_data(bytes)));
    for (const char* codec : {"zvc", "huffman", "zvc+rle+huffman"}) {
      EXPECT_EQ(round_trip({"--codec", codec}), "");
      EXPECT_EQ(codecs()["t"], bytes < 1000 ? "raw" : codec);
    }
    EXPECT_NE(round_trip({"--codec", "codebooks"}), "");
    EXPECT_EQ(codecs()["t"], "raw");
  }
}

TEST_F(CliTypes, sizes_that_cannot_be_are_refused_by_name) {
  const auto reason = [&](const char* type, const char* shape, size_t bytes) {
    scratch::write(model, safetensors("{" + described("t", type, shape, 0, bytes) + "}", std::string(bytes, 'x')));
    const std::string why = refusal({"encode", model, packed}, model);
    EXPECT_EQ(refusal({"info", model}, model), why);
    EXPECT_TRUE(why.starts_with("tensor 't': ")) << why;
    return why.substr(std::min<size_t>(why.size(), 12));
  };
  EXPECT_EQ(reason("F4", "3", 2), "its 3 values of F4 are no whole bytes");
  EXPECT_EQ(reason("F4", "3, 3", 5), "its 9 values of F4 are no whole bytes");
  EXPECT_EQ(reason("F4", "", 1), "its 1 values of F4 are no whole bytes");
  EXPECT_EQ(reason("F6_E2M3", "2", 2), "its 2 values of F6_E2M3 are no whole bytes");
  EXPECT_EQ(reason("F6_E3M2", "6", 5), "its 6 values of F6_E3M2 are no whole bytes");
  EXPECT_EQ(reason("F6_E3M2", "8", 8), "its 'data_offsets' are 8 bytes apart, its shape needs 6");
  EXPECT_EQ(reason("C64", "2", 8), "its 'data_offsets' are 8 bytes apart, its shape needs 16");
  EXPECT_EQ(reason("F8_E8M0", "2", 1), "its 'data_offsets' are 1 bytes apart, its shape needs 2");
  EXPECT_EQ(reason("F4", "0", 1), "its 'data_offsets' are 1 bytes apart, its shape needs 0");
  const std::string bits = " bytes apart, no whole number of bits for each of its ";
  EXPECT_EQ(reason("NEXT", "64", 63), "its 'data_offsets' are 63" + bits + "64 values");
  EXPECT_EQ(reason("NEXT", "64", 0), "its 'data_offsets' are 0" + bits + "64 values");
  EXPECT_EQ(reason("NEXT", "0, 2", 3), "its 'data_offsets' are 3" + bits + "0 values");
  EXPECT_EQ(reason("NEXT", "4294967296, 4294967296", 8), "the shape is too large");
  EXPECT_EQ(dir.names(), arguments{"model.safetensors"});
}

// To the parser of JSON, a NUL is the end. The reference refuses it everywhere.
TEST_F(CliTypes, a_nul_in_the_header_is_refused) {
  const std::string good = "{" + described("t", "U8", "8", 0, 8) + "}", nul(1, '\0');
  for (const std::string& json : {good + nul, good + "  " + nul, good + nul + "  ", good + nul + "{\"hidden\": 1}",
                                  "{" + nul + good.substr(1), good.substr(0, 3) + nul + good.substr(3)}) {
    scratch::write(model, safetensors(json, "12345678"));
    EXPECT_EQ(refusal({"encode", model, packed}, model), "the safetensors header has a byte 0");
    EXPECT_EQ(refusal({"info", model}, model), "the safetensors header has a byte 0");
  }
  for (const char* behind : {"x", "{}", "\f", "  ,"}) {
    scratch::write(model, safetensors(good + behind, "12345678"));
    EXPECT_EQ(refusal({"encode", model, packed}, model), "the safetensors header is not a JSON object") << behind;
  }
  for (const char* behind : {"", " ", "\t\r\n  "}) {
    scratch::write(model, safetensors(good + behind, "12345678"));
    round_trip({});
  }
  scratch::write(model, safetensors("{\"__metadata__\": null, " + good.substr(1), "12345678"));
  round_trip({});
}

}  // namespace
