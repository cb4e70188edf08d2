// Arrays of Python, errors, and choices of codecs, as the extension's sources use them.
#pragma once

#include "codec_rules.hpp"
#include "codecs.hpp"
#include "lock.hpp"
#include "support/files.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace tuck::python {

namespace nb = nanobind;
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
inline constexpr uint32_t type_error = 2000;  // Python's TypeError
struct failure {
  uint32_t code;
  std::string text;
};
[[noreturn]] inline void refuse(refusal why, std::string text) {
  throw failure{static_cast<uint32_t>(why), std::move(text)};
}
// `subject`: of the message, which itself says "the frame", "the base"; or empty.
inline void check(const outcome& done, const std::string& subject = {}) {
  if (done) return;
  std::string text = (subject.empty() ? "" : subject + ": ") + message(done.code);
  if (done.first_bad_chunk != no_chunk) text += ", chunk " + std::to_string(done.first_bad_chunk);
  if (done.code == status::needs_base) text += "; pass it to apply_delta or load";
  if (done.code == status::not_a_delta) text += "; decode restores it, or load without a base";
  throw failure{static_cast<uint32_t>(done.code), text};
}
inline void check(status s, const std::string& subject = {}) { check(outcome{.code = s}, subject); }

struct array_type {
  uint8_t code, bits;  // of DLPack
};
inline constexpr uint8_t boolean_code = 6;
inline dtype type_of(const array_type& t) {
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
inline dtype type_named(const std::string& name) {
  for (uint8_t t = 1; size_of(dtype{t}) != 0; ++t)
    if (name == tuck::name(dtype{t})) return dtype{t};
  refuse(refusal::unknown_type, "dtype '" + name + "' is none of " + tools::types_of("zvc"));  // which takes all
}
// Booleans are u8 in a frame; the header of NumPy in its metadata has what they are.
inline constexpr const char* boolean = "bool";

// Most threads of a call; 0: one per core.
inline unsigned threads_of(nb::handle number) {
  constexpr Py_ssize_t most = 1024;
  const Py_ssize_t count = in_python([&] { return PyNumber_AsSsize_t(number.ptr(), nullptr); });
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw failure{type_error, std::string("threads: pass a number, not of type ") + nb::inst_name(number).c_str()};
  }
  if (count < 0 || count > most)
    throw failure{static_cast<uint32_t>(status::invalid_argument),
                  "threads: pass 0, which is one per core, to " + std::to_string(most)};
  return static_cast<unsigned>(count);
}

// An array in memory of the CPU, by the buffer protocol or by DLPack.
class array {
 public:
  // `role`: what errors call it.
  array(nb::handle x, const std::string& role, bool is_written = false) : from_(x) {
    const auto take = [&] { return PyObject_GetBuffer(x.ptr(), &buffer_, PyBUF_RECORDS_RO); };
    if (PyObject_CheckBuffer(x.ptr()) != 0 && in_python(take) == 0)
      take_buffer(role, is_written);
    else
      take_dlpack(x, role, is_written);
  }
  array(const array&) = delete;
  ~array() {
    if (buffer_.obj == nullptr) return;
    in_python([this] {
      PyBuffer_Release(&buffer_);
      return true;
    });
  }

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  tuck::bytes all() const { return {data_, bytes_}; }
  const std::vector<uint64_t>& shape() const { return shape_; }
  uint32_t value_bytes() const { return value_bytes_; }
  // `as`: as of type.
  bool is_boolean(const std::string& as) const { return as.empty() ? type_.code == boolean_code : as == boolean; }
  // The type of the values. `as`: empty, or the type that integers of the same size stand for.
  dtype type(const std::string& as, const std::string& role) const {
    const dtype own = type_of(type_);
    if (as.empty() || (as == boolean && own == dtype::u8)) {
      if (own == dtype::none) refuse_type(role);
      return own;
    }
    const dtype declared = type_named(as);
    if (own != declared &&
        (own == dtype::none || own > dtype::i64 || type_.code == boolean_code || size_of(own) != size_of(declared)))
      refuse(refusal::unknown_type, role + " has dtype " + type_text() + "; dtype='" + as + "' takes integers of " +
                                        std::to_string(8 * size_of(declared)) + " bits");
    return declared;
  }

