// Files of tensors for Python, by the rules and the code of the program: a frame, or a safetensors file of frames.
#include "array.hpp"
#include "commands.hpp"
#include "frame_file.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

using namespace nanobind::literals;

namespace tuck::python {
namespace {

std::string path_of(const nb::bytes& path) { return {path.c_str(), path.size()}; }

void write_frame(const nb::bytes& path, nb::handle frame) {
  const array from(frame, "the frame");
  const std::string to = path_of(path);
  const unlocked interpreter;
  tools::output_file out(to);
  out.write(from.all());
  out.commit();
}

// A tensor to write, with its type in safetensors files.
struct named_array {
  std::string name, type;
  array values;
  std::unique_ptr<array> base;

  named_array(const std::string& called, nb::handle x, const std::string& as, nb::handle of_base,
              const std::string& as_base)
      : name(called), values(x, "tensor '" + called + "'") {
    const std::string role = "tensor '" + name + "'", base_role = "the base of " + role;
    const dtype own = values.type(as, role);
    type = values.is_boolean(as) ? "BOOL" : tools::file_type_of(own);
    if (of_base.is_none()) return;
    base = std::make_unique<array>(of_base, base_role);
    check_base(*base, base->type(as_base, base_role), base_role, values, own);
  }
};

tools::encode_options options_of(const std::string& path, const std::string& codec, int mode, double bound,
                                 unsigned threads) {
  tools::encode_options options;
  options.out = path;
  options.threads = threads;
  options.is_silent = true;
  if (codec.empty()) {  // of deltas
    options.chooses_codec = true;
    return options;
  }
  if (codec.find('=') == std::string::npos) {
    options.bound = choice_of(codec, mode, bound).bound;
    options.codecs = tools::codec_rules(codec);
    return options;
  }
  try {
    options.codecs = tools::codec_rules(codec);
  } catch (const tools::usage_error& e) {
    throw failure{static_cast<uint32_t>(status::unknown_codec), "codec '" + codec + "': " + e.what()};
  }
  const bool lossy = !options.codecs.lossy().empty();
  if (lossy && mode < 0) refuse_without_bound(std::string(options.codecs.lossy()));
  if (!lossy && mode >= 0) refuse(refusal::bound_unwanted, "codec '" + codec + "' is lossless and takes no bound");
  if (lossy) options.bound = {static_cast<bound_mode>(mode), bound, nullptr};
  return options;
}

// `tensors`: tuples of a name, an array, the type that its integers stand for or "", and the same of the base, which
// may be None. Returns pairs of the name of a tensor that no codec takes, and why.
std::vector<std::pair<std::string, std::string>> write_tensors(const nb::bytes& path, const nb::list& tensors,
                                                               const std::string& codec, int mode, double bound,
                                                               nb::handle threads) {
  tools::encode_options options = options_of(path_of(path), codec, mode, bound, threads_of(threads));
  if (mode >= 0 && !(bound > 0 && std::isfinite(bound))) check(status::bad_bound);
  std::deque<named_array> arrays;
  for (const nb::handle t : tensors)
    arrays.emplace_back(nb::cast<std::string>(t[0]), t[1], nb::cast<std::string>(t[2]), t[3],
                        nb::cast<std::string>(t[4]));
  const unlocked interpreter;
  std::map<std::string, const named_array*> by_name;
  std::vector<tools::named_tensor> described;
  for (const named_array& a : arrays) {
    by_name.emplace(a.name, &a);
    described.push_back({.name = a.name, .dtype = a.type, .shape = a.values.shape()});
    described.back().end = a.values.bytes();
    if (a.base != nullptr) options.base = "base";  // says that there is one
  }
  const tools::safetensors_header header = tools::header_of_tensors(std::move(described), options.out);
  std::vector<const_bytes> values, bases;
  for (const tools::named_tensor& t : header.tensors) {
    const named_array& a = *by_name.at(t.name);
    values.push_back(a.values.all());
    bases.push_back(a.base != nullptr ? a.base->all() : bytes{});
  }
  std::vector<std::pair<std::string, std::string>> left_out;
  for (const tools::named_tensor& t : tools::encode_tensors(options, options.out, header, values, bases).left_out)
    left_out.emplace_back(t.name, options.codecs.why_none(t.type()) + (t.dtype == "BOOL" ? ", as booleans are" : ""));
  return left_out;
}

// What else a file may be, and how it is read; or "".
std::string other_format(const_bytes content) {
  const std::string_view all(reinterpret_cast<const char*>(content.data()), content.size());
  if (all.starts_with("\x93NUMPY")) return "this is a .npy file, which numpy.load reads";
  if (all.starts_with("PK\3\4")) return "this is a zip archive; numpy.load reads .npz, torch.load .pt";
  return "";
}

// A file that has been read: one frame, or tensors with names.
class tensors_file {
 public:
  explicit tensors_file(const nb::bytes& path) {
    const unlocked interpreter;
    try {
      read(tools::read_input(path_of(path)));
    } catch (const tools::file_error& e) {
      if (e.error_number() != 0) throw;
      throw failure{static_cast<uint32_t>(status::bad_header), e.what()};
    }
  }

