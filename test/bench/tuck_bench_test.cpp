// The program tuck-bench, run as people run it.
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace {

using nlohmann::json;

class tuck_bench : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = std::filesystem::temp_directory_path() / (std::string("tuck_bench.") + test->name());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }

  // The exit code; what was printed is in output_.
  int run(const std::string& arguments) { return shell(std::string(TUCK_BENCH) + " " + arguments); }
  int shell(const std::string& command) {
    output_.clear();
    std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
    char part[4096];
    for (size_t n; (n = std::fread(part, 1, sizeof part, pipe)) != 0;) output_.append(part, n);
    const int state = pclose(pipe);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
  }
  json results(const std::string& name) const { return json::parse(std::ifstream(path(name))); }

  std::filesystem::path directory_;
  std::string output_;
};

void expect_schema(const json& file) {
  EXPECT_EQ(file.at("schema"), "tuck-bench/1");
  EXPECT_TRUE(file.at("complete").is_boolean());
  const json& around = file.at("environment");
  for (const char* key : {"date", "commit", "version", "compiler", "cpu", "backend", "command"}) {
    EXPECT_TRUE(around.at(key).is_string()) << key;
    EXPECT_FALSE(around.at(key).get<std::string>().empty()) << key;
    EXPECT_EQ(around.at(key).get<std::string>().find('/'), std::string::npos) << "a path in " << key;
  }
  EXPECT_TRUE(around.at("cores").is_number_unsigned());
  EXPECT_TRUE(around.at("threads").is_number_unsigned());
  EXPECT_TRUE(around.at("peers").is_array());
  EXPECT_TRUE(around.at("device").is_null() || around.at("device").at("name").is_string());

  std::set<std::string> names;
  for (const json& row : file.at("rows")) {
    const std::string name = row.at("name");
    EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
    EXPECT_EQ(name.find(row.at("operation").get<std::string>() + "/" + row.at("codec").get<std::string>() + "/"), 0u);
    const double raw = row.at("raw_bytes"), encoded = row.at("encoded_bytes");
    EXPECT_GT(raw, 0);
    EXPECT_GT(encoded, 0);
    EXPECT_NEAR(row.at("ratio"), raw / encoded, 1e-9 * raw / encoded);
    EXPECT_GT(row.at("moved_per_byte"), 0) << name;
    EXPECT_GE(row.at("sparsity"), 0);
    EXPECT_LE(row.at("sparsity"), 1);
    EXPECT_TRUE(row.at("peer").is_boolean());
    EXPECT_TRUE(row.at("lossy") || row.at("operation") == "copy" || row.at("max_error") == 0) << name;
    EXPECT_NEAR(row.at("zeros"), row.at("sparsity"), raw < 1 << 20 ? .5 : .035) << name;
    EXPECT_EQ(row.at("max_error").is_null(), row.at("operation") == "copy") << name;
    const bool counted = row.at("where") == "ptx", timed = !counted && row.at("where") != "sim";
    for (const char* key : {"best_seconds", "median_seconds", "median_low_seconds", "median_high_seconds", "cv",
                            "gb_per_s", "R", "R_low", "R_high"})
      EXPECT_EQ(row.at(key).is_number(), timed) << name << " " << key;
    for (const char* key :
         {"instructions_per_128_bytes", "active_lanes", "shared_wavefronts", "least_wavefronts", "sectors"})
      EXPECT_EQ(row.at(key).is_number(), counted) << name << " " << key;
    EXPECT_EQ(row.at("bound_R").is_null() ? 0u : row.at("bound_R").size(), counted ? 5u : 0u) << name;
    if (!timed) continue;
    EXPECT_GE(row.at("runs"), 6);
    EXPECT_EQ(row.at("noisy"),
              std::max(row.at("median_high_seconds").get<double>() / row.at("median_seconds").get<double>() - 1,
                       1 - row.at("median_low_seconds").get<double>() / row.at("median_seconds").get<double>()) > .03);
    EXPECT_LE(row.at("median_low_seconds"), row.at("median_seconds"));
    EXPECT_GE(row.at("median_high_seconds"), row.at("median_seconds"));
    EXPECT_LE(row.at("R_low"), row.at("R"));
    EXPECT_GE(row.at("R_high"), row.at("R"));
    EXPECT_GT(row.at("best_seconds"), 0);
    EXPECT_LE(row.at("best_seconds"), row.at("median_seconds"));
    EXPECT_NEAR(row.at("gb_per_s"), raw / row.at("median_seconds").get<double>() * 1e-9, 1e-6 * raw);
    EXPECT_GT(row.at("R"), 0);
  }
}

