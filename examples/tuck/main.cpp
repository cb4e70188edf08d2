// tuck converts .npy and safetensors files to frames and back. This file defines the options. Each command has a file
// of its own.
#include "checkpoint.hpp"
#include "codecs.hpp"
#include "commands.hpp"
#include "declared_type.hpp"
#include "support/files.hpp"

#include <tuck/core/version.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <system_error>
#include <vector>

namespace {

using namespace tuck::tools;

constexpr int bad_input = 1;
constexpr int differs = 1;
constexpr int bad_usage = 2;
constexpr int not_compared = 2;

std::string version_text() {
  return "tuck " + std::to_string(tuck::version_major) + "." + std::to_string(tuck::version_minor) + "." +
         std::to_string(tuck::version_patch);
}

// Runs a command. If memory runs out, the error names the input.
template <class Answer, class Options> auto run(Answer (*command)(const Options&), const Options& options) {
  return [command, &options] {
    try {
      return command(options);
    } catch (const std::bad_alloc&) {
      throw file_error(shown_input(options.in), "not enough memory");
    }
  };
}

void refuse_one_stream_twice(const std::vector<std::string>& inputs) {
  if (std::count(inputs.begin(), inputs.end(), standard_stream) > 1)
    throw usage_error("standard input, '-', can be one input only");
}

void add_machine(CLI::App& app, machine& on, unsigned& threads) {
  const auto set = [&on](const std::string& name) { on = name == "device" ? machine::device : machine::host; };
  app.add_option_function<std::string>("--on", set, "Where to run: host or device")
      ->check(CLI::IsMember({"host", "device"}).description(""))
      ->default_str("host")
      ->type_name("WHERE");
  app.add_option("--threads", threads, "Most threads on the host; 0: one per core")
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
         "--as", set, "Element type that the integers of the " + what + " stand for: " + CLI::detail::join(names, ", "))
      ->check(CLI::IsMember(names).description(""))
      ->type_name("TYPE");
}

std::string check_chunk_values(const std::string& text) {
  uint32_t values = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), values);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && values != 0 && values % 32 == 0 ? "" : "must be a multiple of 32, not 0, and below 2^32";
}

void add_row(CLI::App& app, encode_options& options) {
  const auto parsed = [](const std::string& text, uint32_t& row) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), row);
    return error == std::errc() && end == text.data() + text.size() && row != 0;
  };
  const auto check = [parsed](const std::string& text) {
    uint32_t row = 0;
    return text == "auto" || parsed(text, row) ? "" : "must be auto, or a number that is not 0 and below 2^32";
  };
  const auto set = [&options, parsed](const std::string& text) {
    if (!parsed(text, options.row)) options.row = 0;
  };
  const std::string chain = codec_with_rows;
  app.add_option_function<std::string>("--row", set,
                                       "Values per row, for --codec " + chain +
                                           ", which this option chooses if there\n" +
                                           "is no --codec; auto: the last dimension of the array")
      ->check(CLI::Validator(check, ""))
      ->default_str("auto")
      ->type_name("N");
}

// Without --codec, --row chooses the codec.
void choose_for_rows(const CLI::App& app, encode_options& options) {
  if (app.count("--codec") == 0) options.codecs = codec_rules(codec_with_rows);
  if (!options.codecs.has_rows())
    throw usage_error(std::string("--row needs --codec ") + codec_with_rows + "; " +
                      app.get_option("--codec")->as<std::string>() + " has no rows");
}

void add_error_bound(CLI::App& app, encode_options& options) {
  const auto positive = [](const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return whole && value > 0 && std::isfinite(value) ? "" : "must be a positive, finite number";
  };
  CLI::Option* value = app.add_option("--error-bound", options.bound.value,
                                      "Largest change of a value; --codec quantize, alone or in a chain, needs it")
                           ->check(CLI::Validator(positive, ""))
                           ->type_name("E");
  const auto set = [&options](const std::string& name) {
    options.bound.mode = name == "absolute" ? tuck::bound_mode::absolute
                         : name == "range"  ? tuck::bound_mode::range_relative
                                            : tuck::bound_mode::pointwise;
  };
  CLI::Option* mode =
      app.add_option_function<std::string>("--bound", set,
                                           "Meaning of E: absolute; range, relative to the difference of the highest\n"
                                           "and the lowest finite value; or pointwise, relative to each value")
          ->check(CLI::IsMember({"absolute", "range", "pointwise"}).description(""))
          ->default_str("range")
          ->type_name("MODE");
  app.parse_complete_callback([&options, value, mode, codec = app.get_option("--codec")] {
    if ((*value || *mode) && options.codecs.lossy().empty())
      throw usage_error("--error-bound and --bound need --codec quantize or a chain with it; " +
                        codec->as<std::string>() + " is lossless");
  });
}

