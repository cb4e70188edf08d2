// Files of tensors for Python, by the rules and the code of the program: a frame, or a safetensors file of frames.
#include "array.hpp"
#include "commands.hpp"
#include "frame_file.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <deque>
#include <utility>

using namespace nanobind::literals;

namespace tuck::python {
namespace {

std::string path_of(const nb::bytes& path) { return {path.c_str(), path.size()}; }

void write_frame(const nb::bytes& path, nb::handle frame) {
  const array from(frame, "the frame");
  const std::string to = path_of(path);
  const nb::gil_scoped_release unlocked;
  tools::output_file out(to);
  out.write(from.all());
  out.commit();
}

// A tensor to write, with its type in safetensors files.
struct named_array {
  std::string name, type;
  array values;

  named_array(const std::string& called, nb::handle x, const std::string& as, bool is_bool)
      : name(called), values(x, "tensor '" + called + "'") {
    const std::string role = tools::about_tensor(name) + "the array";
    type = is_bool ? "BOOL" : tools::file_type_of(values.type(as, role));
  }
};

// The header of a safetensors file of these arrays. Larger elements come first, so that all are aligned.
tools::safetensors_header header_of(std::deque<named_array>& arrays, const std::string& path) {
  std::vector<tools::named_tensor> described;
  std::vector<const named_array*> order;
  for (const named_array& a : arrays) order.push_back(&a);
  std::stable_sort(order.begin(), order.end(), [](const named_array* a, const named_array* b) {
    return a->values.value_bytes() > b->values.value_bytes();
  });
  uint64_t end = 0;
  for (const named_array* a : order) {
    described.push_back({.name = a->name, .dtype = a->type, .shape = a->values.shape(), .begin = end});
    described.back().end = end += a->values.bytes();
  }
  return tools::parse_safetensors_header(tools::make_safetensors_header(described, {}), path);
}

tools::encode_options options_of(const std::string& path, const std::string& codec, int mode, double bound,
                                 unsigned threads) {
  tools::encode_options options;
  options.out = path;
  options.threads = threads;
  options.is_silent = true;
  if (codec.find('=') == std::string::npos) {
    options.bound = choice_of(codec, mode, bound).bound;
    options.codecs = tools::codec_rules(codec);
    return options;
  }
  try {
    options.codecs = tools::codec_rules(codec);
  } catch (const tools::usage_error& e) {
    check(status::unknown_codec, e.what());
  }
  const bool lossy = !options.codecs.lossy().empty();
  if (lossy && mode < 0) refuse(refusal::bound_missing, "codec '" + codec + "' needs a bound");
  if (!lossy && mode >= 0) refuse(refusal::bound_unwanted, "codec '" + codec + "' is lossless and takes no bound");
  if (lossy) options.bound = {static_cast<bound_mode>(mode), bound, nullptr};
  return options;
}

// `tensors`: tuples of a name, an array, the type that its integers stand for or "", and whether they are booleans.
std::vector<std::string> write_tensors(const nb::bytes& path, const nb::list& tensors, const std::string& codec,
                                       int mode, double bound, unsigned threads) {
  const tools::encode_options options = options_of(path_of(path), codec, mode, bound, threads);
  std::deque<named_array> arrays;
  for (const nb::handle t : tensors)
    arrays.emplace_back(nb::cast<std::string>(t[0]), t[1], nb::cast<std::string>(t[2]), nb::cast<bool>(t[3]));
  const nb::gil_scoped_release unlocked;
  const tools::safetensors_header header = header_of(arrays, options.out);
  std::map<std::string, const_bytes> by_name;
  for (const named_array& a : arrays) by_name.emplace(a.name, a.values.all());
  std::vector<const_bytes> values;
  for (const tools::named_tensor& t : header.tensors) values.push_back(by_name.at(t.name));
  return tools::encode_tensors(options, options.out, header, values, std::vector<const_bytes>(values.size())).left_out;
}

// A file that has been read: one frame, or tensors with names.
class tensors_file {
 public:
  explicit tensors_file(const nb::bytes& path) {
    const nb::gil_scoped_release unlocked;
    tools::input in = tools::read_input(path_of(path));
    try {
      read(std::move(in));
    } catch (const tools::file_error& e) {
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
  // Reads the values of a tensor as bytes.
  void read_values(size_t which, nb::handle out, unsigned threads) const {
    const array to(out, "out", true);
    const tools::stored_tensor& t = tensors_.tensors.at(which);
    if (to.bytes() != t.raw_bytes()) refuse(refusal::wrong_size, t.about.tensor + "out has another size");
    const nb::gil_scoped_release unlocked;
    if (t.is_frame)
      check(tools::decode_frame(t.content, to.all(), 0, {.threads = threads}), t.about.file + ": " + t.about.tensor);
    else
      std::copy(t.content.begin(), t.content.end(), to.data());
  }

 private:
  void read(tools::input in) {
    has_names_ = in.is_safetensors;
    if (!has_names_) {
      frame_ = tools::open_frame(std::move(in));
      return;
    }
    tools::safetensors_file file = tools::parse_safetensors(std::move(in.content), in.path);
    if (file.header.metadata.contains(tools::original_header)) {
      tensors_ = tools::open_frames(std::move(file), in.path);
      tools::check_raw_tensors(tensors_, in.path);
      return;
    }
    tensors_.content = std::move(file);
    for (const tools::named_tensor& t : tensors_.content.header.tensors)
      tensors_.tensors.push_back({.about = {in.path, tools::about_tensor(t.name)},
                                  .tensor = t,
                                  .content = tensors_.content.values(t),
                                  .is_frame = false,
                                  .view = {}});
  }

  bool has_names_ = false;
  tools::frame_file frame_;
  tools::frames_file tensors_;
};

}  // namespace

void bind_files(nb::module_& m) {
  m.def("write_frame", &write_frame, "path"_a, "frame"_a);
  m.def("write_tensors", &write_tensors, "path"_a, "tensors"_a, "codec"_a, "mode"_a, "bound"_a, "threads"_a);
  nb::class_<tensors_file>(m, "TensorsFile")
      .def(nb::init<nb::bytes>(), "path"_a)
      .def_prop_ro("is_frame", &tensors_file::is_frame)
      .def("frame",
           [](nb::handle self) {
             const const_bytes frame = nb::cast<tensors_file&>(self).frame();
             return nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>>(frame.data(), {frame.size()}, self);
           })
      .def("tensors", &tensors_file::tensors)
      .def("read", &tensors_file::read_values, "which"_a, "out"_a, "threads"_a);
}

}  // namespace tuck::python