std::set<std::string> values_of(const json& file, const char* key) {
  std::set<std::string> found;
  for (const json& row : file.at("rows")) found.insert(row.at(key).get<std::string>());
  return found;
}

TEST_F(tuck_bench, quick_measures_all_there_is_in_table_file_and_plots) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "no minute is enough under sanitizers";
#endif
  ASSERT_EQ(run("--quick --out " + path("all.json")), 0) << output_;
  EXPECT_NE(output_.find("clustered/4MiB/host"), std::string::npos) << "no table";
  const json file = results("all.json");
  expect_schema(file);
  EXPECT_TRUE(file.at("complete"));
  const auto codecs = values_of(file, "codec");
  for (const char* name : {"memcpy", "zvc", "rle", "deflate", "bitpack", "quantize", "zvc+huffman", "zvc+rle+huffman",
                           "huffman", "delta+rle+bitpack", "quantize+delta+zvc+huffman"})
    EXPECT_TRUE(codecs.contains(name)) << name;
  EXPECT_EQ(values_of(file, "where").size(), 2u) << "host, and simulator or GPU";
  for (const json& row : file.at("rows"))
    if (row.at("codec") == "zvc" && row.at("pattern") == "clustered" && row.at("raw_bytes") >= 1 << 20) {
      const double kept = 1. / 32 + 1 - row.at("sparsity").get<double>();
      EXPECT_NEAR(row.at("ratio"), 1 / std::min(kept, 1.), .06 / kept) << row.at("name");
    }

  if (std::string(TUCK_PYTHON).empty()) GTEST_SKIP() << "no Python with Matplotlib to draw with; the rest passed";
  ASSERT_EQ(shell(TUCK_PYTHON " " TUCK_PLOT " " + path("all.json") + " --out " + path("plots")), 0) << output_;
  for (const char* plot : {"sparsity-host", "size-host", "break-even-host", "pareto-host"})
    for (const char* form : {".png", ".svg"})
      EXPECT_GT(std::filesystem::file_size(path("plots") + "/" + plot + form), 10000u) << plot << form;
}

TEST_F(tuck_bench, measures_what_is_asked_for) {
  ASSERT_EQ(run("--quick --where host --codec zvc,quantize --size 4KiB,100B --sparsity 0.25 --type f32,bf16 --out " +
                path("some.json")),
            0)
      << output_;
  const json file = results("some.json");
  expect_schema(file);
  EXPECT_EQ(file.at("rows").size(), 16u);
  for (const json& row : file.at("rows"))
    EXPECT_EQ(row.at("max_error") > 0, row.at("codec") == "quantize") << row.at("name");
}

TEST_F(tuck_bench, measures_threads_and_levels_of_the_host) {
  ASSERT_EQ(
      run("--quick --where host --codec memcpy,zvc --size 4KiB --sparsity 0.5 --threads 1,2 --cpu baseline --out " +
          path("ways.json")),
      0)
      << output_;
  const json file = results("ways.json");
  expect_schema(file);
  EXPECT_EQ(file.at("rows").size(), 5u);
  for (const json& row : file.at("rows")) EXPECT_EQ(row.contains("cpu_level"), row.at("codec") == "zvc");
  EXPECT_NE(run("--where host --cpu avx3 --list"), 0);
}