// A lossy codec has no default bound.
void check_bound(const CLI::App& app, const encode_options& options) {
  const std::string codec(options.codecs.lossy());
  if (!codec.empty() && app.count("--error-bound") == 0)
    throw usage_error("--codec " + codec + " needs --error-bound E, with --bound absolute, range or pointwise");
}

CLI::Option* add_base(CLI::App& app, std::string& base, const std::string& what) {
  return app.add_option("--base", base, what)->type_name("OLD.npy");
}

// If no codec is given, encode uses the default codec of deltas.
void choose_for_delta(const CLI::App& app, encode_options& options) {
  const auto refuse = [](const std::string& what, std::string_view codec) {
    if (!codec.empty()) throw usage_error(what + ", not " + std::string(codec));
  };
  refuse("--base needs a lossless codec", options.codecs.lossy());
  if (options.on == machine::device)
    refuse("--base with --on device needs rle, steps, zvc or zvc+huffman", options.codecs.without_device_deltas());
  if (options.no_checksums) throw usage_error("--no-checksums is not for deltas, which are verified by checksums");
  options.chooses_codec = app.count("--codec") + app.count("--row") == 0;
}

// Whether the .npy files of a folder that has other files too become one safetensors file.
bool packs_arrays(const encode_options& options) {
  std::error_code none;
  const bool has_arrays = std::any_of(std::filesystem::recursive_directory_iterator(options.in, none), {},
                                      [](const auto& entry) { return entry.path().extension() == ".npy"; });
  return has_arrays && options.out.ends_with(".safetensors");
}

void add_encode(CLI::App& program, encode_options& options) {
  CLI::App& app =
      *program.add_subcommand("encode", "Encode a .npy file to a frame, or a safetensors file to a file of frames");
  app.footer(
      "The .npy header is stored in the frame. Decoding restores the identical file. With quantize, each value\n"
      "is restored within the error bound, and infinities and NaN exactly. -0.0 may become 0.0.\n"
      "\n"
      "A folder is encoded as the safetensors file of its .npy files would be: FOLDER/a/b.npy is the tensor a/b.\n"
      "A folder with safetensors files, such as a checkpoint in several files with an index, is encoded to a folder\n"
      "OUT/, which decode restores: each safetensors file to one of the same name. Other files are copied. --base is\n"
      "then another such folder.\n"
      "\n"
      "IN.safetensors is encoded to a safetensors file with one frame per tensor. Tensors of a type that the codec\n"
      "does not take, and tensors whose frame would not be smaller, are stored raw. A line at the end names the\n"
      "former.\n"
      "\n"
      "--codec f32=quantize,bf16=codebooks,*=zvc chooses by type; * stands for all other types. Types are u8, i8,\n"
      "u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64, f8e4m3, f8e5m2. BOOL and all types that are not in this\n"
      "list count as u8, one value per byte. Types without a codec are stored raw. Types ignore\n"
      "case, and F8_E4M3 is f8e4m3, as in safetensors files.");
  app.add_option("IN.npy", options.in,
                 "The array: NumPy format 1 to 3, little-endian; or IN.safetensors; or a folder of .npy files;\n"
                 "- is standard input")
      ->required();
  app.add_option("OUT.tuck", options.out,
                 "The frame; an existing file is replaced when the frame is complete; - is standard output")
      ->required();
  const auto set_codec = [&options](const std::string& text) {
    try {
      options.codecs = codec_rules(text);
    } catch (const usage_error& e) {
      throw usage_error(std::string("--codec: ") + e.what());
    }
  };
  app.add_option_function<std::string>("-c,--codec", set_codec, "Codec: " + CLI::detail::join(codec_names(), ", "))
      ->default_str("zvc")
      ->type_name("NAME");
  add_base(
      app, options.base,
      "Encode a delta against this array, of the same type and shape, or a folder's;\nnot of .npy files in a folder");
  add_error_bound(app, options);
  add_row(app, options);
  add_machine(app, options.on, options.threads);
  add_declared_type(app, options.as, "file");
  app.add_option("--chunk-values", options.chunk_values,
                 "Values per chunk, a multiple of 32; the default depends on the codec")
      ->check(CLI::Validator(check_chunk_values, ""))
      ->type_name("N");
  app.add_flag("--once", options.once, "Store tensors of safetensors files that have equal values once");
  app.add_flag("--no-checksums", options.no_checksums,
               "Store no checksums of the values, which take 8 bytes per chunk");
  app.callback([&app, &options] {
    refuse_one_stream_twice({options.in, options.base});
    if (app.count("--row") != 0) choose_for_rows(app, options);
    if (!options.base.empty()) choose_for_delta(app, options);
    check_bound(app, options);
    run(is_checkpoint(options.in) && !packs_arrays(options) ? encode_checkpoint : encode, options)();
  });
}

