// The functions of the library for Python: tuck/__init__.py makes the interface of them. Arrays are in memory of the
// CPU. Encoding and decoding run without the interpreter's lock.
#include "codecs.hpp"
#include "support/npy.hpp"

#include <tuck/core/checksum.hpp>
#include <tuck/frame/reader.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace tuck;
using tools::codec_choice;

// Errors carry a number: a tuck::status, or one of these.
enum class refusal : uint32_t {
  not_contiguous = 1000,
  other_device,
  unknown_type,
  read_only,
  overlap,
  bound_unwanted,
  bound_missing,
  wrong_size,
};
constexpr uint32_t type_error = 2000;  // Python's TypeError
struct failure {
  uint32_t code;
  std::string text;
};
[[noreturn]] void refuse(refusal why, std::string text) { throw failure{static_cast<uint32_t>(why), std::move(text)}; }
void check(status s, const std::string& subject = {}) {
  if (s != status::ok) throw failure{static_cast<uint32_t>(s), (subject.empty() ? "" : subject + ": ") + message(s)};
}
void check(const outcome& done, const std::string& subject = {}) {
  if (done.code != status::ok && done.first_bad_chunk != no_chunk)
    throw failure{static_cast<uint32_t>(done.code), (subject.empty() ? "" : subject + ": ") +
                                                        std::string(message(done.code)) + ", chunk " +
                                                        std::to_string(done.first_bad_chunk)};
  check(done.code, subject);
}

// The exception classes by number, set by the Python half.
PyObject* error_classes = nullptr;

struct array_type {
  uint8_t code, bits;  // of DLPack
};
dtype type_of(const array_type& t) {
  struct known {
    uint8_t code, bits;
    dtype type;
  };
  // Codes of DLPack: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 and 12 8-bit floats E4M3FN and E5M2.
  constexpr known all[] = {{1, 8, dtype::u8},   {0, 8, dtype::i8},      {1, 16, dtype::u16},   {0, 16, dtype::i16},
                           {1, 32, dtype::u32}, {0, 32, dtype::i32},    {1, 64, dtype::u64},   {0, 64, dtype::i64},
                           {2, 16, dtype::f16}, {4, 16, dtype::bf16},   {2, 32, dtype::f32},   {2, 64, dtype::f64},
                           {6, 8, dtype::u8},   {10, 8, dtype::f8e4m3}, {12, 8, dtype::f8e5m2}};
  for (const known& k : all)
    if (t.code == k.code && t.bits == k.bits) return k.type;
  return dtype::none;
}
dtype type_named(const std::string& name) {
  for (uint8_t t = 1; size_of(dtype{t}) != 0; ++t)
    if (name == tuck::name(dtype{t})) return dtype{t};
  refuse(refusal::unknown_type, "dtype '" + name + "' is not one of tuck's");
}

// An array in memory of the CPU, by the buffer protocol or by DLPack.
class array {
 public:
  // `role`: what errors call it.
  array(nb::handle x, const char* role, bool is_written = false) {
    if (PyObject_CheckBuffer(x.ptr()) != 0 && PyObject_GetBuffer(x.ptr(), &buffer_, PyBUF_RECORDS_RO) == 0)
      take_buffer(role, is_written);
    else
      take_dlpack(x, role, is_written);
  }
  array(const array&) = delete;
  ~array() {
    if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
  }

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  tuck::bytes all() const { return {data_, bytes_}; }
  const std::vector<uint64_t>& shape() const { return shape_; }
  uint32_t value_bytes() const { return value_bytes_; }
  // The type of the values. `as`: empty, or the type that integers of the same size stand for.
  dtype type(const std::string& as, const char* role) const {
    const dtype own = type_of(type_);
    if (as.empty()) {
      if (own == dtype::none) refuse(refusal::unknown_type, std::string(role) + " has a dtype that tuck does not have");
      return own;
    }
    const dtype declared = type_named(as);
    if (own != declared && (own == dtype::none || own > dtype::i64 || size_of(own) != size_of(declared)))
      refuse(refusal::unknown_type, std::string(role) + ": dtype '" + as + "' needs integers of " +
                                        std::to_string(8 * size_of(declared)) + " bits");
    return declared;
  }

