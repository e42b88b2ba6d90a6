#include "sample_object.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "array_object.h"
#include "dataset/batch/field_number.h"
#include "dataset/input/input.h"
#include "formats/tfrecord/tf_example.h"
#include "formats/webdataset/webdataset_names.h"
#include "stoker/dtype.h"

namespace nb = nanobind;

namespace stoker::python {
namespace {

Status bad_field(std::string_view what) {
  return {Code::corrupt, std::string(what)};
}

/// Makes a field of numbers. Its shape must match its bytes: a wrong one would read past their end.
Result<nb::object> make_typed(const FieldView& field, const ShardFormat& format, nb::handle owner) {
  STOKER_ASSIGN(const Dtype dtype, dtype_from_descr(numpy_dtype(field)));
  const std::uint64_t count = field.bytes.size() / dtype_size_bytes(dtype);
  std::span<const std::uint64_t> shape = field.shape;
  // An Example has only lists; in other formats a number without a shape is a scalar.
  if (field.type != FieldType::array && shape.empty() && (count != 1 || format.has_lists))
    shape = {&count, 1};
  std::uint64_t elements = 1;
  for (const std::uint64_t size : shape)
    if (__builtin_mul_overflow(elements, size, &elements))
      return bad_field("its shape is too large");
  if (elements != count || count * dtype_size_bytes(dtype) != field.bytes.size())
    return bad_field("its shape does not match its size");
  nb::object array = make_array(field.bytes, dtype, shape, owner);
  if (!shape.empty()) return array;
  nb::object scalar(array[nb::tuple()]);  // can be hashed, and does not keep the record alive
  // Through the buffer protocol it is NumPy's longlong, which isinstance() distinguishes from
  // int64.
  if (dtype == Dtype::int64 || dtype == Dtype::uint64)
    scalar = nb::module_::import_("numpy").attr(dtype == Dtype::int64 ? "int64" : "uint64")(scalar);
  return scalar;
}

Result<nb::object> make_bytes_list(const FieldView& field, nb::handle owner) {
  nb::list values;
  BytesListReader reader(field.bytes);
  for (;;) {
    std::span<const std::byte> value;
    STOKER_ASSIGN(const bool is_more, reader.next(value));
    if (!is_more) return nb::object(values);
    values.append(make_bytes(value, owner));
  }
}

Result<nb::object> make_text(const FieldView& field) {
  const auto* chars = reinterpret_cast<const char*>(field.bytes.data());
  PyObject* text =
      PyUnicode_DecodeUTF8(chars, static_cast<Py_ssize_t>(field.bytes.size()), nullptr);
  if (text != nullptr) return nb::steal(text);
  if (PyErr_ExceptionMatches(PyExc_UnicodeDecodeError) == 0) throw nb::python_error();
  PyErr_Clear();
  return bad_field("is text, but not UTF-8");
}

Result<nb::object> make_json(const FieldView& field) {
  STOKER_ASSIGN(const nb::object text, make_text(field));
  try {
    return nb::object(nb::module_::import_("json").attr("loads")(text));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_RecursionError)) throw;
    return bad_field("is JSON, but cannot be parsed");
  }
}

/// Returns the integer that the extension in a tar implies; nothing if the bytes are not an
/// integer.
std::optional<std::int64_t> tar_integer(const FieldView& field, std::string_view name) {
  if (!is_integer_extension(name)) return std::nullopt;
  const Result<internal::Number> number = internal::parse_integer(field.bytes);
  if (!number.ok()) return std::nullopt;
  const Result<std::int64_t> value = internal::to_int64(*number);
  return value.ok() ? std::optional(*value) : std::nullopt;
}

Result<nb::object> make_unnamed(const FieldView& field, std::string_view name,
                                const ShardFormat& format, nb::handle owner) {
  if (field.type == FieldType::bytes) return make_bytes(field.bytes, owner);
  if (field.type == FieldType::text || field.type == FieldType::json) {
    if (field.is_implied)
      if (const auto integer = tar_integer(field, name)) return nb::object(nb::int_(*integer));
    Result<nb::object> value = field.type == FieldType::text ? make_text(field) : make_json(field);
    // In a tar the type is only implied by the extension.
    if (!value.ok() && field.is_implied) return make_bytes(field.bytes, owner);
    return value;
  }
  if (field.dtype == kBytesListDtype) return make_bytes_list(field, owner);
  return make_typed(field, format, owner);
}

}  // namespace

Result<nb::object> make_value(const FieldView& field, std::string_view name,
                              const ShardFormat& format, nb::handle owner) {
  Result<nb::object> value = make_unnamed(field, name, format, owner);
  if (value.ok()) return value;
  return value.status().with_context("field '" + std::string(name) + "'");
}

bool is_numbers(const FieldView& field) noexcept {
  switch (field.type) {
    case FieldType::int64:
    case FieldType::float32:
    case FieldType::float64: return true;
    case FieldType::array: return field.dtype != kBytesListDtype;
    default: return false;
  }
}

std::string_view key_of(const SampleRecord& record) noexcept {
  const FieldView* field = record.view().find(kKeyField);
  if (field == nullptr || (field->type != FieldType::bytes && field->type != FieldType::text))
    return record.key();
  return {reinterpret_cast<const char*>(field->bytes.data()), field->bytes.size()};
}

nb::str make_str(std::string_view text) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
}

std::string_view numpy_dtype(const FieldView& field) noexcept {
  switch (field.type) {
    case FieldType::int64: return "<i8";
    case FieldType::float32: return "<f4";
    case FieldType::float64: return "<f8";
    case FieldType::array: return field.dtype;
    default: return "|u1";
  }
}

Result<nb::dict> make_sample(std::unique_ptr<SampleRecord> record, const ShardFormat& format) {
  const SampleRecord& sample = *record;
  const nb::capsule owner(record.release(),
                          [](void* held) noexcept { delete static_cast<SampleRecord*>(held); });
  nb::dict fields;
  fields["__key__"] = make_str(key_of(sample));
  for (const FieldView& field : sample.view().fields) {
    if (field.name == kKeyField) continue;
    STOKER_ASSIGN(const nb::object value, make_value(field, field.name, format, owner));
    fields[make_str(field.name)] = value;
  }
  return fields;
}

}  // namespace stoker::python