TEST_F(tuck_bench, gives_no_figure_for_what_fails) {
  // A recording that zfp cannot hold, and that quantize keeps.
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4096,), }";
  header.resize(117, ' ');
  std::vector<float> values(4096, 1.5f);
  for (size_t i = 0; i < values.size(); i += 5) values[i] = i % 2 == 0 ? NAN : INFINITY;
  std::filesystem::create_directories(path("data"));
  std::ofstream npy(path("data") + "/broken.npy", std::ios::binary);
  npy << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header << '\n';
  npy.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  npy.close();

  const bool with_zfp = run("--list --codec zfp --size 16KiB --where host") == 0;
  EXPECT_EQ(run("--quick --where host --codec zvc,quantize" + std::string(with_zfp ? ",zfp" : "") +
                " --pattern recorded --size 16KiB --data " + path("data") + " --out " + path("some.json")),
            with_zfp ? 1 : 0)
      << output_;
  const json file = results("some.json");
  expect_schema(file);
  EXPECT_EQ(file.at("complete"), !with_zfp);
  EXPECT_EQ(file.at("rows").size(), 4u) << output_;
}

// As for a stranger's int8 tensor: its type is the recording's, its pattern recorded.
TEST_F(tuck_bench, measures_recordings_of_integers) {
  std::string header = "{'descr': '|i1', 'fortran_order': False, 'shape': (4096,), }";
  header.resize(117, ' ');
  std::string values(4096, '\0');
  for (size_t i = 0; i < values.size(); i += 3) values[i] = static_cast<char>(i % 7 - 3);
  std::ofstream(path("r.npy"), std::ios::binary) << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header << '\n'
                                                 << values;
  const std::string data = " --where host --no-peers --size 4KiB --data " + path("r.npy");
  ASSERT_EQ(run("--quick --codec zvc,quantize --out " + path("r.json") + data), 0) << output_;
  EXPECT_NE(output_.find("tuck-bench: left out: no i8 is taken by quantize\n"), std::string::npos) << output_;
  const json file = results("r.json");
  expect_schema(file);
  ASSERT_EQ(file.at("rows").size(), 2u);
  for (const json& row : file.at("rows")) {
    EXPECT_EQ(row.at("type"), "i8");
    EXPECT_EQ(row.at("pattern"), "recorded");
    EXPECT_EQ(row.at("encoded_bytes"), file.at("rows")[0].at("encoded_bytes"));
  }

  ASSERT_EQ(run("--quick --codec zvc --out " + path("r.csv") + data), 0) << output_;
  std::ifstream csv(path("r.csv"));
  std::string first, encode, decode;
  std::getline(csv, first);
  std::getline(csv, encode);
  std::getline(csv, decode);
  EXPECT_EQ(first.find("name,operation,codec,peer,lossy,type,"), 0u) << first;
  EXPECT_EQ(encode.find("encode/zvc/i8/s:any/recorded/4KiB/host,encode,zvc,false,false,i8,"), 0u) << encode;
  EXPECT_EQ(std::count(first.begin(), first.end(), ','), std::count(decode.begin(), decode.end(), ','));
  EXPECT_FALSE(std::getline(csv, first));

  const auto refused = [&](const std::string& arguments, int code, const std::string& word) {
    EXPECT_EQ(run(arguments + " --out " + path("none.json")), code) << output_;
    EXPECT_NE(output_.find(word), std::string::npos) << output_;
    EXPECT_FALSE(std::filesystem::exists(path("none.json")));
  };
  refused("--list --data " + path("none.npy"), 1, path("none.npy") + ": No such file or directory");
  refused("--codec zvc --pattern iid" + data, 2, "--data: is read for --pattern recorded only");
  refused("--codec zvc --type f32" + data, 2, "a recording of i8 cannot be used as f32");
}

