// The functions of the library for Python: tuck/__init__.py makes the interface of them. Arrays are in memory of the
// CPU. Encoding and decoding run without the interpreter's lock.
#include "plan.hpp"

#include <tuck/core/version.hpp>
#include <tuck/frame/delta_writers.hpp>

#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace nanobind::literals;

namespace tuck::python {
namespace {

// The exception classes by number, set by the Python half.
PyObject* error_classes = nullptr;

uint64_t most_bytes(nb::handle tensor, encode_settings& how, bool is_delta) {
  return plan(array(tensor, "the tensor"), how, is_delta).most_bytes(how);
}
// For an array on the device: maximum bytes of the frame, codec, row length, and the metadata.
nb::tuple plan_of(const std::string& type, const std::vector<uint64_t>& shape, encode_settings& how, bool is_delta) {
  const bool is_boolean = type == boolean;
  const plan p(is_boolean ? dtype::u8 : type_named(type), shape, is_boolean, how, is_delta);
  return nb::make_tuple(p.most_bytes(how), how.name_of(p.type), tools::row_length(shape),
                        nb::bytes(p.metadata.data(), p.metadata.size()));
}

// as_base: of `base`, as of array::type.
uint64_t encode_to(nb::handle tensor, const array* base, const std::string& as_base, nb::handle out,
                   encode_settings& how) {
  const array x(tensor, "the tensor"), to(out, "out", true);
  const plan p(x, how, base != nullptr);
  const bytes frame = to.all();
  const_bytes before;
  if (overlap(p.values, frame)) refuse(refusal::overlap, "out overlaps the tensor");
  if (to.value_bytes() != 1 || to.shape().size() != 1)
    refuse(refusal::unknown_type, "out is " + to.type_text() + " of " + std::to_string(to.shape().size()) +
                                      " dimension(s); for a frame pass a uint8 array of one");
  if (base != nullptr) {
    before = base->all();
    check_base(*base, base->type(as_base, "the base"), "the base", x, p.type);
    if (!tuck::aligned(before.data(), size_of(p.type))) check(status::misaligned, "the base");
    if (overlap(before, frame)) refuse(refusal::overlap, "out overlaps the base");
  }
  outcome done;
  {
    const unlocked interpreter;
    done = p.codec->encode(p.values, frame, p.options, {.threads = how.threads}, base != nullptr ? &before : nullptr);
  }
  if (done.code == status::output_too_small)
    throw failure{static_cast<uint32_t>(done.code),
                  "out has " + std::to_string(frame.size()) + " bytes; the frame needs " + std::to_string(done.bytes)};
  if (!done) check(done, "codec '" + how.codec + "'");
  return done.bytes;
}
uint64_t encode(nb::handle tensor, nb::handle out, encode_settings& how) {
  return encode_to(tensor, nullptr, {}, out, how);
}
uint64_t encode_delta(nb::handle tensor, nb::handle base, const std::string& as_base, nb::handle out,
                      encode_settings& how) {
  const array before(base, "the base");
  return encode_to(tensor, &before, as_base, out, how);
}

// `as`: the type that integers in `out` stand for, or empty.
void decode(nb::handle frame, nb::handle out, const std::string& as, nb::handle most_threads) {
  const unsigned threads = threads_of(most_threads);
  const array from(frame, "the frame"), to(out, "out", true);
  const bytes values = room_for(from.all(), to, as);
  if (overlap(from.all(), values)) refuse(refusal::overlap, "out overlaps the frame");
  outcome done;
  {
    const unlocked interpreter;
    done = tools::decode_frame(from.all(), values, 0, {.threads = threads});
  }
  check(done);
}

// as_base, as: of base and `out`. passes: a delta_passes, or chunk_by_chunk.
constexpr uint8_t chunk_by_chunk = 255;
void apply_delta(nb::handle delta, nb::handle base, const std::string& as_base, nb::handle out, const std::string& as,
                 nb::handle most_threads, uint8_t passes) {
  const unsigned threads = threads_of(most_threads);
  const array from(delta, "the delta"), before(base, "the base"), to(out, "out", true);
  const frame_header h = header_of(from.all());
  if ((h.flags & flag_delta) == 0) check(status::not_a_delta);
  if (before.bytes() != h.value_count * size_of(h.type)) check(status::wrong_base);
  check_type(h, before, as_base, "the base");
  const bytes values = room_for(from.all(), to, as);
  if (!tuck::aligned(before.data(), size_of(h.type))) check(status::misaligned, "the base");
  if (overlap(from.all(), values) || (values.data() != before.data() && overlap(before.all(), values)))
    refuse(refusal::overlap, "out overlaps the delta, or a part of the base; it may be the base itself");
  delta_options options;
  options.chunk_by_chunk = passes == chunk_by_chunk;
  if (!options.chunk_by_chunk) options.passes = static_cast<delta_passes>(passes);
  outcome done;
  {
    const unlocked interpreter;
    done = tools::decode_delta_frame(from.all(), before.all(), values, {.threads = threads}, options);
  }
  check(done);
}

// What delta_writers takes of arrays on the CPU: addresses and sizes of delta, base and out.
using memory_of_item = std::array<uint64_t, 6>;
memory_of_item delta_memory_of(nb::handle delta, nb::handle base, nb::handle out) {
  const array from(delta, "the delta"), before(base, "the base"), to(out, "out", true);
  const auto address = [](const array& x) { return reinterpret_cast<uintptr_t>(x.data()); };
  return {address(from), from.bytes(), address(before), before.bytes(), address(to), to.bytes()};
}
// For each item of a batch the index of the item that writes its values, then the index of an item whose output
// overlaps other memory, or -1.
std::pair<std::vector<uint64_t>, int64_t> writers_of(const std::vector<memory_of_item>& items) {
  const auto at = [](uint64_t address, uint64_t size) { return bytes(reinterpret_cast<std::byte*>(address), size); };
  delta_writers writers;
  const status s = writers.find(items.size(), [&](uint64_t i) {
    const auto& m = items[i];
    return delta_memory{at(m[0], m[1]), at(m[2], m[3]), at(m[4], m[5])};
  });
  if (s == status::overlapping) return {{}, static_cast<int64_t>(writers.which)};
  check(s);
  std::vector<uint64_t> all;
  for (uint64_t i = 0; i < items.size(); ++i) all.push_back(writers[i]);
  return {std::move(all), -1};
}
bool are_same_delta(nb::handle a, nb::handle b) {
  const array first(a, "the delta"), second(b, "the delta");
  return same_delta(first.all(), second.all());
}

// Type, shape, and whether the values are in Fortran order.
nb::tuple tensor_of_frame(nb::handle frame) {
  const array bytes(frame, "the frame");
  const frame_header h = header_of(bytes.all());
  const tools::npy_header tensor = tensor_of(bytes.all(), h);
  nb::list sizes;
  for (const uint64_t size : tensor.shape) sizes.append(size);
  return nb::make_tuple(tensor.is_boolean ? boolean : name(h.type), nb::tuple(sizes), tensor.fortran_order);
}
// Whether the values are in Fortran order, for each call that has an array for them.
bool is_fortran(nb::handle frame) {
  const array bytes(frame, "the frame");
  const frame_header h = header_of(bytes.all());
  if (h.metadata_bytes == 0) return false;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<uint64_t>(bytes.bytes(), sizeof(frame_header) + h.metadata_bytes));
  return text.find("True", sizeof(frame_header)) != text.npos && tensor_of(bytes.all(), h).fortran_order;
}

// What tuck.Info has, in its order; the bound as mode and value.
nb::tuple info(nb::handle frame) {
  const array bytes(frame, "the frame");
  const frame_header h = header_of(bytes.all());
  const nb::tuple tensor = tensor_of_frame(frame);
  nb::object bound = nb::none();
  if (const auto of = tools::bound_of(h.stages)) bound = nb::make_tuple(static_cast<int>(of->mode), of->requested);
  return nb::make_tuple(tensor[0], tensor[1], tools::stage_names(h.stages), bound, h.value_count,
                        h.value_count * size_of(h.type), h.frame_bytes, h.chunk_values, (h.flags & flag_delta) != 0,
                        (h.flags & flag_checksums) != 0, tensor[2]);
}

// Pointer, shape, strides in bytes, type and bytes of a value of what DLPack gives, wherever it is.
nb::tuple dlpack_on_device(const nb::object& capsule) {
  nb::ndarray<nb::ro> x;
  if (!nb::try_cast(capsule, x, false)) throw failure{type_error, "no array of DLPack"};
  nb::list shape, strides;
  for (size_t d = 0; d < x.ndim(); ++d) {
    shape.append(x.shape(d));
    strides.append(x.stride(d) * static_cast<int64_t>(x.itemsize()));
  }
  const nb::dlpack::dtype t = x.dtype();
  const dtype type = t.lanes == 1 ? type_of({t.code, t.bits}) : dtype::none;
  const char* text = type == dtype::none ? "" : t.code == boolean_code ? boolean : name(type);
  return nb::make_tuple(reinterpret_cast<uintptr_t>(x.data()), nb::tuple(shape), nb::tuple(strides), text,
                        x.itemsize());
}

uint64_t digest_array(nb::handle tensor) {
  const array x(tensor, "the tensor");
  const unlocked interpreter;
  return checksum(x.all());
}

nb::list codecs() {
  nb::list all;
  for (const std::string& codec : tools::codec_names())
    all.append(nb::make_tuple(codec, tools::types_of(codec), tools::is_lossy(codec)));
  return all;
}

}  // namespace
}  // namespace tuck::python

