// tuck: .npy and safetensors files to frames and back. This file is the options; each command has its own.
#include "codecs.hpp"
#include "commands.hpp"
#include "declared_type.hpp"
#include "support/files.hpp"

#include <tuck/core/version.hpp>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <new>
#include <string>
#include <system_error>

namespace {

using namespace tuck::tools;

constexpr int bad_input = 1;
constexpr int bad_usage = 2;

std::string version_text() {
  return "tuck " + std::to_string(tuck::version_major) + "." + std::to_string(tuck::version_minor) + "." +
         std::to_string(tuck::version_patch);
}

// Runs a command; a lack of memory is told about its input.
template <class Options> auto run(void (*command)(const Options&), const Options& options) {
  return [command, &options] {
    try {
      command(options);
    } catch (const std::bad_alloc&) {
      throw file_error(options.in, "not enough memory");
    }
  };
}

void add_machine(CLI::App& app, machine& on, unsigned& threads) {
  const auto set = [&on](const std::string& name) { on = name == "device" ? machine::device : machine::host; };
  app.add_option_function<std::string>("--on", set, "Where to run: host or device")
      ->check(CLI::IsMember({"host", "device"}).description(""))
      ->default_str("host")
      ->type_name("WHERE");
  app.add_option("--threads", threads, "Threads on the host, at most; 0 is one a core")
      ->check(CLI::Range(0, 1024).description(""))
      ->default_str("0")
      ->type_name("N");
}

void add_declared_type(CLI::App& app, tuck::dtype& as, const std::string& what) {
  std::vector<std::string> names;
  for (const tuck::dtype type : declarable_types) names.emplace_back(tuck::name(type));
  const auto set = [&as](const std::string& name) {
    for (const tuck::dtype type : declarable_types)
      if (name == tuck::name(type)) as = type;
  };
  app.add_option_function<std::string>(
         "--as", set, "What the integers of the " + what + " really are: " + CLI::detail::join(names, ", "))
      ->check(CLI::IsMember(names).description(""))
      ->type_name("TYPE");
}

std::string check_chunk_values(const std::string& text) {
  uint32_t values = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), values);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && values != 0 && values % 32 == 0 ? "" : "must be a multiple of 32, not 0, and below 2^32";
}

// How far from the original quantize may come back.
void add_error_bound(CLI::App& app, encode_options& options) {
  const auto positive = [](const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return whole && value > 0 && std::isfinite(value) ? "" : "must be a positive, finite number";
  };
  CLI::Option* value =
      app.add_option("--error-bound", options.codec.bound.value,
                     "With --codec quantize, alone or in a chain: the most by which a value may change")
          ->check(CLI::Validator(positive, ""))
          ->capture_default_str()
          ->type_name("E");
  const auto set = [&options](const std::string& name) {
    options.codec.bound.mode = name == "absolute" ? tuck::bound_mode::absolute
                               : name == "range"  ? tuck::bound_mode::range_relative
                                                  : tuck::bound_mode::pointwise;
  };
  CLI::Option* mode =
      app.add_option_function<std::string>("--bound", set,
                                           "What E counts in: absolute; range, the highest less the lowest finite\n"
                                           "value; or pointwise, each value itself")
          ->check(CLI::IsMember({"absolute", "range", "pointwise"}).description(""))
          ->default_str("range")
          ->type_name("MODE");
  app.parse_complete_callback([&options, value, mode] {
    if ((*value || *mode) && !is_lossy(options.codec.name))
      throw usage_error("--error-bound and --bound are for --codec quantize and its chains; " + options.codec.name +
                        " loses nothing");
  });
}

void add_base(CLI::App& app, std::string& base, const std::string& what) {
  app.add_option("--base", base, what + "; on the host")->type_name("OLD.npy");
}

void refuse_device(machine on) {
  if (on == machine::device) throw usage_error("--base is for --on host");
}

// What suits deltas best, where nothing else was asked for: large chunks, few values of which differ.
void choose_for_delta(const CLI::App& app, encode_options& options) {
  refuse_device(options.on);
  if (is_lossy(options.codec.name)) throw usage_error("--base takes a lossless codec, not " + options.codec.name);
  options.chooses_codec = app.count("--codec") == 0;
}

void add_encode(CLI::App& program, encode_options& options) {
  CLI::App& app =
      *program.add_subcommand("encode", "Encode a .npy file into a frame, or a safetensors file into one of frames");
  app.footer(
      "The .npy header is kept in the frame, so that decoding gives back the file byte for byte - but for\n"
      "quantize, which gives back each value to within the error bound: zeros, infinities and NaN as they were.\n"
      "IN.safetensors becomes a safetensors file, too, each tensor of which is a frame.");
  app.add_option("IN.npy", options.in, "The array: NumPy format 1 to 3, C order, little-endian; or IN.safetensors")
      ->required();
  app.add_option("OUT.tuck", options.out, "The frame; replaced when it is complete, never half-written")->required();
  app.add_option("--codec", options.codec.name, "Codec: " + CLI::detail::join(codec_names(), ", "))
      ->check(CLI::IsMember(codec_names()).description(""))
      ->capture_default_str()
      ->type_name("NAME");
  add_base(app, options.base, "Encode a delta against this array, of the same type and shape");
  add_error_bound(app, options);
  add_machine(app, options.on, options.threads);
  add_declared_type(app, options.as, "file");
  app.add_option("--chunk-values", options.chunk_values,
                 "Values a chunk, a multiple of 32; the codec's own choice if not given")
      ->check(CLI::Validator(check_chunk_values, ""))
      ->type_name("N");
  app.add_flag("--no-checksums", options.no_checksums, "Keep no checksums of the values, 8 bytes a chunk");
  app.callback([&app, &options] {
    if (!options.base.empty()) choose_for_delta(app, options);
    run(encode, options)();
  });
}