 private:
  template <class Sizes, class Strides>
  void set(const char* role, void* data, size_t dimensions, const Sizes& size, const Strides& stride) {
    data_ = static_cast<std::byte*>(data);
    bytes_ = value_bytes_;
    for (size_t d = 0; d < dimensions; ++d) {
      shape_.push_back(static_cast<uint64_t>(size(d)));
      bytes_ *= shape_.back();
    }
    int64_t wanted = value_bytes_;
    for (size_t d = dimensions; d-- > 0 && bytes_ != 0; wanted *= static_cast<int64_t>(shape_[d]))
      if (shape_[d] != 1 && stride(d) != wanted)
        refuse(refusal::not_contiguous,
               std::string(role) + " is not contiguous; pass a copy, as numpy.ascontiguousarray makes");
  }
  void take_buffer(const char* role, bool is_written) {
    if (is_written && buffer_.readonly != 0) refuse(refusal::read_only, std::string(role) + " is read-only");
    value_bytes_ = static_cast<uint32_t>(buffer_.itemsize);
    type_ = type_of_format(buffer_.format);
    set(
        role, buffer_.buf, static_cast<size_t>(buffer_.ndim), [&](size_t d) { return buffer_.shape[d]; },
        [&](size_t d) { return int64_t{buffer_.strides[d]}; });
  }
  array_type type_of_format(const char* format) const {
    const auto bits = static_cast<uint8_t>(8 * value_bytes_);
    if (format == nullptr) return {1, bits};
    if (*format == '@' || *format == '=' || *format == '<') ++format;
    if (format[0] == '\0' || format[1] != '\0') return {255, bits};
    constexpr const char* kinds[] = {"bhilqn", "BHILQNc", "efd"};
    for (uint8_t code = 0; code < 3; ++code)
      if (std::strchr(kinds[code], *format) != nullptr) return {code, bits};
    return {static_cast<uint8_t>(*format == '?' ? 6 : 255), bits};
  }
  void take_dlpack(nb::handle x, const char* role, bool is_written) {
    PyErr_Clear();
    nb::ndarray<nb::ro> from;
    if (!nb::try_cast(x, from, false))
      throw failure{type_error, std::string(role) + " is no array: it has neither the buffer protocol nor DLPack"};
    if (is_written) {  // DLPack of old does not tell what is read-only
      nb::ndarray<> writable;
      if (!nb::try_cast(x, writable, false)) refuse(refusal::read_only, std::string(role) + " is read-only");
    }
    if (from.device_type() != nb::device::cpu::value)
      refuse(refusal::other_device, std::string(role) + " is not in memory of the CPU");
    value_bytes_ = static_cast<uint32_t>(from.itemsize());
    const nb::dlpack::dtype t = from.dtype();
    type_ = {t.lanes == 1 ? t.code : uint8_t{255}, t.bits};
    owner_ = from;
    set(
        role, const_cast<void*>(from.data()), from.ndim(), [&](size_t d) { return from.shape(d); },
        [&](size_t d) { return from.stride(d) * int64_t{value_bytes_}; });
  }

  Py_buffer buffer_{};
  nb::ndarray<nb::ro> owner_;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  uint32_t value_bytes_ = 1;
  array_type type_{};
  std::vector<uint64_t> shape_;
};

bool overlap(const_bytes a, const_bytes b) {
  return !a.empty() && !b.empty() && a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}
// What the caller asked for. mode: -1 no bound, or a bound_mode.
codec_choice choice_of(const std::string& codec, int mode, double bound) {
  codec_choice choice{codec, {}};
  const bool lossy = tools::is_lossy(codec);
  if (tools::types_of(codec).empty()) check(status::unknown_codec, "codec '" + codec + "'");
  if (lossy && mode < 0) refuse(refusal::bound_missing, "codec '" + codec + "' needs a bound");
  if (!lossy && mode >= 0) refuse(refusal::bound_unwanted, "codec '" + codec + "' is lossless and takes no bound");
  if (lossy) choice.bound = {static_cast<bound_mode>(mode), bound, nullptr};
  return choice;
}
std::unique_ptr<tools::chosen_codec> codec_for(const codec_choice& choice, dtype type) {
  auto codec = tools::choose_codec(choice, type);
  if (codec == nullptr)
    throw failure{static_cast<uint32_t>(status::type_not_taken),
                  "codec '" + choice.name + "' takes " + tools::types_of(choice.name) + ", not " + name(type)};
  return codec;
}

// How tensors are to be encoded, with what the last one needed: the next one is often like it.
struct encode_settings {
  std::string codec, as;
  int mode;
  double bound;
  bool checksums;
  unsigned threads;

  std::array<std::shared_ptr<tools::chosen_codec>, 16> codecs = {};  // by type
  dtype last_type = dtype::none;
  std::vector<uint64_t> last_shape = {};
  std::string last_prelude = {};