NB_MODULE(_tuck, m) {
  using namespace tuck;
  using namespace tuck::python;
  nb::set_leak_warnings(false);
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void*) {
        try {
          std::rethrow_exception(thrown);
        } catch (const failure& f) {
          if (f.code == type_error) {
            PyErr_SetString(PyExc_TypeError, tools::printable(f.text).c_str());
            return;
          }
          const nb::object key = nb::int_(f.code);
          PyObject* type = error_classes != nullptr ? PyDict_GetItem(error_classes, key.ptr()) : nullptr;
          PyErr_SetString(type != nullptr ? type : PyExc_ValueError, tools::printable(f.text).c_str());
        } catch (const tools::file_error& e) {
          if (e.error_number() == 0) {
            PyErr_SetString(PyExc_OSError, e.what());
          } else {  // FileNotFoundError and the like; Python 3.10 takes their class from the object only
            const nb::object error =
                nb::handle(PyExc_OSError)(e.error_number(), std::strerror(e.error_number()), e.file().c_str());
            PyErr_SetObject(error.type().ptr(), error.ptr());
          }
        }
      },
      nullptr);
  m.attr("version") =
      std::to_string(version_major) + "." + std::to_string(version_minor) + "." + std::to_string(version_patch);
  m.def("set_errors", [](nb::dict classes) { error_classes = classes.release().ptr(); }, "classes"_a);
  nb::class_<encode_settings>(m, "Settings")
      .def(
          "__init__",
          [](encode_settings* self, std::string codec, std::string as, int mode, double bound, bool checksums,
             nb::handle threads, bool for_gpu, bool has_metadata) {
            new (self) encode_settings{std::move(codec), std::move(as),       mode,    bound,
                                       checksums,        threads_of(threads), for_gpu, has_metadata};
          },
          "codec"_a, "as_type"_a, "mode"_a, "bound"_a, "checksums"_a, "threads"_a.none(), "for_gpu"_a,
          "has_metadata"_a = true);
  m.def("most_bytes", &most_bytes, "tensor"_a, "how"_a, "is_delta"_a);
  m.def("plan_of", &plan_of, "type"_a, "shape"_a, "how"_a, "is_delta"_a);
  m.def("encode", &encode, "tensor"_a, "out"_a, "how"_a);
  m.def("encode_delta", &encode_delta, "tensor"_a, "base"_a, "base_type"_a, "out"_a, "how"_a);
  m.def("decode", &decode, "frame"_a, "out"_a, "as_type"_a, "threads"_a.none());
  m.def("apply_delta", &apply_delta, "delta"_a, "base"_a, "base_type"_a, "out"_a, "as_type"_a, "threads"_a.none(),
        "passes"_a = 0);
  m.attr("verify_delta") = static_cast<uint8_t>(delta_passes::verify);
  m.attr("write_delta") = static_cast<uint8_t>(delta_passes::write);
  m.attr("chunk_by_chunk") = chunk_by_chunk;
  m.def("delta_memory", &delta_memory_of, "delta"_a, "base"_a, "out"_a);
  m.def("delta_writers", &writers_of, "items"_a);
  m.def("same_delta", &are_same_delta, "a"_a, "b"_a);
  m.def("info", &info, "frame"_a);
  m.def("tensor_of", &tensor_of_frame, "frame"_a);
  m.def("is_fortran", &is_fortran, "frame"_a);
  m.def("dlpack_on_device", &dlpack_on_device, "capsule"_a);
  m.def("codecs", &codecs);
  m.def("digest", &digest_array, "tensor"_a);
  m.attr("device_delta_codecs") = nb::tuple(
      nb::cast(std::vector<std::string>(std::begin(tools::device_delta_codecs), std::end(tools::device_delta_codecs))));
  bind_files(m);
  bind_training(m);
}