void add_decode(CLI::App& program, decode_options& options) {
  CLI::App& app = *program.add_subcommand("decode", "Decode a frame into a .npy file, or a safetensors file of frames");
  app.footer(
      "A frame without a .npy header becomes an array of one dimension; bf16 is written as <u2,\n8-bit floats as |u1.");
  app.add_option("IN.tuck", options.in, "The frame; or IN.safetensors, frames")->required();
  app.add_option("OUT.npy", options.out, "The array; replaced when it is complete, never half-written")->required();
  add_base(app, options.base, "The array that a delta was made against");
  add_machine(app, options.on, options.threads);
  app.callback([&options] {
    if (!options.base.empty()) refuse_device(options.on);
    run(decode, options)();
  });
}

void add_compact(CLI::App& program, compact_options& options) {
  CLI::App& app = *program.add_subcommand("compact", "Make one delta of several in a row, without their base");
  app.footer("All of one codec, type and size of chunks, the first one's base first; see encode --base.");
  app.add_option("IN.tuck", options.in, "The first delta")->required();
  app.add_option("OUT.tuck", options.others, "The deltas behind it; then the delta to write")->required();
  app.add_option("--threads", options.threads, "Threads, at most; 0 is one a core")
      ->check(CLI::Range(0, 1024).description(""))
      ->default_str("0")
      ->type_name("N");
  app.callback(run(compact, options));
}

void add_info(CLI::App& program, info_options& options) {
  CLI::App& app = *program.add_subcommand("info", "Show what a frame or a safetensors file holds, without decoding it");
  app.footer("The header and the directory are checked, the values are not: see verify.");
  app.add_option("IN.tuck", options.in, "The frame; or IN.safetensors")->required();
  app.add_flag("--json", options.json, "For programs: one JSON object, with every chunk of a frame");
  app.callback(run(info, options));
}

void add_verify(CLI::App& program, verify_options& options) {
  CLI::App& app = *program.add_subcommand("verify", "Decode a frame without keeping the values, and check them");
  app.footer("Names the first chunk that is damaged.");
  app.add_option("IN.tuck", options.in, "The frame; or IN.safetensors, frames")->required();
  app.callback(run(verify, options));
}

void add_compare(CLI::App& program, compare_options& options) {
  CLI::App& app = *program.add_subcommand("compare", "Tell how far apart two arrays are");
  app.footer(
      "Errors are those of B against A. Values of equal bits have none, and one NaN is as good as another; where\n"
      "else a value is not finite, the error is infinite. In JSON a number that no double can hold is a string,\n"
      "such as \"inf\". The exit code is 0 however far apart the arrays are.");
  app.add_option("A.npy", options.in, "The reference")->required();
  app.add_option("B.npy", options.other, "What is compared with it, of the same shape and type")->required();
  add_declared_type(app, options.as, "files");
  app.add_flag("--json", options.json, "For programs: one JSON object");
  app.callback(run(compare, options));
}

int complain(const std::exception& e, int code) {
  std::cerr << "tuck: " << e.what() << '\n';
  return code;
}

// Text that did not reach its reader is a failure, as with any output.
int flush_output() {
  std::cout.flush();
  if (std::cout && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  return complain(file_error("standard output", errno), bad_input);
}

}  // namespace

int main(int argc, char** argv) {
  // Beyond a file size limit, writing then fails in words, instead of killing us over our temporary file.
  std::signal(SIGXFSZ, SIG_IGN);
  CLI::App program("Compresses arrays: .npy and safetensors files to tuck frames and back", "tuck");
  program.set_version_flag("--version", version_text(), "Print the version and exit");
  program.require_subcommand(1);
  program.footer("'tuck COMMAND --help' tells about a command. Exit codes: 0 done, 1 bad input, 2 bad usage.");
  encode_options to_encode;
  decode_options to_decode;
  compact_options to_compact;
  info_options to_show;
  verify_options to_verify;
  compare_options to_compare;
  add_encode(program, to_encode);
  add_decode(program, to_decode);
  add_compact(program, to_compact);
  add_info(program, to_show);
  add_verify(program, to_verify);
  add_compare(program, to_compare);
  try {
    const auto is_first = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
    if (argc > 1 && argv[1][0] != '-' && program.get_subcommands(is_first).empty())
      throw usage_error("there is no command '" + std::string(argv[1]) + "'; 'tuck --help' names those that there are");
    program.parse(argc, argv);
    return flush_output();
  } catch (const CLI::ParseError& e) {
    return program.exit(e) == 0 ? flush_output() : bad_usage;
  } catch (const usage_error& e) {
    return complain(e, bad_usage);
  } catch (const std::exception& e) {
    return complain(e, bad_input);
  }
}
