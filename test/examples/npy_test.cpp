#include "support/npy.hpp"

#include "support/scratch.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace {

using namespace tuck::tools;
using scratch::dict;
using scratch::npy;

npy_header parse(const std::string& content) { return parse_npy_header(bytes_of(content), "a.npy"); }

// What is wrong with it, without the file's name.
std::string complaint(const std::string& content) {
  try {
    parse(content);
  } catch (const file_error& e) {
    const std::string text = e.what();
    EXPECT_TRUE(text.starts_with("a.npy: ")) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text.substr(7);
  }
  return "";
}

std::string reading_complaint(const std::string& path) {
  try {
    read_npy(path);
  } catch (const file_error& e) {
    const std::string text = e.what();
    EXPECT_TRUE(text.starts_with(path + ": ")) << text;
    return text.substr(path.size() + 2);
  }
  return "";
}

std::string text_of(tuck::const_bytes data) {
  return {reinterpret_cast<const char*>(data.data()), static_cast<size_t>(data.size())};
}

TEST(NpyHeader, every_element_type) {
  const std::pair<const char*, tuck::dtype> types[] = {
      {"|u1", tuck::dtype::u8},  {"|i1", tuck::dtype::i8},  {"|b1", tuck::dtype::u8},  {"<u2", tuck::dtype::u16},
      {"<i2", tuck::dtype::i16}, {"<u4", tuck::dtype::u32}, {"<i4", tuck::dtype::i32}, {"<u8", tuck::dtype::u64},
      {"<i8", tuck::dtype::i64}, {"<f2", tuck::dtype::f16}, {"<f4", tuck::dtype::f32}, {"<f8", tuck::dtype::f64},
      {"=f4", tuck::dtype::f32}, {"f8", tuck::dtype::f64},  {"=u2", tuck::dtype::u16}, {"i4", tuck::dtype::i32},
      {"?", tuck::dtype::u8},    {"u1", tuck::dtype::u8},   {">i1", tuck::dtype::i8},
  };
  for (const auto& [descr, type] : types) EXPECT_EQ(parse(npy(dict(descr, "(2, 3)"), "")).type, type) << descr;
}

TEST(NpyHeader, refuses_other_types_by_name) {
  for (const char* descr :
       {"|O",   "<W4",  "<V", "|V0",  "<U0",   "|S",   "<U536870912", "|S2147483648", "|S99999999999",
        "|S5x", "f",    "",   "<",    ">",     "<f44", "float32",     "<<f4",         ">>f4",
        "e",    "<f4 ", "<M", "<M8[", "<M8ns]"})
    EXPECT_EQ(complaint(npy(dict(descr, "(1,)"), "")), "unsupported dtype '" + std::string(descr) + "'");
  EXPECT_EQ(complaint(npy("{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (1,), }", "")),
            "unsupported dtype: a structured one");
}

TEST(NpyHeader, other_types_are_bytes) {
  for (const auto& [descr, bytes] : {std::pair{">f4", 4u},
                                     {">u2", 2u},
                                     {">i8", 8u},
                                     {"<c8", 8u},
                                     {">c8", 8u},
                                     {"<c16", 16u},
                                     {"<c32", 32u},
                                     {"<f16", 16u},
                                     {"|S5", 5u},
                                     {"<U3", 12u},
                                     {"<U536870911", 2147483644u},
                                     {"|V4", 4u},
                                     {">V2", 2u},
                                     {"<M8[ns]", 8u},
                                     {"<m8[25s]", 8u},
                                     {"<M8", 8u}}) {
    const npy_header header = parse(npy(dict(descr, "(2, 3)"), ""));
    EXPECT_EQ(header.type, tuck::dtype::u8) << descr;
    EXPECT_EQ(header.opaque, descr);
    EXPECT_EQ(header.element_bytes, bytes) << descr;
    EXPECT_EQ(header.shape, (std::vector<uint64_t>{2, 3, bytes})) << descr;
    EXPECT_EQ(header.values, uint64_t{6} * bytes) << descr;
  }
  EXPECT_EQ(parse(npy(dict("<c8", "()"), "")).values, 8u);
  EXPECT_FALSE(parse(npy("{'descr': '<c8', 'fortran_order': True, 'shape': (6,)}", "")).fortran_order);
  EXPECT_EQ(complaint(npy(dict("<c8", "(1152921504606846976,)"), "")), "the shape is too large");
}