TEST_F(tuck_bench, keeps_what_it_has_when_it_is_told_to_stop) {
  // In the foreground: otherwise `timeout` sends the signal twice, and the second one stops the program at once.
  EXPECT_EQ(shell("timeout --foreground -s TERM 2 " TUCK_BENCH " --where host --codec deflate,zvc --out " +
                  path("part.json")) != 0,
            true);
  const json file = results("part.json");
  expect_schema(file);
  EXPECT_FALSE(file.at("complete"));
  EXPECT_GT(file.at("rows").size(), 0u);
}

TEST_F(tuck_bench, takes_flags_of_google_benchmark) {
  const std::string one = "--quick --where host --codec zvc --size 4KiB ";
  EXPECT_EQ(run(one + "--benchmark_filter='decode.*host$' --out " + path("one.json") +
                " --benchmark_out=" + path("google.json") + " --benchmark_context=of=mine"),
            0)
      << output_;
  EXPECT_EQ(results("one.json").at("rows").size(), 1u);
  EXPECT_EQ(results("google.json").at("benchmarks").size(), 1u);
  EXPECT_EQ(results("google.json").at("context").at("of"), "mine");
  EXPECT_EQ(run(one + "--benchmark_list_tests --benchmark_filter=-encode"), 0);
  EXPECT_EQ(output_, "decode/zvc/f32/s:0.60/clustered/4KiB/host\n");
  for (const char* flag : {"filter=nothing", "repetitions=2", "min_time=1", "format=csv"}) {
    EXPECT_EQ(run(one + "--benchmark_" + flag + " --out " + path("no.json")), 2) << flag;
    EXPECT_FALSE(std::filesystem::exists(path("no.json")));
  }
}

// A row has the time that is given, if it needs it.
TEST_F(tuck_bench, takes_the_seconds_of_a_row) {
  const auto runs = [&](const std::string& seconds) {
    EXPECT_EQ(run("--where host --codec zvc --size 64KiB --benchmark_filter=encode --seconds " + seconds + " --out " +
                  path("timed.json")),
              0)
        << output_;
    return results("timed.json").at("rows").at(0).at("runs").get<uint64_t>();
  };
  EXPECT_GT(runs(".4"), 3 * runs(".002"));
  EXPECT_EQ(run("--where host --seconds 0"), 2);
  EXPECT_NE(output_.find("--seconds"), std::string::npos) << output_;
}

// The program without kernels has the same rows of the host, and says which one has the others.
TEST_F(tuck_bench, of_the_host_alone_has_its_rows) {
  const std::string alone = TUCK_BENCH "-host ";
  ASSERT_EQ(shell(alone + "--quick --codec zvc --size 4KiB --out " + path("host.json")), 0) << output_;
  expect_schema(results("host.json"));
  EXPECT_EQ(results("host.json").at("rows").size(), 2u);
  for (const char* where : {"device", "ptx", "model"}) {
    EXPECT_EQ(shell(alone + "--where " + where), 2);
    EXPECT_NE(output_.find("build target tuck_bench"), std::string::npos) << output_;
  }
  EXPECT_EQ(shell(alone + "--blocks 2"), 2);
}

TEST_F(tuck_bench, counts_traffic_on_the_device) {
  ASSERT_EQ(run("--quick --where device --codec zvc --size 16KiB --sparsity 0.5 --out " + path("device.json")), 0)
      << output_;
  const json file = results("device.json");
  expect_schema(file);
  ASSERT_EQ(file.at("rows").size(), 2u);
  // The engine sees all that a kernel reads, its arguments and the header again and again too.
  for (const json& row : file.at("rows"))
    EXPECT_NEAR(row.at("moved_per_byte"), 1.53, row.at("where") == "ptx" ? .4 : .1);

  ASSERT_EQ(run("--where device --codec zvc --size 16KiB --type f32 --blocks 1,2 --chunk 1KiB,16KiB --no-peers --out " +
                path("device.json")),
            0)
      << output_;
  const json tuned = results("device.json").at("rows");
  ASSERT_EQ(tuned.size(), 8u);
  EXPECT_EQ(tuned[0].at("blocks"), 1);
  EXPECT_EQ(tuned[0].at("chunk_bytes"), 1024);
  EXPECT_GT(tuned[0].at("encoded_bytes"), tuned[7].at("encoded_bytes"));  // more entries of the directory
}

