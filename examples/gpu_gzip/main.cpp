// gpu_gzip: files to BGZF and back. gunzip reads what it writes, and it reads what bgzip writes.
#include "gzip.hpp"
#include "support/files.hpp"
#include "support/progress.hpp"

#include <CLI/CLI.hpp>

#include <iostream>
#include <new>

namespace {

using namespace tuck::tools;

constexpr int bad_run = 1;
constexpr int bad_usage = 2;

struct options {
  std::string in;
  std::string out;
  bool decompresses = false;
  bool on_device = true;
};

void run(const options& wanted) {
  if (same_file(wanted.in, wanted.out)) throw file_error(wanted.out, "input and output are the same file");
  input_file in(wanted.in);
  output_file out(wanted.out);
  const auto coder =
      wanted.on_device ? gpu_gzip::make_device_coder(gpu_gzip::default_batch) : gpu_gzip::make_host_coder();
  progress shown(wanted.decompresses ? "decompressing" : "compressing", in.size(), in.size());
  const auto source = [&](tuck::bytes room) {
    const uint64_t got = in.read(room);
    shown.add(got);
    return got;
  };
  const auto sink = [&](tuck::const_bytes data) { out.write(data); };
  try {
    if (wanted.decompresses)
      gpu_gzip::decompress(source, sink, *coder);
    else
      gpu_gzip::compress(source, sink, *coder);
  } catch (const gpu_gzip::bad_input& e) {
    throw file_error(wanted.in, e.what());
  }
  out.commit();
}

void add_options(CLI::App& program, options& wanted) {
  program.add_option("IN", wanted.in, "A regular file")->required();
  program.add_option("OUT", wanted.out, "Replaced when it is complete, never half-written")->required();
  program.add_flag("-d,--decompress", wanted.decompresses, "IN is a BGZF file, of gpu_gzip or bgzip");
  const auto set = [&wanted](const std::string& name) { wanted.on_device = name == "device"; };
  program.add_option_function<std::string>("--on", set, "Where to run: host or device")
      ->check(CLI::IsMember({"host", "device"}).description(""))
      ->default_str("device")
      ->type_name("WHERE");
  program.footer(
      "Writes gzip in BGZF form: members of 65,280 bytes that say how long they are, so that they decode at once.\n"
      "With -d, other gzip files are refused, and so is a BGZF file without its end: it may have been cut.\n"
      "Exit codes: 0 done, 1 bad input or no device, 2 bad usage.");
}

int complain(const std::string& reason) {
  std::cerr << "gpu_gzip: " << reason << '\n';
  return bad_run;
}

}  // namespace

int main(int argc, char** argv) {
  handle_ending_signals();
  CLI::App program("Compresses a file to gzip on the GPU, and back", "gpu_gzip");
  options wanted;
  add_options(program, wanted);
  try {
    program.parse(argc, argv);
    run(wanted);
    return 0;
  } catch (const CLI::ParseError& e) {
    return program.exit(e) == 0 ? 0 : bad_usage;
  } catch (const std::bad_alloc&) {
    return complain(file_error(wanted.in, "not enough memory").what());
  } catch (const std::exception& e) {
    return complain(e.what());
  }
}