// numpy.save writes the types of ml_dtypes so.
TEST(NpyHeader, types_that_say_a_size_only) {
  for (const auto& [descr, type] : {std::pair{"<V2", tuck::dtype::u16},
                                    {"|V2", tuck::dtype::u16},
                                    {"<V1", tuck::dtype::u8},
                                    {"|V1", tuck::dtype::u8},
                                    {">V1", tuck::dtype::u8},
                                    {"<f1", tuck::dtype::u8}}) {
    EXPECT_EQ(parse(npy(dict(descr, "(2, 3)"), "")).type, type) << descr;
    EXPECT_EQ(parse(npy(dict(descr, "(2, 3)"), "")).opaque, descr);
  }
  EXPECT_EQ(parse(npy(dict("<u2", "(2, 3)"), "")).opaque, "");
}

TEST(NpyHeader, fortran_order) {
  const auto header = [](const char* shape, const char* order) {
    return parse(npy("{'descr': '<f4', 'fortran_order': " + std::string(order) + ", 'shape': " + shape + "}", ""));
  };
  EXPECT_TRUE(header("(2, 3)", "True").fortran_order);
  EXPECT_EQ(array_text(header("(2, 3)", "True")), "f32 2x3 in Fortran order");
  EXPECT_EQ(array_text(header("(2, 3)", "False")), "f32 2x3");
  for (const char* shape : {"()", "(6,)"}) EXPECT_FALSE(header(shape, "True").fortran_order) << shape;
}

TEST(NpyHeader, any_order_spacing_and_quotes) {
  for (const char* text : {
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
           "{'shape':(2,3),'fortran_order':False,'descr':'<f4'}",
           "{\"fortran_order\": False, \"shape\": (2, 3,), \"descr\": \"<f4\"}",
           "  { 'descr' :\t'<f4' ,\n 'shape' : ( 2 , 3 ) , 'fortran_order' : False , }   \t ",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",
       }) {
    const npy_header header = parse(npy(text, ""));
    EXPECT_EQ(header.type, tuck::dtype::f32) << text;
    EXPECT_EQ(header.shape, (std::vector<uint64_t>{2, 3})) << text;
    EXPECT_EQ(header.values, 6u) << text;
  }
}

TEST(NpyHeader, all_three_versions_keep_their_prelude) {
  for (const int version : {1, 2, 3}) {
    const std::string content = npy(dict("<f4", "(2,)"), "", version);
    EXPECT_EQ(parse(content + "abcdefgh").prelude, content);
  }
  EXPECT_EQ(complaint(npy(dict("<f4", "(2,)"), "", 4)), "unsupported .npy version 4.0");
  std::string content = npy(dict("<f4", "(2,)"), "");
  content[7] = 1;
  EXPECT_EQ(complaint(content), "unsupported .npy version 1.1");
}

TEST(NpyHeader, shapes) {
  const auto values = [](const char* shape) { return parse(npy(dict("<f8", shape), "")).values; };
  EXPECT_EQ(values("()"), 1u);
  EXPECT_EQ(values("(0,)"), 0u);
  EXPECT_EQ(values("(7,)"), 7u);
  EXPECT_EQ(values("(2, 3, 4)"), 24u);
  EXPECT_EQ(values("(1152921504606846975, 0)"), 0u);
  EXPECT_EQ(values("(1152921504606846975,)"), 1152921504606846975u);
}

// As NumPy does, which counts without dimensions of 0.
TEST(NpyHeader, refuses_shapes_that_do_not_fit) {
  for (const char* shape :
       {"(9223372036854775808, 0)", "(0, 4611686018427387904, 4)", "(4611686018427387904, 2, 0)",
        "(1152921504606846976, 0)", "(1152921504606846976,)", "(2305843009213693952,)", "(18446744073709551616,)",
        "(4294967296, 4294967296)", "(99999999999999999999999999999,)", "(18446744073709551615,)"})
    EXPECT_EQ(complaint(npy(dict("<f8", shape), "")), "the shape is too large") << shape;
}