// In the build whose kernels are counted; others say why they cannot.
TEST_F(tuck_bench, counts_instructions_where_they_are_counted) {
  const int code = run("--where ptx --profile --codec copy,zvc --size 8MiB --out " + path("ptx.json"));
  if (code == 2) {
    EXPECT_NE(output_.find("those of preset ptx are counted"), std::string::npos) << output_;
    EXPECT_TRUE(std::filesystem::is_empty(directory_));
    return;
  }
  ASSERT_EQ(code, 0) << output_;
  EXPECT_NE(output_.find("Bounds, no speeds"), std::string::npos) << output_;
  EXPECT_NE(output_.find("include/tuck/"), std::string::npos) << "no source lines";
  const json file = results("ptx.json");
  expect_schema(file);
  ASSERT_EQ(file.at("rows").size(), 3u);
  for (const json& row : file.at("rows")) {
    const double counted = row.at("instructions_per_128_bytes");
    EXPECT_GT(counted, row.at("operation") == "copy" ? 2. : 5.);
    EXPECT_LT(counted, row.at("operation") == "copy" ? 2.2 : 100.);  // 2.01 at 64 MiB, where threads loop longer
    EXPECT_LE(row.at("least_wavefronts"), row.at("shared_wavefronts"));
    for (const json& bound : row.at("bound_R")) EXPECT_LE(bound.at("R"), 1.01) << row.dump();
  }
}

// Likewise.
TEST_F(tuck_bench, predicts_time_where_there_is_a_model) {
  const std::string options = "--where model --no-peers --codec copy,zvc --size 64KiB --sparsity .6 --type f32 ";
  const int code = run(options + "--profile --out " + path("model.json"));
  if (code == 2) {
    EXPECT_NE(output_.find("the model of time needs a build of preset ptx"), std::string::npos) << output_;
    EXPECT_TRUE(std::filesystem::is_empty(directory_));
    GTEST_SKIP() << "this build has no model of time";
  }
  ASSERT_EQ(code, 0) << output_;
  EXPECT_NE(output_.find("warps spend most clocks"), std::string::npos) << output_;
  EXPECT_NE(output_.find("include/tuck/"), std::string::npos) << "no source lines";
  const json file = results("model.json");
  ASSERT_EQ(file.at("rows").size(), 3u);
  for (const json& row : file.at("rows")) {
    const json& model = row.at("model");
    EXPECT_GT(model.at("seconds"), 4e-6);
    EXPECT_LT(model.at("seconds"), 100e-6);
    EXPECT_NEAR(model.at("gb_per_s"), 65536 / model.at("seconds").get<double>() * 1e-9, 1e-6);
    EXPECT_LE(model.at("R"), 1.01);
    EXPECT_GT(model.at("registers"), 15);
    EXPECT_TRUE(model.at("sampled_processors").is_null());
    double shares = 0;
    for (const json& share : model.at("waits")) shares += share.get<double>();
    EXPECT_NEAR(shares, 1, 1e-6);
    EXPECT_TRUE(row.at("median_seconds").is_null());  // nothing was measured
    EXPECT_GT(row.at("instructions_per_128_bytes"), 2);
  }
  // A memory without latency takes less, and the row says that it is a what-if.
  const auto seconds = [&](const std::string& more) {
    EXPECT_EQ(run(options + more + " --out " + path("other.json")), 0) << output_;
    return results("other.json").at("rows").at(1).at("model").at("seconds").get<double>();
  };
  EXPECT_LT(seconds("--what-if dram=0,l2=0"), .95 * seconds(""));
  EXPECT_EQ(seconds("--what-if free=device.cuh:1-9999"), seconds("--what-if free=core/device.cuh:1-9999"));
  const json free = results("other.json").at("rows").at(1).at("model");
  EXPECT_EQ(free.at("what_ifs"), json({"free=core/device.cuh:1-9999"}));
  EXPECT_FALSE(free.at("calibrated"));
  EXPECT_EQ(run(options + "--what-if free=nosuch.cu:1-9"), 1);
  EXPECT_NE(output_.find("free=nosuch.cu:1-9: no kernel that ran has such a line"), std::string::npos) << output_;
  EXPECT_EQ(run(options + "--sample 4"), 1);
  EXPECT_NE(output_.find("too few bytes for --sample"), std::string::npos) << output_;
  const auto refused = [&](const std::string& more, const std::string& word) {
    EXPECT_EQ(run(options + more), 2) << more;
    EXPECT_NE(output_.find(word), std::string::npos) << output_;
  };
  refused("--gpu h101", "unknown GPU 'h101'");
  refused("--what-if dram", "NAME=VALUE");
  refused("--what-if drum=1", "unknown constant 'drum'");
  refused("--what-if free=encoder.cuh:9", "free=FILE:FIRST-LAST");
  refused("--what-if free=:1-9", "free=FILE:FIRST-LAST");
  refused("--what-if occupancy=0", "occupancy");
  refused("--what-if blocks=0", "blocks must be a number from 1");
  refused("--what-if dram=1e12", "dram must be a number from 0");
  refused("--sample 132", "--sample must be fewer");
}

