#include "examples/cli_fixture.hpp"

#include <tuck/core/version.hpp>

#include <gtest/gtest.h>

#include <set>

namespace {

using namespace cli;

TEST_F(Cli, every_type_comes_back_byte_for_byte) {
  const std::pair<const char*, size_t> types[] = {{"|u1", 1}, {"|i1", 1}, {"|b1", 1}, {"<u2", 2}, {"<i2", 2},
                                                  {"<f2", 2}, {"<u4", 4}, {"<i4", 4}, {"<f4", 4}, {"<u8", 8},
                                                  {"<i8", 8}, {"<f8", 8}, {"=f4", 4}, {"f8", 8}};
  for (const auto& [descr, size] : types) {
    SCOPED_TRACE(descr);
    expect_round_trip(npy(dict(descr, "(3, 1234)"), sparse_data(3 * 1234 * size)));
  }
}

TEST_F(Cli, odd_headers_come_back_byte_for_byte) {
  const std::string data = sparse_data(24);
  for (const int version : {1, 2, 3}) expect_round_trip(npy(dict("<f4", "(2, 3)") + "     ", data, version));
  expect_round_trip(npy("{\"shape\":(2,3,),  'fortran_order' :False,'descr':\"<f4\"}\t ", data, 2));
}

TEST_F(Cli, empty_and_scalar_arrays) {
  expect_round_trip(npy(dict("<f8", "()"), sparse_data(16).substr(8)));
  EXPECT_EQ(info_json()["shape"], nlohmann::json::array());
  expect_round_trip(npy(dict("<f8", "(0,)"), ""));
  expect_round_trip(npy(dict("<f8", "(5, 0, 7)"), ""));
  EXPECT_EQ(info_json()["shape"], (nlohmann::json{5, 0, 7}));
  EXPECT_EQ(info_json()["chunks"].size(), 0u);
}

TEST_F(Cli, options_shape_the_frame) {
  const std::string content = npy(dict("<f4", "(100, 100)"), sparse_data(40000));
  expect_round_trip(content, {"--codec", "zvc", "--on", "host", "--chunk-values", "320", "--no-checksums"});
  nlohmann::json about = info_json();
  EXPECT_EQ(about["chunk_values"], 320);
  EXPECT_EQ(about["checksums"], false);
  EXPECT_EQ(about["chunks"].size(), 32u);
  EXPECT_NE(tuck_cli({"verify", frame}).out.find("no checksums"), std::string::npos);
  expect_round_trip(content);
  EXPECT_EQ(info_json()["checksums"], true);
}

TEST_F(Cli, device_and_host_make_the_same_files) {
  for (const auto& [descr, size] : {std::pair<const char*, size_t>{"|u1", 1}, {"<f2", 2}, {"<f4", 4}, {"<f8", 8}}) {
    SCOPED_TRACE(descr);
    const std::string content = npy(dict(descr, "(3, 3001)"), sparse_data(3 * 3001 * size));
    expect_round_trip(content);
    const std::string of_the_host = scratch::read(frame);
    expect_ok({"encode", "--on", "device", in, frame});
    EXPECT_EQ(scratch::read(frame), of_the_host);
    scratch::write(out, "");
    expect_ok({"decode", "--on", "device", frame, out});
    EXPECT_EQ(scratch::read(out), content);
  }
}

TEST_F(Cli, the_device_refuses_chunks_that_it_does_not_take) {
  scratch::write(in, npy(dict("<f4", "(3000,)"), sparse_data(12000)));
  EXPECT_EQ(refusal({"encode", "--on", "device", "--chunk-values", "8192", in, frame}, "--chunk-values", 2),
            "at most 4096 for f32 with --on device");
  expect_ok({"encode", "--chunk-values", "8192", in, frame});
  EXPECT_EQ(refusal({"decode", "--on", "device", frame, out}, frame),
            "the device codec does not support chunks of this size");
  EXPECT_EQ(dir.names(), (arguments{"in.npy", "x.tuck"}));
}

TEST_F(Cli, threads_do_not_change_the_frame) {
  const std::string content = npy(dict("<f4", "(1000, 1000)"), sparse_data(4000000));
  expect_round_trip(content, {"--threads", "1"});
  const std::string one = scratch::read(frame);
  expect_round_trip(content, {"--threads", "4"});
  EXPECT_EQ(scratch::read(frame), one);
  expect_ok({"decode", "--threads", "1", frame, out});
  EXPECT_EQ(scratch::read(out), content);
}

TEST_F(Cli, sixteen_bit_integers_as_bf16) {
  for (const char* descr : {"<u2", "<i2"}) {
    expect_round_trip(npy(dict(descr, "(999,)"), sparse_data(1998)), {"--as", "bf16"});
    EXPECT_EQ(info_json()["dtype"], "bf16");
  }
  scratch::write(in, npy(dict("<f4", "(2,)"), sparse_data(8)));
  EXPECT_EQ(refusal({"encode", "--as", "bf16", in, frame}, in), "--as bf16 takes 16-bit integers, not f32");
}

TEST_F(Cli, eight_bit_integers_as_8_bit_floats) {
  for (const char* type : {"f8e4m3", "f8e5m2"})
    for (const char* codec : {"zvc", "codebooks", "huffman"}) {
      expect_round_trip(npy(dict("|u1", "(999,)"), sparse_data(999)), {"--codec", codec, "--as", type});
      EXPECT_EQ(info_json()["dtype"], type);
    }
  EXPECT_EQ(refusal({"encode", "--codec", "quantize", "--error-bound", "1", "--as", "f8e4m3", in, frame}, in),
            "quantize takes f16, bf16, f32, f64, not f8e4m3");
  EXPECT_EQ(refusal({"encode", "--codec", "codebooks", in, frame}, in),
            "codebooks takes f16, bf16, f32, f8e4m3, f8e5m2, not u8");
  scratch::write(in, npy(dict("<u2", "(2,)"), sparse_data(4)));
  EXPECT_EQ(refusal({"encode", "--as", "f8e4m3", in, frame}, in), "--as f8e4m3 takes 8-bit integers, not u16");
}

// As numpy.save writes bf16 and 8-bit floats of ml_dtypes.
TEST_F(Cli, values_of_a_declared_type) {
  for (const auto& [descr, type] : {std::pair{"<V2", "bf16"},
                                    {"|V2", "u16"},
                                    {"<V1", "f8e4m3"},
                                    {"|V1", "f8e5m2"},
                                    {"<f1", "f8e5m2"},
                                    {"<V1", "u8"}}) {
    SCOPED_TRACE(descr);
    const size_t size = descr[2] == '2' ? 2 : 1;
    expect_round_trip(npy(dict(descr, "(3, 333)"), sparse_data(999 * size)), {"--as", type});
    EXPECT_EQ(info_json()["dtype"], type);
    EXPECT_EQ(tuck_cli({"compare", "--as", type, in, out}).code, 0);
    EXPECT_EQ(tuck_cli({"compare", in, out}).code, 2);
  }
  EXPECT_EQ(refusal({"encode", "--as", "bf16", in, frame}, in), "--as bf16 takes 16-bit integers, not u8");
}

TEST_F(Cli, elements_of_types_that_the_library_lacks_are_bytes) {
  for (const auto& [descr, size] : {std::pair{"<c8", 8u}, {">f4", 4u}, {"|S5", 5u}, {"<U3", 12u}, {"<M8[ns]", 8u}}) {
    SCOPED_TRACE(descr);
    expect_round_trip(npy(dict(descr, "(3, 333)"), sparse_data(999 * size)), {"--as", "u8"});
    EXPECT_EQ(info_json()["shape"], (nlohmann::json{3, 333, size}));
    EXPECT_EQ(tuck_cli({"compare", "--as", "u8", in, out}).code, 0);
  }
  const std::string base = dir / "base.npy", delta = dir / "delta.tuck";
  scratch::write(base, npy(dict("<c16", "(3, 333)"), sparse_data(999 * 16)));  // in has elements of half the size
  EXPECT_EQ(tuck_cli({"compare", "--as", "u8", in, base}).code, 2);
  EXPECT_EQ(refusal({"encode", "--as", "u8", "--base", base, in, delta}, base),
            "the base is u8 3x333x16, the array u8 3x333x8");
  scratch::write(in, npy(dict("<c8", "(1,)"), "abcdefgh"));
  EXPECT_EQ(refusal({"encode", in, frame}, in), "unsupported dtype '<c8'; pass --as u8");
  EXPECT_EQ(refusal({"encode", "--as", "f8e4m3", in, frame}, in), "--as f8e4m3 takes 8-bit integers, not <c8");
  EXPECT_EQ(refusal({"encode", "--as", "bf16", in, frame}, in), "--as bf16 takes 16-bit integers, not <c8");
}

TEST_F(Cli, fortran_order_stays) {
  const std::string header = "{'descr': '<f4', 'fortran_order': True, 'shape': (30, 11)}";
  expect_round_trip(npy(header, sparse_data(1320)));
  EXPECT_EQ(info_json()["shape"], (nlohmann::json{30, 11}));
  expect_ok({"compare", in, out});
  const std::string base = dir / "base.npy", delta = dir / "delta.tuck";
  scratch::write(base, npy(header, std::string(1320, 'x')));
  expect_ok({"encode", "--base", base, in, delta});
  expect_ok({"decode", "--base", base, delta, out});
  EXPECT_EQ(scratch::read(out), scratch::read(in));
  scratch::write(base, npy(dict("<f4", "(30, 11)"), std::string(1320, 'x')));
  EXPECT_EQ(refusal({"encode", "--base", base, in, delta}, base),
            "the base is f32 30x11, the array f32 30x11 in Fortran order");
}

TEST_F(Cli, info_json_has_exactly_its_keys_and_true_offsets) {
  std::string data = sparse_data(1024 * 4);                               // shrinks
  for (int i = 0; i < 4096; ++i) data += static_cast<char>(i % 255 + 1);  // does not
  data += std::string(4096, '\0') + std::string(4000, 'u');               // all alike
  scratch::write(in, npy(dict("<f4", "(4, 1018)"), data.substr(0, 4 * 4 * 1018)));
  expect_ok({"encode", "--chunk-values", "1024", in, frame});
  const nlohmann::json about = info_json();
  const std::string content = scratch::read(frame);

  std::set<std::string> keys;
  for (const auto& [key, value] : about.items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"codec", "error_bound", "row", "dtype", "shape", "values", "raw_bytes",
                                         "frame_bytes", "ratio", "chunk_values", "alignment", "checksums",
                                         "base_digest", "result_digest", "metadata_bytes", "chunks"}));
  EXPECT_TRUE(about["base_digest"].is_null());
  EXPECT_TRUE(about["error_bound"].is_null());
  EXPECT_EQ(about["codec"], "zvc");
  EXPECT_EQ(about["dtype"], "f32");
  EXPECT_EQ(about["shape"], (nlohmann::json{4, 1018}));
  EXPECT_EQ(about["values"], 4072);
  EXPECT_EQ(about["raw_bytes"], 16288);
  EXPECT_EQ(about["frame_bytes"], content.size());
  EXPECT_DOUBLE_EQ(about["ratio"], 16288.0 / static_cast<double>(content.size()));
  EXPECT_EQ(about["alignment"], 32);
  EXPECT_EQ(about["metadata_bytes"], npy(dict("<f4", "(4, 1018)"), "").size());

  const char* const kinds[] = {"encoded", "raw", "uniform", "uniform"};
  ASSERT_EQ(about["chunks"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const nlohmann::json& chunk = about["chunks"][i];
    EXPECT_EQ(chunk.size(), 4u);
    EXPECT_EQ(chunk["kind"], kinds[i]);
    EXPECT_EQ(chunk["values"], i < 3 ? 1024 : 1000);
    EXPECT_LE(chunk["offset"].get<size_t>() + chunk["bytes"].get<size_t>(), content.size());
    EXPECT_EQ(chunk["offset"].get<size_t>() % 32, 0u);
  }
  EXPECT_EQ(content.substr(about["chunks"][1]["offset"], about["chunks"][1]["bytes"]), data.substr(4096, 4096));
  EXPECT_EQ(about["chunks"][2]["bytes"], 0);
  EXPECT_EQ(content.substr(about["chunks"][3]["offset"], about["chunks"][3]["bytes"]), "uuuu");
}