void add_decode(CLI::App& program, decode_options& options) {
  CLI::App& app = *program.add_subcommand("decode", "Decode a frame to a .npy file, or a safetensors file of frames");
  app.footer(
      "A frame without a .npy header is decoded to an array of one dimension. bf16 is written as <u2,\n8-bit floats as "
      "|u1. In a folder, which ends in '/' if it is new, all tensors of a safetensors file become .npy files: a/b\n"
      "becomes FOLDER/a/b.npy. IN may be a folder that encode wrote; OUT is then a folder, too.");
  app.add_option("IN.tuck", options.in, "The frame; or IN.safetensors with frames; - is standard input")->required();
  app.add_option(
         "OUT.npy", options.out,
         "The array; or OUT.safetensors; or a folder. An existing file is replaced when its array is complete;\n"
         "- is standard output")
      ->required();
  app.add_option("--tensor", options.tensor, "Write only this tensor of a safetensors file, as a .npy file")
      ->type_name("NAME");
  add_base(app, options.base, "The base of the delta");
  add_machine(app, options.on, options.threads);
  app.callback([&options] {
    refuse_one_stream_twice({options.in, options.base});
    run(is_checkpoint(options.in) ? decode_checkpoint : decode, options)();
  });
}

void add_compact(CLI::App& program, compact_options& options) {
  CLI::App& app = *program.add_subcommand("compact", "Merge consecutive deltas into one");
  app.footer("All deltas need the same codec, type and chunk size, and are given in order. See encode --base.");
  app.add_option("IN.tuck", options.in, "The first delta")->required();
  app.add_option("OUT.tuck", options.others, "The following deltas, then the delta to write")->required();
  add_base(app, options.base, "The base of the first delta")->required();
  app.add_option("--threads", options.threads, "Most threads; 0: one per core")
      ->check(CLI::Range(0, 1024).description(""))
      ->default_str("0")
      ->type_name("N");
  app.callback([&options] {
    std::vector<std::string> inputs = options.others;
    if (!inputs.empty()) inputs.back() = options.in;
    inputs.push_back(options.base);
    refuse_one_stream_twice(inputs);
    run(compact, options)();
  });
}

void add_info(CLI::App& program, info_options& options) {
  CLI::App& app =
      *program.add_subcommand("info", "Show the contents of a frame or a safetensors file, without decoding it");
  app.footer("Checks the header and the directory, but not the values; see verify.");
  app.add_option("IN.tuck", options.in, "The frame; or IN.safetensors; - is standard input")->required();
  app.add_flag("--json", options.json, "For programs: one JSON object, with every chunk of a frame");
  app.callback(run(info, options));
}

void add_verify(CLI::App& program, verify_options& options) {
  CLI::App& app = *program.add_subcommand("verify", "Decode a frame and check its values, without writing them");
  app.footer("Reports the first damaged chunk.");
  app.add_option("IN.tuck", options.in, "The frame; or IN.safetensors with frames; - is standard input")->required();
  app.callback([&options] { run(is_checkpoint(options.in) ? verify_checkpoint : verify, options)(); });
}