  // The type as Python shows it. While the array of the constructor is there.
  std::string type_text() const {
    if (const nb::object type = attribute(from_, "dtype"); type.is_valid()) {
      const auto text = nb::steal(in_python([&] { return PyObject_Str(type.ptr()); }));
      if (text.is_valid()) return nb::cast<std::string>(text);
      PyErr_Clear();
    }
    if (buffer_.format != nullptr) return "of format '" + std::string(buffer_.format) + "'";
    if (buffer_.obj != nullptr) return "uint8";
    return std::to_string(type_.code) + " of DLPack with " + std::to_string(type_.bits) + " bits";
  }

 private:
  [[noreturn]] void refuse_type(const std::string& role) const {
    refuse(refusal::unknown_type,
           role + " has dtype " + type_text() + "; tuck takes " + tools::types_of("zvc") + " and booleans");
  }
  [[noreturn]] static void refuse_strides(const std::string& role) {
    refuse(refusal::not_contiguous,
           role + " is not contiguous" + (role == "out" ? "" : "; pass numpy.ascontiguousarray(x)"));
  }
  template <class Sizes> void set(void* data, size_t dimensions, const Sizes& size) {
    data_ = static_cast<std::byte*>(data);
    bytes_ = value_bytes_;
    for (size_t d = 0; d < dimensions; ++d) {
      shape_.push_back(static_cast<uint64_t>(size(d)));
      bytes_ *= shape_.back();
    }
  }
  void take_buffer(const std::string& role, bool is_written) {
    if (is_written && buffer_.readonly != 0) refuse(refusal::read_only, role + " is read-only");
    value_bytes_ = static_cast<uint32_t>(buffer_.itemsize);
    type_ = type_of_format(buffer_.format);
    set(buffer_.buf, static_cast<size_t>(buffer_.ndim), [&](size_t d) { return buffer_.shape[d]; });
    if (PyBuffer_IsContiguous(&buffer_, 'C') == 0) refuse_strides(role);  // ctypes gives no strides
  }
  array_type type_of_format(const char* format) const {
    const auto bits = static_cast<uint8_t>(8 * value_bytes_);
    if (format == nullptr) return {1, bits};
    if (*format == '@' || *format == '=' || *format == '<') ++format;
    if (format[0] == '\0' || format[1] != '\0') return {255, bits};
    constexpr const char* kinds[] = {"bhilqn", "BHILQNc", "efd"};
    for (uint8_t code = 0; code < 3; ++code)
      if (std::strchr(kinds[code], *format) != nullptr) return {code, bits};
    return {static_cast<uint8_t>(*format == '?' ? boolean_code : 255), bits};
  }
  // An attribute, or null.
  static nb::object attribute(nb::handle x, const char* name) {
    auto of = nb::steal(in_python([&] { return PyObject_GetAttrString(x.ptr(), name); }));
    if (!of.is_valid()) PyErr_Clear();
    return of;
  }
  // What __dlpack__ returns, or null. Only what DLPack calls versioned says whether it is read-only.
  static nb::object dlpack_of(nb::handle x, bool is_versioned) {
    const nb::object method = attribute(x, "__dlpack__");
    if (!method.is_valid()) return {};
    nb::dict how;
    if (is_versioned) how["max_version"] = nb::make_tuple(1, 0);
    const nb::tuple nothing = nb::make_tuple();
    auto made = nb::steal(in_python([&] { return PyObject_Call(method.ptr(), nothing.ptr(), how.ptr()); }));
    if (!made.is_valid()) PyErr_Clear();
    return made;
  }
  static bool is_read_only(nb::handle versioned) {
    struct head {
      uint32_t major, minor;
      void* context;
      void (*deleter)(void*);
      uint64_t flags;
    };
    void* of = PyCapsule_GetPointer(versioned.ptr(), "dltensor_versioned");
    if (of == nullptr) PyErr_Clear();
    return of != nullptr && (static_cast<const head*>(of)->flags & 1) != 0;
  }
  void take_dlpack(nb::handle x, const std::string& role, bool is_written) {
    PyErr_Clear();
    nb::ndarray<nb::ro> from;
    nb::object exported = dlpack_of(x, false);
    if (!exported.is_valid()) exported = dlpack_of(x, true);
    if (!nb::try_cast(exported.is_valid() ? exported : x, from, false)) {
      if (PyObject_CheckBuffer(x.ptr()) != 0) refuse_type(role);  // NumPy's times have no format
      const bool may_be_path = PyUnicode_Check(x.ptr()) != 0;
      throw failure{type_error, role + " is of type " + nb::inst_name(x).c_str() +
                                    "; pass a NumPy array, a torch tensor, or what has the buffer protocol or DLPack" +
                                    (may_be_path ? "; load reads files" : "")};
    }
    if (is_written)
      if (const nb::object versioned = dlpack_of(x, true); versioned.is_valid() && is_read_only(versioned))
        refuse(refusal::read_only, role + " is read-only");
    if (from.device_type() != nb::device::cpu::value)
      refuse(refusal::other_device, role + " is not in memory of the CPU");
    value_bytes_ = static_cast<uint32_t>(from.itemsize());
    const nb::dlpack::dtype t = from.dtype();
    type_ = {t.lanes == 1 ? t.code : uint8_t{255}, t.bits};
    owner_ = from;
    set(const_cast<void*>(from.data()), from.ndim(), [&](size_t d) { return from.shape(d); });
    int64_t wanted = 1;
    for (size_t d = shape_.size(); d-- > 0 && bytes_ != 0; wanted *= static_cast<int64_t>(shape_[d]))
      if (shape_[d] != 1 && from.stride(d) != wanted) refuse_strides(role);
  }