TEST_F(Cli, info_for_people) {
  make_small_frame();
  const answer a = tuck_cli({"info", frame});
  EXPECT_EQ(a.code, 0);
  for (const char* part : {"zvc", "u16 3000", "6000 bytes", "2 of 2048 values", "encoded", "raw", "uniform"})
    EXPECT_NE(a.out.find(part), std::string::npos) << part << '\n' << a.out;
}

TEST_F(Cli, verify_says_what_it_checked) {
  make_small_frame();
  EXPECT_EQ(tuck_cli({"verify", frame}).out, frame + ": ok, 3000 values in 2 chunks, checksums verified\n");
}

TEST_F(Cli, decodes_to_standard_output) {
  make_small_frame();
  const answer a = tuck_cli({"decode", frame, "/dev/stdout"});
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(a.out, scratch::read(in));
}

TEST_F(Cli, help_and_version) {
  for (const arguments& words : {arguments{"--help"},
                                 {"encode", "--help"},
                                 {"decode", "-h"},
                                 {"info", "--help"},
                                 {"verify", "--help"},
                                 {"compare", "--help"}}) {
    const answer a = tuck_cli(words);
    EXPECT_EQ(a.code, 0);
    EXPECT_NE(a.out.find("Usage: tuck"), std::string::npos);
    EXPECT_EQ(a.err, "");
  }
  const std::string version = "tuck " + std::to_string(tuck::version_major) + "." +
                              std::to_string(tuck::version_minor) + "." + std::to_string(tuck::version_patch) + "\n";
  EXPECT_EQ(tuck_cli({"--version"}).out, version);
}

}  // namespace