  // Without a name: the codec of deltas.
  std::string name_of(dtype type) const { return codec.empty() ? tools::delta_codec(type) : codec; }
  const std::shared_ptr<tools::chosen_codec>& codec_of(dtype type, const std::vector<uint64_t>& shape) {
    auto& chosen = codecs[static_cast<size_t>(type)];
    if (chosen == nullptr || (codec == tools::codec_with_rows && (last_type != type || last_shape != shape))) {
      codec_choice choice = choice_of(name_of(type), mode, bound);
      choice.row = tools::row_length(shape);
      chosen = codec_for(choice, type);
    }
    return chosen;
  }
  const std::string& prelude_of(dtype type, const std::vector<uint64_t>& shape) {
    if (last_type != type || last_shape != shape) {
      last_prelude = tools::make_npy_prelude(type, shape);
      last_type = type;
      last_shape = shape;
    }
    return last_prelude;
  }
};

// How one tensor is to be encoded, checked before memory is allocated for the frame.
struct plan {
  std::shared_ptr<tools::chosen_codec> codec;
  const_bytes values;
  dtype type;
  std::string metadata;
  frame_options options;

  plan(const array& x, encode_settings& how, bool is_delta) : values(x.all()), type(x.type(how.as, "the tensor")) {
    if (!tuck::aligned(values.data(), size_of(type))) check(status::misaligned, "the tensor");
    codec = how.codec_of(type, x.shape());
    metadata = how.prelude_of(type, x.shape());
    options.checksums = how.checksums;
    options.metadata = {reinterpret_cast<const std::byte*>(metadata.data()), metadata.size()};
    if (is_delta) options.alignment = tools::delta_alignment;
    if (const std::string codec = how.name_of(type); is_delta && tools::is_delta_codec(codec))
      options.chunk_values = tools::most_chunk_values(codec, type);
  }
  uint64_t most_bytes(const encode_settings& how) const {
    const tools::frame_plan sizes = codec->plan(values.size() / size_of(type), options);
    check(sizes.code, "codec '" + how.codec + "'");
    return sizes.most_bytes;
  }
};

uint64_t most_bytes(nb::handle tensor, encode_settings& how, bool is_delta) {
  return plan(array(tensor, "the tensor"), how, is_delta).most_bytes(how);
}

uint64_t encode_to(nb::handle tensor, const array* base, nb::handle out, encode_settings& how) {
  const array x(tensor, "the tensor"), to(out, "out", true);
  const plan p(x, how, base != nullptr);
  const bytes frame = to.all();
  const_bytes before;
  if (overlap(p.values, frame)) refuse(refusal::overlap, "out overlaps the tensor");
  if (base != nullptr) {
    before = base->all();
    if (before.size() != p.values.size() || base->type(how.as, "the base") != p.type)
      refuse(refusal::wrong_size, "the base has another type or size than the tensor");
    if (!tuck::aligned(before.data(), size_of(p.type))) check(status::misaligned, "the base");
    if (overlap(before, frame)) refuse(refusal::overlap, "out overlaps the base");
  }
  outcome done;
  {
    const nb::gil_scoped_release unlocked;
    done = p.codec->encode(p.values, frame, p.options, {.threads = how.threads}, base != nullptr ? &before : nullptr);
  }
  if (done.code == status::output_too_small)
    throw failure{static_cast<uint32_t>(done.code),
                  "out has " + std::to_string(frame.size()) + " bytes; the frame needs " + std::to_string(done.bytes)};
  if (!done) check(done, "codec '" + how.codec + "'");
  return done.bytes;
}
uint64_t encode(nb::handle tensor, nb::handle out, encode_settings& how) {
  return encode_to(tensor, nullptr, out, how);
}
uint64_t encode_delta(nb::handle tensor, nb::handle base, nb::handle out, encode_settings& how) {
  const array before(base, "the base");
  return encode_to(tensor, &before, out, how);
}

frame_header header_of(const_bytes frame) {
  frame_header h;
  check(inspect(frame, h), "the frame");
  return h;
}

// Checks the array for the values of a frame.
bytes room_for(const frame_header& h, const array& out) {
  const uint64_t size = h.value_count * size_of(h.type);
  const dtype type = out.type({}, "out");
  if (type != h.type && !(type <= dtype::i64 && size_of(type) == size_of(h.type)))
    check(status::type_mismatch, std::string("out has type ") + name(type) + ", the frame " + name(h.type));
  if (out.bytes() != size)
    refuse(refusal::wrong_size,
           "out has " + std::to_string(out.bytes()) + " bytes; the tensor has " + std::to_string(size));
  if (!tuck::aligned(out.data(), size_of(h.type))) check(status::misaligned, "out");
  return out.all();
}

void decode(nb::handle frame, nb::handle out, unsigned threads) {
  const array from(frame, "the frame"), to(out, "out", true);
  const bytes values = room_for(header_of(from.all()), to);
  if (overlap(from.all(), values)) refuse(refusal::overlap, "out overlaps the frame");
  outcome done;
  {
    const nb::gil_scoped_release unlocked;
    done = tools::decode_frame(from.all(), values, 0, {.threads = threads});
  }
  if (!done) check(done, "the frame");
}