TEST_F(tuck_bench, says_what_it_would_do) {
  ASSERT_EQ(run("--list --where host --codec zvc --size 64MiB --sparsity 0.9"), 0);
  EXPECT_EQ(output_, "encode/zvc/f32/s:0.90/clustered/64MiB/host\ndecode/zvc/f32/s:0.90/clustered/64MiB/host\n");
}

TEST_F(tuck_bench, refuses_what_it_does_not_know_and_writes_nothing) {
  const auto refused = [&](const std::string& arguments, const std::string& word) {
    EXPECT_EQ(run(arguments + " --out " + path("none.json")), 2) << arguments;
    EXPECT_NE(output_.find(word), std::string::npos) << output_;
    EXPECT_TRUE(std::filesystem::is_empty(directory_));
  };
  refused("--codec zvv", "zvv");
  refused("--size 64MB", "64MB");
  refused("--type f33", "f33");
  refused("--pattern dotted", "dotted");
  refused("--sparsity 1.5", "--sparsity");
  refused("--sparsity nan", "--sparsity");
  refused("--type f64 --size 7B", "nothing to measure");
  refused("--quick --full", "--full");
  refused("--frobnicate", "--frobnicate");
  for (const char* size : {"7B", "32MiB", "a"}) refused(std::string("--peer-chunk ") + size, "--peer-chunk");
  for (const char* size : {"100B", "32KiB", "a"}) refused(std::string("--chunk ") + size, "--chunk");
  refused("--blocks 0", "--blocks");
  refused("--where host --blocks 2", "--blocks");
  refused("--codec quantize --type u8", "quantize");
  refused("--where host --gpu h100", "--where model");
  refused("--where host --what-if dram=0", "--where model");
  refused("--where host --sample 4", "--where model");
  EXPECT_EQ(run("--codec zvc --size 4KiB --where host --out " + path("no/such/directory.json")), 1);
  EXPECT_NE(output_.find("no/such/directory.json"), std::string::npos) << output_;
  EXPECT_EQ(run("--codec zvc --size 4KiB --where host --pattern recorded --data " + path("")), 1);
}

}  // namespace