TEST(NpyHeader, refuses_malformed_text) {
  for (const char* text : {
           "",
           "{",
           "}",
           "[]",
           "{'descr'}",
           "{'descr': '<f4'",
           "{'descr': '<f4}",
           "{'descr' '<f4'}",
           "{descr: '<f4'}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (3,,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (3,}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}",
           "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
           "{'descr': '<f4', 'fortran_order': false, 'shape': (3,)}",
           "{'descr': '<f4' 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}}",
           "{, 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': 4, 'fortran_order': False, 'shape': (3,)}",
       })
    EXPECT_TRUE(complaint(npy(text, "")).starts_with("malformed .npy header: ")) << text << '\n'
                                                                                 << complaint(npy(text, ""));
  EXPECT_TRUE(complaint(npy(dict("<f4", "(3,)") + std::string(1, '\0'), "")).starts_with("malformed .npy header: "));
}

TEST(NpyHeader, refuses_wrong_keys) {
  EXPECT_EQ(complaint(npy("{'descr': '<f4', 'fortran_order': False}", "")), "the .npy header has no 'shape'");
  EXPECT_EQ(complaint(npy("{'descr': '<f4', 'shape': ()}", "")), "the .npy header has no 'fortran_order'");
  EXPECT_EQ(complaint(npy("{}", "")), "the .npy header has no 'descr'");
  EXPECT_EQ(complaint(npy("{'descr': '<f4', 'descr': '<f4'}", "")), "the .npy header has two 'descr'");
  EXPECT_EQ(complaint(npy("{'a\nb': 1}", "")), "the .npy header has an unknown key 'a?b'");
}

TEST(NpyHeader, every_truncation_is_refused) {
  for (const int version : {1, 2}) {
    const std::string content = npy(dict("<f4", "(2,)"), "", version);
    for (size_t size = 0; size < content.size(); ++size) EXPECT_NE(complaint(content.substr(0, size)), "") << size;
  }
  EXPECT_EQ(complaint(""), "not a .npy file");
  EXPECT_EQ(complaint("PK\3\4 and so on"), "not a .npy file");
  EXPECT_EQ(complaint("\x93NUMPY"), "truncated .npy header: 6 bytes of 10");
}

TEST(NpyHeader, every_damaged_byte_ends_in_an_answer) {
  const std::string good = npy(dict("<f4", "(2, 3)"), "");
  for (size_t i = 0; i < good.size(); ++i)
    for (int byte = 0; byte < 256; ++byte) {
      std::string bad = good;
      bad[i] = static_cast<char>(byte);
      complaint(bad);
    }
}

TEST(NpyPrelude, is_what_num_py_writes) {
  const std::string prelude = make_npy_prelude(tuck::dtype::f32, {16, 32});
  EXPECT_EQ(prelude.size(), 128u);
  EXPECT_EQ(prelude.substr(0, 10), std::string("\x93NUMPY\1\0\x76\0", 10));
  EXPECT_EQ(prelude.substr(10, 62), "{'descr': '<f4', 'fortran_order': False, 'shape': (16, 32), } ");
  EXPECT_EQ(prelude.back(), '\n');
  EXPECT_NE(make_npy_prelude(tuck::dtype::u8, {}).find("'|u1', 'fortran_order': False, 'shape': (), }"),
            std::string::npos);
  EXPECT_NE(make_npy_prelude(tuck::dtype::bf16, {5}).find("'<u2', 'fortran_order': False, 'shape': (5,), }"),
            std::string::npos);
  EXPECT_NE(make_npy_prelude(tuck::dtype::f8e5m2, {5}).find("'|u1', 'fortran_order': False, 'shape': (5,), }"),
            std::string::npos);
}