void apply_delta(nb::handle delta, nb::handle base, nb::handle out, unsigned threads) {
  const array from(delta, "the delta"), before(base, "the base"), to(out, "out", true);
  const frame_header h = header_of(from.all());
  const bytes values = room_for(h, to);
  if (before.bytes() != values.size()) check(status::wrong_base);
  if (!tuck::aligned(before.data(), size_of(h.type))) check(status::misaligned, "the base");
  if (overlap(from.all(), values) || (values.data() != before.data() && overlap(before.all(), values)))
    refuse(refusal::overlap, "out overlaps the delta, or a part of the base; it may be the base itself");
  outcome done;
  {
    const nb::gil_scoped_release unlocked;
    done = tools::decode_delta_frame(from.all(), before.all(), values, {.threads = threads});
  }
  if (!done) check(done, "the delta");
}

// The shape in the metadata of a frame, or that of one dimension if there is none.
nb::tuple shape_of(const_bytes frame, const frame_header& h) {
  std::vector<uint64_t> shape{h.value_count};
  bool fortran = false;
  const uint64_t end = sizeof(frame_header) + h.metadata_bytes;
  if (h.metadata_bytes != 0 && end <= frame.size()) {
    try {
      const tools::npy_header npy = tools::parse_npy_header(frame.subspan(sizeof(frame_header), h.metadata_bytes), "");
      if (npy.values == h.value_count && npy.element_bytes == 0) {
        shape = npy.shape;
        fortran = npy.fortran_order;
      }
    } catch (const std::exception&) {  // other metadata than ours
    }
  }
  nb::list sizes;
  for (const uint64_t size : shape) sizes.append(size);
  return nb::make_tuple(nb::tuple(sizes), fortran);
}

nb::dict info(nb::handle frame) {
  const array bytes(frame, "the frame");
  const const_bytes from = bytes.all();
  const frame_header h = header_of(from);
  nb::dict all;
  const nb::tuple shape = shape_of(from, h);
  all["dtype"] = name(h.type);
  all["shape"] = shape[0];
  all["fortran_order"] = shape[1];
  all["values"] = h.value_count;
  all["codec"] = tools::stage_names(h.stages);
  all["raw_bytes"] = h.value_count * size_of(h.type);
  all["frame_bytes"] = h.frame_bytes;
  all["chunk_values"] = h.chunk_values;
  all["is_delta"] = (h.flags & flag_delta) != 0;
  all["has_checksums"] = (h.flags & flag_checksums) != 0;
  if (const auto bound = tools::bound_of(h.stages)) {
    all["bound_mode"] = name(bound->mode);
    all["bound"] = bound->requested;
    all["effective_bound"] = bound->effective;
  }
  return all;
}

nb::list codecs() {
  nb::list all;
  for (const std::string& codec : tools::codec_names())
    all.append(nb::make_tuple(codec, tools::types_of(codec), tools::is_lossy(codec)));
  return all;
}

}  // namespace

NB_MODULE(_tuck, m) {
  nb::set_leak_warnings(false);
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void*) {
        try {
          std::rethrow_exception(thrown);
        } catch (const failure& f) {
          if (f.code == type_error) {
            PyErr_SetString(PyExc_TypeError, f.text.c_str());
            return;
          }
          const nb::object key = nb::int_(f.code);
          PyObject* type = error_classes != nullptr ? PyDict_GetItem(error_classes, key.ptr()) : nullptr;
          PyErr_SetString(type != nullptr ? type : PyExc_ValueError, f.text.c_str());
        } catch (const tools::file_error& e) {
          PyErr_SetString(PyExc_OSError, e.what());
        }
      },
      nullptr);
  m.def("set_errors", [](nb::dict classes) { error_classes = classes.release().ptr(); });
  nb::class_<encode_settings>(m, "Settings")
      .def(
          "__init__",
          [](encode_settings* self, std::string codec, std::string as, int mode, double bound, bool checksums,
             unsigned threads) {
            new (self) encode_settings{std::move(codec), std::move(as), mode, bound, checksums, threads};
          },
          "codec"_a, "as_type"_a, "mode"_a, "bound"_a, "checksums"_a, "threads"_a);
  m.def("most_bytes", &most_bytes);
  m.def("encode", &encode);
  m.def("encode_delta", &encode_delta);
  m.def("decode", &decode);
  m.def("apply_delta", &apply_delta);
  m.def("info", &info);
  m.def("codecs", &codecs);
}
