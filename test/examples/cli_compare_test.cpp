#include "support/npy.hpp"

#include "examples/cli_fixture.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

namespace {

using namespace cli;

template <class T> std::string bytes_of(const std::vector<T>& values) {
  std::string data(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(data.data(), values.data(), data.size());
  return data;
}

template <class T> std::string array_of(const std::vector<T>& values) {
  return tuck::tools::make_npy_prelude(tuck::dtype_of<T>, {values.size()}) + bytes_of(values);
}

class Compare : public Cli {
 protected:
  const std::string a = dir / "a.npy";
  const std::string b = dir / "b.npy";

  // Exit code 2, as of cmp and diff; 1 is for values that differ.
  std::string not_compared(const arguments& words, const std::string& file) { return refusal(words, file, 2); }

  // What `tuck compare --json` says of two arrays.
  template <class T>
  nlohmann::json compared(const std::vector<T>& reference, const std::vector<T>& other, arguments options = {}) {
    scratch::write(a, array_of(reference));
    scratch::write(b, array_of(other));
    options.insert(options.begin(), {"compare", "--json", a, b});
    const answer said = tuck_cli(options);
    EXPECT_EQ(said.err, "");
    nlohmann::json about = nlohmann::json::parse(said.out);
    EXPECT_EQ(said.code, about["different_bits"] == 0 ? 0 : 1);
    return about;
  }
};

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

TEST_F(Compare, errors_of_floats) {
  const nlohmann::json d = compared<float>({1, 2, -4, 0}, {1, 2.5f, -3, 0});
  EXPECT_EQ(d["dtype"], "f32");
  EXPECT_EQ(d["shape"], nlohmann::json{4});
  EXPECT_EQ(d["values"], 4);
  EXPECT_EQ(d["max_absolute_error"], 1);
  EXPECT_EQ(d["max_relative_error"], 0.25);
  EXPECT_EQ(d["zero_in_reference_only"], 0);
  EXPECT_DOUBLE_EQ(d["rms_error"], std::sqrt(1.25 / 4));
  EXPECT_DOUBLE_EQ(d["psnr_db"], 20 * std::log10(6 / std::sqrt(1.25 / 4)));
  EXPECT_EQ(d["different_bits"], 2);
  EXPECT_EQ(d["different_bits_share"], 0.5);
  EXPECT_EQ(d["mismatched_non_finite"], 0);
}

// The other way round the relative errors are others: the first array is the reference.
TEST_F(Compare, the_first_is_the_reference) {
  EXPECT_EQ(compared<double>({8, 1}, {4, 1})["max_relative_error"], 0.5);
  EXPECT_EQ(compared<double>({4, 1}, {8, 1})["max_relative_error"], 1);
  EXPECT_NE(compared<double>({8, 1}, {4, 1})["psnr_db"], compared<double>({4, 1}, {8, 1})["psnr_db"]);
}

TEST_F(Compare, equal_arrays) {
  const nlohmann::json d = compared<float>({1, nan, -inf, inf, 0}, {1, nan, -inf, inf, 0});
  EXPECT_EQ(d["max_absolute_error"], 0);
  EXPECT_EQ(d["max_relative_error"], 0);
  EXPECT_EQ(d["rms_error"], 0);
  EXPECT_EQ(d["psnr_db"], "inf");
  EXPECT_EQ(d["different_bits"], 0);
  EXPECT_EQ(d["mismatched_non_finite"], 0);
}

TEST_F(Compare, zeros_of_either_sign) {
  nlohmann::json d = compared<float>({0, -0.0f, 2}, {-0.0f, 0, 2});
  EXPECT_EQ(d["different_bits"], 2);
  EXPECT_EQ(d["max_absolute_error"], 0);
  EXPECT_EQ(d["max_relative_error"], 0);
  EXPECT_EQ(d["zero_in_reference_only"], 0);
  EXPECT_EQ(d["psnr_db"], "inf");
  d = compared<float>({0, -0.0f, 2}, {3, 0.5f, 1});
  EXPECT_EQ(d["zero_in_reference_only"], 2);
  EXPECT_EQ(d["max_absolute_error"], 3);
  EXPECT_EQ(d["max_relative_error"], 0.5);
}

TEST_F(Compare, two_nans_are_no_error) {
  const auto other_nan = __builtin_bit_cast(float, 0xffc00123u);
  const nlohmann::json d = compared<float>({nan, 1, 3}, {other_nan, 1, 2});
  EXPECT_EQ(d["different_bits"], 2);
  EXPECT_EQ(d["mismatched_non_finite"], 0);
  EXPECT_EQ(d["max_absolute_error"], 1);
  EXPECT_DOUBLE_EQ(d["rms_error"], std::sqrt(1.0 / 3));
  EXPECT_DOUBLE_EQ(d["psnr_db"], 20 * std::log10(2 * std::sqrt(3.0)));  // NaN is not in the range
}

TEST_F(Compare, what_is_not_finite_in_one_only) {
  const std::pair<float, float> mismatches[] = {{1, nan},    {nan, 1},   {1, inf},    {-inf, 1},
                                                {inf, -inf}, {nan, inf}, {-inf, nan}, {0, inf}};
  for (const auto& [reference, other] : mismatches) {
    SCOPED_TRACE(testing::Message() << reference << ' ' << other);
    const nlohmann::json d = compared<float>({reference, 5, 7}, {other, 5, 6});
    EXPECT_EQ(d["mismatched_non_finite"], 1);
    EXPECT_EQ(d["different_bits"], 2);
    EXPECT_EQ(d["max_absolute_error"], "inf");
    EXPECT_EQ(d["max_relative_error"], "inf");
    EXPECT_EQ(d["rms_error"], "inf");
    EXPECT_EQ(d["psnr_db"], "-inf");
    EXPECT_EQ(d["zero_in_reference_only"], 0);
  }
}

// The range of the reference comes of its finite values, whether or not the other has them too.
TEST_F(Compare, the_range_is_of_finite_values) {
  const nlohmann::json d = compared<float>({inf, -inf, nan, -10, 10, 0.5f}, {inf, -inf, nan, -10, 10, 1});
  EXPECT_DOUBLE_EQ(d["psnr_db"], 20 * std::log10(20 / std::sqrt(0.25 / 6)));
  EXPECT_EQ(compared<float>({1, 1}, {2, 1})["psnr_db"], "-inf");
}

TEST_F(Compare, doubles_as_large_and_as_small_as_can_be) {
  constexpr double greatest = std::numeric_limits<double>::max(), least = std::numeric_limits<double>::denorm_min();
  nlohmann::json d = compared<double>({greatest, 0}, {greatest / 2, 0});
  EXPECT_EQ(d["max_absolute_error"], greatest / 2);
  EXPECT_DOUBLE_EQ(d["rms_error"], greatest / 2 / std::sqrt(2.0));
  d = compared<double>({greatest}, {-greatest});
  EXPECT_EQ(d["max_absolute_error"], "3.59538627e+308");  // which no double is
  EXPECT_EQ(d["max_relative_error"], 2);
  EXPECT_EQ(d["mismatched_non_finite"], 0);
  d = compared<double>({least, 4 * least}, {2 * least, 4 * least});
  EXPECT_EQ(d["max_absolute_error"], least);
  EXPECT_EQ(d["max_relative_error"], 1);
  EXPECT_DOUBLE_EQ(d["psnr_db"], 20 * std::log10(3 * std::sqrt(2.0)));
  d = compared<double>({1, 0x1p-60}, {1 + 0x1p-52, 0x1p-60});
  EXPECT_EQ(d["max_absolute_error"], 0x1p-52);
}

TEST_F(Compare, integers_exactly) {
  nlohmann::json d = compared<uint64_t>({~uint64_t{0}, 1}, {0, 1});
  EXPECT_EQ(d["max_absolute_error"], ~uint64_t{0});
  EXPECT_EQ(d["max_relative_error"], 1);
  d = compared<int64_t>({std::numeric_limits<int64_t>::min()}, {std::numeric_limits<int64_t>::max()});
  EXPECT_EQ(d["max_absolute_error"], ~uint64_t{0});
  d = compared<uint64_t>({9007199254740993u, 7}, {9007199254740992u, 7});  // one double would be both
  EXPECT_EQ(d["max_absolute_error"], 1);
  EXPECT_EQ(compared<uint8_t>({0, 200}, {255, 200})["max_absolute_error"], 255);
  EXPECT_EQ(compared<int8_t>({-128}, {127})["max_absolute_error"], 255);
  EXPECT_EQ(compared<uint16_t>({65535, 3}, {0, 3})["max_absolute_error"], 65535);
  EXPECT_EQ(compared<int16_t>({-4, 0}, {-3, 0})["max_relative_error"], 0.25);
  EXPECT_EQ(compared<uint32_t>({0}, {4294967295u})["max_absolute_error"], 4294967295u);
  d = compared<int32_t>({std::numeric_limits<int32_t>::min(), 0, 0}, {std::numeric_limits<int32_t>::max(), 0, 2});
  EXPECT_EQ(d["max_absolute_error"], 4294967295u);
  EXPECT_EQ(d["zero_in_reference_only"], 1);
}

TEST_F(Compare, halves) {
  const nlohmann::json d = compared<tuck::f16>({{0x3c00}, {0x0001}, {0x7c00}}, {{0x4000}, {0x0003}, {0x7c00}});
  EXPECT_EQ(d["dtype"], "f16");
  EXPECT_EQ(d["max_absolute_error"], 1);
  EXPECT_EQ(d["max_relative_error"], 2);  // of the denormal 2^-24, which became 3 * 2^-24
  EXPECT_EQ(compared<tuck::f16>({{0x7e00}}, {{0x7e01}})["mismatched_non_finite"], 0);
  EXPECT_EQ(compared<tuck::f16>({{0x7c00}}, {{0xfc00}})["mismatched_non_finite"], 1);
}

TEST_F(Compare, sixteen_bit_integers_as_bf16) {
  const std::vector<uint16_t> reference{0x3f80, 0xc000, 0x7f80}, other{0x3fc0, 0xc000, 0x7f80};
  nlohmann::json d = compared(reference, other, {"--as", "bf16"});
  EXPECT_EQ(d["dtype"], "bf16");
  EXPECT_EQ(d["max_absolute_error"], 0.5);
  EXPECT_DOUBLE_EQ(d["psnr_db"], 20 * std::log10(3 / std::sqrt(0.25 / 3)));
  d = compared(reference, other);
  EXPECT_EQ(d["dtype"], "u16");
  EXPECT_EQ(d["max_absolute_error"], 0x40);
  // Declared to be the same, they are.
  scratch::write(b, npy(dict("<i2", "(3,)"), bytes_of(other)));
  EXPECT_EQ(tuck_cli({"compare", "--as", "bf16", a, b}).code, 1);
  scratch::write(b, npy(dict("<f4", "(3,)"), std::string(12, 'x')));
  EXPECT_EQ(not_compared({"compare", "--as", "bf16", a, b}, b), "--as bf16 takes 16-bit integers, not f32");
  EXPECT_EQ(not_compared({"compare", "--as", "bf16", b, a}, b), "--as bf16 takes 16-bit integers, not f32");
}

TEST_F(Compare, eight_bit_integers_as_8_bit_floats) {
  const std::vector<uint8_t> reference{0x38, 0x7e, 0x7f}, other{0x3c, 0x7e, 0xff};  // 1, 448, NaN; 1.5, 448, NaN
  nlohmann::json d = compared(reference, other, {"--as", "f8e4m3"});
  EXPECT_EQ(d["dtype"], "f8e4m3");
  EXPECT_EQ(d["max_absolute_error"], .5);
  EXPECT_EQ(d["mismatched_non_finite"], 0);
  d = compared(reference, other, {"--as", "f8e5m2"});  // .5 and 1, and NaN
  EXPECT_EQ(d["max_absolute_error"], .5);
  EXPECT_EQ(d["max_relative_error"], 1);
}

TEST_F(Compare, nothing_to_compare) {
  const nlohmann::json d = compared<float>({}, {});
  EXPECT_EQ(d["values"], 0);
  EXPECT_EQ(d["max_absolute_error"], 0);
  EXPECT_EQ(d["rms_error"], 0);
  EXPECT_EQ(d["psnr_db"], "inf");
  EXPECT_EQ(d["different_bits_share"], 0);
}

// More values than are added up at a time, the last of them the one that counts.
TEST_F(Compare, many_values) {
  std::vector<float> reference(100003), other;
  for (size_t i = 0; i < reference.size(); ++i) reference[i] = static_cast<float>(i % 1000);
  other = reference;
  for (float& value : other) value += 0.5f;
  other.back() = reference.back() + 2;
  const nlohmann::json d = compared(reference, other);
  const double rms = std::sqrt((0.25 * 100002 + 4) / 100003);
  EXPECT_EQ(d["values"], 100003);
  EXPECT_EQ(d["max_absolute_error"], 2);
  EXPECT_EQ(d["max_relative_error"], 1);  // 2 for the value 2, 0.5 for the value 1 are alike
  EXPECT_EQ(d["zero_in_reference_only"], 101);
  EXPECT_EQ(d["different_bits"], 100003);
  EXPECT_DOUBLE_EQ(d["rms_error"], rms);
  EXPECT_DOUBLE_EQ(d["psnr_db"], 20 * std::log10(999 / rms));
}

TEST_F(Compare, text_for_people) {
  scratch::write(a, npy(dict("<f4", "(2, 2)"), bytes_of<float>({0, 2, -4, 1})));
  scratch::write(b, npy(dict("<f4", "(2, 2)"), bytes_of<float>({0.5f, 2, -3, 1})));
  EXPECT_EQ(tuck_cli({"compare", a, b}).out, "reference              " + a + "\ncompared               " + b +
                                                 "\n"
                                                 "tensor                 f32 2x2\n"
                                                 "values                 4\n"
                                                 "max absolute error     1\n"
                                                 "max relative error     0.25, without 1 value where only the "
                                                 "reference is 0\n"
                                                 "RMS error              0.559016994\n"
                                                 "PSNR                   20.61 dB\n"
                                                 "different bits         2 values, 50 %\n"
                                                 "mismatched non-finite  0 values\n");
  const std::string same = tuck_cli({"compare", a, a}).out;
  EXPECT_NE(same.find("PSNR                   inf\n"), std::string::npos) << same;
  EXPECT_NE(same.find("different bits         0 values, 0 %\n"), std::string::npos) << same;
  scratch::write(a, array_of<uint64_t>({~uint64_t{0}}));
  scratch::write(b, array_of<uint64_t>({0}));
  const std::string integers = tuck_cli({"compare", a, b}).out;
  EXPECT_NE(integers.find("max absolute error     18446744073709551615\n"), std::string::npos) << integers;
  scratch::write(a, array_of<float>({1}));
  scratch::write(b, array_of<float>({nan}));
  const std::string mismatched = tuck_cli({"compare", a, b}).out;
  EXPECT_NE(mismatched.find("max absolute error     inf\n"), std::string::npos) << mismatched;
  EXPECT_NE(mismatched.find("mismatched non-finite  1 value\n"), std::string::npos) << mismatched;
}

TEST_F(Compare, json_has_exactly_its_keys) {
  const nlohmann::json d = compared<float>({1}, {2});
  std::set<std::string> keys;
  for (const auto& [key, value] : d.items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"dtype", "shape", "values", "max_absolute_error", "max_relative_error",
                                         "zero_in_reference_only", "rms_error", "psnr_db", "different_bits",
                                         "different_bits_share", "mismatched_non_finite"}));
}