  bool is_frame() const { return !has_names_; }
  const_bytes frame() const { return frame_.content.all(); }
  // Tuples of name, type in the file, type of tuck, shape, and bytes.
  nb::list tensors() const {
    nb::list all;
    for (const tools::stored_tensor& t : tensors_.tensors) {
      nb::list shape;
      for (const uint64_t size : t.tensor.shape) shape.append(size);
      all.append(nb::make_tuple(t.tensor.name, t.tensor.dtype, name(t.tensor.type()), nb::tuple(shape), t.raw_bytes()));
    }
    return all;
  }
  // The names in the order of the file's header.
  const std::vector<std::string>& names() const { return tensors_.original.names; }
  // Reads the values of a tensor as bytes. `base`: of a delta, or None.
  void read_values(size_t which, nb::handle out, nb::handle base, const std::string& as_base,
                   nb::handle threads_or_0) const {
    const unsigned threads = threads_of(threads_or_0);
    const array to(out, "out", true);
    const tools::stored_tensor& t = tensors_.tensors.at(which);
    if (to.bytes() != t.raw_bytes()) refuse(refusal::wrong_size, t.about.tensor + "out has another size");
    std::unique_ptr<array> before;
    if (t.is_frame && !base.is_none()) {
      const std::string role = "the base of " + t.about.tensor.substr(0, t.about.tensor.size() - 2);
      before = std::make_unique<array>(base, role);
      // u8 also stands for types that tuck does not have.
      if (t.tensor.type() != dtype::u8) check_type(t.view.header(), *before, as_base, role);
      if (before->bytes() != to.bytes()) check(status::wrong_base, about_tensor_of(t));
    }
    const unlocked interpreter;
    if (before != nullptr)
      check(tools::decode_delta_frame(t.content, before->all(), to.all(), {.threads = threads}), about_tensor_of(t));
    else if (t.is_frame)
      check(tools::decode_frame(t.content, to.all(), 0, {.threads = threads}), about_tensor_of(t));
    else
      std::copy(t.content.begin(), t.content.end(), to.data());
  }

 private:
  void read(tools::input in) {
    has_names_ = in.is_safetensors;
    if (const std::string other = other_format(in.content.all()); !other.empty())
      throw tools::file_error(in.path, other);
    if (!has_names_) {
      frame_ = tools::open_frame(std::move(in));
      return;
    }
    tensors_ = tools::open_tensors(tools::parse_safetensors(std::move(in.content), in.path), in.path);
  }
  static std::string about_tensor_of(const tools::stored_tensor& t) {
    return t.about.file + ": " + t.about.tensor.substr(0, t.about.tensor.size() - 2);  // without ": "
  }

  bool has_names_ = false;
  tools::frame_file frame_;
  tools::frames_file tensors_;
};

// A tensor in a header: name, type in the file, type of tuck, shape, and the offsets of its values in the data.
using described_tensor = std::tuple<std::string, std::string, std::string, std::vector<uint64_t>, uint64_t, uint64_t>;
using texts = std::map<std::string, std::string>;

// Reads only the header of a safetensors file. Returns the offset of the data, the tensors, and the texts of
// "__metadata__".
std::tuple<uint64_t, std::vector<described_tensor>, texts> read_header(const nb::bytes& path) {
  const std::string from = path_of(path);
  const unlocked interpreter;
  uint64_t first = 0;
  tools::safetensors_header header = tools::read_safetensors_header(from, first);
  std::vector<described_tensor> tensors;
  for (tools::named_tensor& t : header.tensors)
    tensors.emplace_back(std::move(t.name), t.dtype, name(t.type()), std::move(t.shape), t.begin, t.end);
  return {first, std::move(tensors), std::move(header.metadata)};
}
// Returns what a file of these tensors has before the data. Types of tuck are ignored.
nb::bytes make_header(const std::vector<described_tensor>& tensors, const texts& metadata) {
  std::vector<tools::named_tensor> all;
  for (const auto& [called, type, ignored, shape, begin, end] : tensors)
    all.push_back({called, type, shape, begin, end});
  const std::string prelude = tools::safetensors_prelude(tools::make_safetensors_header(all, metadata));
  return nb::bytes(prelude.data(), prelude.size());
}

// Exchanges the names of two files or folders, atomically.
void exchange(const nb::bytes& a, const nb::bytes& b) {
  constexpr int here = -100, exchanges = 2;  // AT_FDCWD, RENAME_EXCHANGE
  if (syscall(SYS_renameat2, here, a.c_str(), here, b.c_str(), exchanges) != 0)
    throw tools::file_error(path_of(b), errno);
}

}  // namespace

void bind_files(nb::module_& m) {
  m.def("write_frame", &write_frame, "path"_a, "frame"_a);
  m.def("write_tensors", &write_tensors, "path"_a, "tensors"_a, "codec"_a, "mode"_a, "bound"_a, "threads"_a.none());
  m.def("read_safetensors_header", &read_header, "path"_a);
  m.def("make_safetensors_header", &make_header, "tensors"_a, "metadata"_a);
  m.def("exchange", &exchange, "a"_a, "b"_a);
  nb::class_<tensors_file>(m, "TensorsFile")
      .def(nb::init<nb::bytes>(), "path"_a)
      .def_prop_ro("is_frame", &tensors_file::is_frame)
      .def("frame",
           [](nb::handle self) {
             const const_bytes frame = nb::cast<tensors_file&>(self).frame();
             return nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>>(frame.data(), {frame.size()}, self);
           })
      .def("tensors", &tensors_file::tensors)
      .def_prop_ro("names", &tensors_file::names)
      .def("read", &tensors_file::read_values, "which"_a, "out"_a, "base"_a.none(), "base_type"_a, "threads"_a.none());
}

}  // namespace tuck::python