// Sets the exit code, and the one after an error, which are those of cmp and diff.
void add_compare(CLI::App& program, compare_options& options, int& exit_code, int& error_code) {
  CLI::App& app = *program.add_subcommand("compare", "Show the differences of two arrays or safetensors files");
  app.footer(
      "A is the reference, and errors are those of B. Values with equal bits have no error, and two NaN have\n"
      "none either. If a value is not finite otherwise, the error is infinite. In JSON, a number that no double\n"
      "can hold is a string, such as \"inf\". Values of types that tuck does not have, such as F4, are compared as\n"
      "bytes. The exit code is 0 if all values have equal bits, 1 if any differ, and 2 if they\n"
      "cannot be compared.");
  app.add_option("A.npy", options.in, "The reference; or A.safetensors; - is standard input")->required();
  app.add_option("B.npy", options.other,
                 "The array to compare, of the same shape and type; or B.safetensors; - is standard input")
      ->required();
  add_declared_type(app, options.as, "files");
  app.add_flag("--json", options.json, "For programs: one JSON object");
  app.callback([&options, &exit_code, &error_code] {
    error_code = not_compared;
    refuse_one_stream_twice({options.in, options.other});
    if (!run(compare, options)()) exit_code = differs;
  });
}

// Returns what is wrong with a command line, with the option or the argument, in one line.
std::string usage_text(const CLI::App& program, const CLI::ParseError& e) {
  const std::vector<CLI::App*> commands = program.get_subcommands();
  const std::vector<std::string> rest = program.remaining(true);
  const auto option = std::find_if(rest.begin(), rest.end(), [](const auto& word) { return word.starts_with('-'); });
  const bool has_rest = commands.empty() || dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr;
  std::string text = e.what();
  if (has_rest && option != rest.end())
    text = "unknown option '" + *option + "'";
  else if (commands.empty())
    text = "there is no command";
  else if (has_rest)
    text = "one argument too many: '" + rest.back() + "'";
  else if (dynamic_cast<const CLI::ArgumentMismatch*>(&e) != nullptr)
    text =
        text.substr(0, text.find(':')) + (text.ends_with(" missing") ? " needs a value" : " is given more than once");
  return text + "; see 'tuck " + (commands.empty() ? "" : commands[0]->get_name() + " ") + "--help'";
}

int complain(const std::exception& e, int code) {
  std::cerr << "tuck: " << e.what() << '\n';
  return code;
}

// Flushes standard output. Returns error_code if that fails.
int flush_output(int error_code) {
  std::cout.flush();
  if (std::cout && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  return complain(file_error("standard output", errno), error_code);
}

}  // namespace

int main(int argc, char** argv) {
  handle_ending_signals();
  std::signal(SIGPIPE, SIG_IGN);  // to write to a pipe that nobody reads any more is an error, too
  CLI::App program("Compresses arrays: .npy and safetensors files to tuck frames and back", "tuck");
  program.set_version_flag("--version", version_text(), "Print the version and exit");
  program.require_subcommand(1);
  program.footer(
      "'tuck COMMAND --help' describes a command. As a file, - is standard input or standard output.\n"
      "Exit codes: 0 done, 1 bad input, 2 bad usage. compare: 0 equal, 1 different, 2 not compared.");
  encode_options to_encode;
  decode_options to_decode;
  compact_options to_compact;
  info_options to_show;
  verify_options to_verify;
  compare_options to_compare;
  int exit_code = 0, error_code = bad_input;
  add_encode(program, to_encode);
  add_decode(program, to_decode);
  add_compact(program, to_compact);
  add_info(program, to_show);
  add_verify(program, to_verify);
  add_compare(program, to_compare, exit_code, error_code);
  try {
    const auto is_first = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
    if (argc > 1 && argv[1][0] != '-' && program.get_subcommands(is_first).empty())
      throw usage_error("unknown command '" + std::string(argv[1]) + "'; see 'tuck --help'");
    program.parse(argc, argv);
    const int flushed = flush_output(error_code);
    return flushed != 0 ? flushed : exit_code;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return program.exit(e), flush_output(error_code);  // --help, --version
    return complain(usage_error(usage_text(program, e)), bad_usage);
  } catch (const usage_error& e) {
    return complain(e, bad_usage);
  } catch (const std::exception& e) {
    return complain(e, error_code);
  }
}