TEST_F(Compare, refuses_what_cannot_be_compared) {
  scratch::write(a, npy(dict("<f4", "(2, 3)"), std::string(24, 'x')));
  const auto reason = [&](const std::string& content) {
    scratch::write(b, content);
    return not_compared({"compare", a, b}, b);
  };
  EXPECT_EQ(reason(npy(dict("<f4", "(3, 2)"), std::string(24, 'x'))), "its shape is 3x2, the reference's is 2x3");
  EXPECT_EQ(reason(npy(dict("<f4", "(6,)"), std::string(24, 'x'))), "its shape is 6, the reference's is 2x3");
  EXPECT_EQ(reason(npy(dict("<f4", "()"), "xxxx")), "its shape is scalar, the reference's is 2x3");
  EXPECT_EQ(reason(npy(dict("<i4", "(2, 3)"), std::string(24, 'x'))), "its values are i32, the reference's are f32");
  EXPECT_EQ(reason(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", std::string(24, 'x'))),
            "one of the arrays is in Fortran order; save both in one order");
  EXPECT_EQ(reason("garbage"), "not a .npy file");
  EXPECT_EQ(reason(npy(dict("<f4", "(2, 3)"), "xx")), "truncated: 2 bytes of data are there and 24 are needed");
  EXPECT_EQ(not_compared({"compare", b, a}, b), "truncated: 2 bytes of data are there and 24 are needed");
  EXPECT_EQ(not_compared({"compare", a, dir / "none"}, dir / "none"), "No such file or directory");
  EXPECT_EQ(not_compared({"compare", "--json", dir / "none", a}, dir / "none"), "No such file or directory");
}

class CompareSafetensors : public Compare {
 protected:
  const std::string reference = dir / "a.safetensors", other = dir / "b.safetensors";

  void write_two(const std::string& json, const std::string& data, const std::string& changed) {
    scratch::write(reference, safetensors("{" + json + "}", data));
    scratch::write(other, safetensors("{" + json + "}", changed));
  }
};

TEST_F(CompareSafetensors, tensor_by_tensor) {
  const std::vector<float> values{1, 2, -4, 0};
  std::vector<float> changed = values;
  changed[1] = 2.5f;
  const std::string odd = "x", scales = "1234";
  write_two(described("odd", "BOOL", "1", 0, 1) + "," + described("w", "F32", "2, 2", 1, 17) + "," +
                described("s", "F4", "8", 17, 21),
            odd + bytes_of(values) + scales, odd + bytes_of(changed) + "1294");
  const answer said = tuck_cli({"compare", "--json", reference, other});
  EXPECT_EQ(said.code, 1);
  EXPECT_EQ(said.err, "");
  const auto about = nlohmann::json::parse(said.out);
  EXPECT_EQ(about["different_tensors"], 2);
  ASSERT_EQ(about["tensors"].size(), 3u);
  EXPECT_EQ(about["tensors"][0]["different_bits"], 0);
  const auto& w = about["tensors"][1];
  EXPECT_EQ(w["name"], "w");
  EXPECT_EQ(w["dtype"], "F32");
  EXPECT_EQ(w["shape"], (nlohmann::json{2, 2}));
  EXPECT_EQ(w["different_bits"], 1);
  EXPECT_EQ(w["max_absolute_error"], .5);
  EXPECT_EQ(w["max_relative_error"], .25);
  // Of a type that the library does not have: bytes.
  EXPECT_EQ(about["tensors"][2]["dtype"], "F4");
  EXPECT_EQ(about["tensors"][2]["values"], 4);
  EXPECT_EQ(about["tensors"][2]["different_bits"], 1);
  EXPECT_EQ(about["tensors"][2]["max_absolute_error"], '9' - '3');

  const std::string text = tuck_cli({"compare", reference, other}).out;
  EXPECT_NE(text.find("different tensors      2 of 3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("F32 2x2                               4              1              0.5"), std::string::npos)
      << text;
  EXPECT_EQ(tuck_cli({"compare", reference, reference}).code, 0);
  EXPECT_EQ(tuck_cli({"compare", "--as", "bf16", reference, other}).code, 2);
}

TEST_F(CompareSafetensors, needs_the_same_tensors) {
  write_two(described("w", "F32", "2", 0, 8), "12345678", "12345678");
  const auto reason = [&](const std::string& json) {
    scratch::write(other, safetensors("{" + json + "}", "12345678"));
    return not_compared({"compare", reference, other}, other);
  };
  EXPECT_EQ(reason(described("v", "F32", "2", 0, 8)),
            "tensor 'w': it is in " + reference + " but not in the compared file");
  EXPECT_EQ(reason(described("v", "U8", "0", 0, 0) + "," + described("w", "F32", "2", 0, 8)),
            "tensor 'v': it is in the compared file but not in " + reference);
  EXPECT_EQ(reason(described("w", "F32", "1, 2", 0, 8)),
            "tensor 'w': F32 1x2 in the compared file, F32 2 in " + reference);
  EXPECT_EQ(reason(described("w", "C64", "1", 0, 8)), "tensor 'w': C64 1 in the compared file, F32 2 in " + reference);
  scratch::write(a, array_of<float>({1}));
  EXPECT_EQ(not_compared({"compare", reference, a}, a), "this is no safetensors file, the reference is one");
  EXPECT_EQ(not_compared({"compare", a, reference}, reference), "this is a safetensors file, the reference is none");
}

TEST_F(CompareSafetensors, folders_and_frames_are_decoded_first) {
  scratch::write(a, array_of<float>(std::vector<float>(1000)));
  write_two(described("w", "F32", "1000", 0, 4000), std::string(4000, 'x'), std::string(4000, 'x'));
  const std::string folder = dir / ".", frames = dir / "frames.safetensors";
  EXPECT_EQ(not_compared({"compare", folder, a}, folder),
            "this is a folder; compare takes two arrays, or two safetensors files");
  expect_ok({"encode", a, frame});
  EXPECT_EQ(not_compared({"compare", a, frame}, frame), "this is a frame; decode it first");
  EXPECT_EQ(not_compared({"compare", frame, frame}, frame), "this is a frame; decode it first");
  expect_ok({"encode", reference, frames});
  EXPECT_EQ(not_compared({"compare", reference, frames}, frames), "its tensors are frames; decode it first");
  EXPECT_EQ(not_compared({"compare", frames, reference}, frames), "its tensors are frames; decode it first");
  EXPECT_EQ(not_compared({"compare", frames, frames}, frames), "its tensors are frames; decode it first");
}

TEST_F(Compare, usage_errors) {
  scratch::write(a, array_of<float>({1}));
  const arguments wrong[] = {{"compare"},
                             {"compare", a},
                             {"compare", a, a, a},
                             {"compare", "--as", "f16", a, a},
                             {"compare", "--on", "host", a, a}};
  for (const arguments& words : wrong) {
    const answer said = tuck_cli(words);
    EXPECT_EQ(said.code, 2) << testing::PrintToString(words);
    EXPECT_EQ(said.out, "");
    EXPECT_NE(said.err, "");
  }
}

}  // namespace