TEST(NpyPrelude, is_read_back_whatever_its_length) {
  std::vector<uint64_t> shape;
  for (size_t dimensions : {0u, 1u, 2u, 30u, 20000u, 40000u}) {
    shape.assign(dimensions, 1);
    const std::string prelude = make_npy_prelude(tuck::dtype::i64, shape);
    EXPECT_EQ(prelude.size() % 64, 0u);
    EXPECT_EQ(prelude[6], dimensions < 21000 ? 1 : 2);
    const npy_header header = parse(prelude + "xyz");
    EXPECT_EQ(header.shape, shape);
    EXPECT_EQ(header.type, tuck::dtype::i64);
    EXPECT_EQ(header.prelude, prelude);
  }
}

TEST(NpyFile, values_are_aligned_wherever_the_header_ends) {
  const scratch::directory dir;
  const std::string data = scratch::sparse_data(80);
  for (size_t padding = 0; padding < 16; ++padding) {
    scratch::write(dir / "a.npy", npy(dict("<f8", "(10,)") + std::string(padding, ' '), data));
    const npy_file file = read_npy(dir / "a.npy");
    EXPECT_EQ(text_of(file.data()), data);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(file.data().data()) % 8, 0u);

    scratch::write(dir / "a.npy", npy(dict("<f8", "(0,)") + std::string(padding, ' '), ""));
    const npy_file empty = read_npy(dir / "a.npy");
    EXPECT_EQ(empty.data().size(), 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(empty.data().data()) % 8, 0u);
  }
}

TEST(NpyFile, sizes_must_match) {
  const scratch::directory dir;
  scratch::write(dir / "a.npy", npy(dict("<f4", "(10,)"), std::string(37, 'x')));
  EXPECT_EQ(reading_complaint(dir / "a.npy"), "truncated: 37 bytes of data are there and 40 are needed");
  scratch::write(dir / "a.npy", npy(dict("<f4", "(10,)"), std::string(41, 'x')));
  EXPECT_EQ(reading_complaint(dir / "a.npy"), "1 byte after the data, which need 40");
  scratch::write(dir / "a.npy", npy(dict("<f4", "(0, 5)"), ""));
  EXPECT_EQ(reading_complaint(dir / "a.npy"), "");
  EXPECT_EQ(read_npy(dir / "a.npy").data().size(), 0u);
  scratch::write(dir / "a.npy", npy(dict("<c8", "(2,)"), std::string(16, 'x')));
  EXPECT_EQ(reading_complaint(dir / "a.npy"), "unsupported dtype '<c8'");
}

TEST(NpyFile, written_and_read_back) {
  const scratch::directory dir;
  const std::string data = scratch::sparse_data(24);
  write_npy(dir / "a.npy", tuck::dtype::i32, {2, 3}, bytes_of(data));
  const npy_file file = read_npy(dir / "a.npy");
  EXPECT_EQ(text_of(file.data()), data);
  EXPECT_EQ(file.header.shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(dir.names(), std::vector<std::string>{"a.npy"});
}

TEST(NpyFile, those_of_a_directory) {
  const scratch::directory dir;
  const auto complaint_about = [](const std::string& directory) -> std::string {
    try {
      npy_files(directory);
    } catch (const file_error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(complaint_about(dir / ""), (dir / "") + ": there are no .npy files");
  EXPECT_EQ(complaint_about(dir / "none"), (dir / "none") + ": No such file or directory");
  for (const char* name : {"b.npy", "a.npy", "a.tuck", "npy"}) scratch::write(dir / name, "");
  std::filesystem::create_directories(dir / "b/x.npy");
  scratch::write(dir / "b/x.npy/c.npy", "");
  EXPECT_EQ(npy_files(dir / ""), (std::vector<std::filesystem::path>{dir / "a.npy", dir / "b.npy"}));
  EXPECT_EQ(npy_files(dir / "b", true), std::vector<std::filesystem::path>{dir / "b/x.npy/c.npy"});
}

TEST(NpyFile, shapes_as_text) {
  EXPECT_EQ(shape_text({}), "scalar");
  EXPECT_EQ(shape_text({3}), "3");
  EXPECT_EQ(shape_text({16, 32, 0}), "16x32x0");
}

}  // namespace