  nb::handle from_;  // is not kept
  Py_buffer buffer_{};
  nb::ndarray<nb::ro> owner_;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  uint32_t value_bytes_ = 1;
  array_type type_{};
  std::vector<uint64_t> shape_;
};

// Checks type and size of the base of a delta. A shape is shown as Python shows it.
inline void check_base(const array& base, dtype type, const std::string& base_role, const array& x, dtype wanted) {
  const auto shape_text = [](const array& of) {
    nb::list sizes;
    for (const uint64_t size : of.shape()) sizes.append(size);
    return std::string(nb::str(nb::tuple(sizes)).c_str());
  };
  if (type != wanted)
    refuse(refusal::wrong_size, base_role + " has dtype " + name(type) + ", the tensor " + name(wanted));
  if (base.bytes() != x.bytes())
    refuse(refusal::wrong_size, base_role + " has shape " + shape_text(base) + ", the tensor " + shape_text(x));
}

// Checks the type of an array for the values of a frame. Integers stand for types that NumPy does not have. `as`: as of
// array::type.
inline void check_type(const frame_header& h, const array& x, const std::string& as, const std::string& role) {
  const dtype type = x.type(as, role);
  const bool has_numpy = h.type != dtype::bf16 && h.type != dtype::f8e4m3 && h.type != dtype::f8e5m2;
  if (type == h.type || (as.empty() && !has_numpy && type <= dtype::i64 && size_of(type) == size_of(h.type))) return;
  throw failure{static_cast<uint32_t>(status::type_mismatch),
                role + " has dtype " + (as.empty() ? x.type_text() : as) + ", the frame " + name(h.type)};
}

inline bool overlap(const_bytes a, const_bytes b) {
  return !a.empty() && !b.empty() && a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}
[[noreturn]] inline void refuse_without_bound(const std::string& codec) {
  refuse(refusal::bound_missing,
         "codec '" + codec + "' needs a bound: tuck.absolute(v), tuck.range_relative(v) or tuck.pointwise(v)");
}
// What the caller asked for. mode: -1 no bound, or a bound_mode.
inline codec_choice choice_of(const std::string& codec, int mode, double bound) {
  codec_choice choice{codec, {}};
  const bool lossy = tools::is_lossy(codec);
  if (codec.find('=') != std::string::npos)
    throw failure{static_cast<uint32_t>(status::unknown_codec),
                  "codec '" + codec + "': codecs by type are for save of a dict of tensors; pass one name"};
  if (tools::types_of(codec).empty())
    throw failure{static_cast<uint32_t>(status::unknown_codec), tools::unknown_codec_text(codec)};
  if (lossy && mode < 0) refuse_without_bound(codec);
  if (!lossy && mode >= 0) refuse(refusal::bound_unwanted, "codec '" + codec + "' is lossless and takes no bound");
  if (lossy) choice.bound = {static_cast<bound_mode>(mode), bound, nullptr};
  return choice;
}
inline std::unique_ptr<tools::chosen_codec> codec_for(const codec_choice& choice, dtype type, bool is_boolean) {
  auto codec = tools::choose_codec(choice, type);
  if (codec == nullptr)
    throw failure{static_cast<uint32_t>(status::unsupported_type), "codec '" + choice.name + "' takes " +
                                                                       tools::types_of(choice.name) + ", not " +
                                                                       (is_boolean ? boolean : name(type))};
  return codec;
}

// The functions for files, and those for trainings.
void bind_files(nb::module_& m);
void bind_training(nb::module_& m);

}  // namespace tuck::python
