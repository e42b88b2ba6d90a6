#include "array_object.h"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace nb = nanobind;

namespace stoker::python {
namespace {

nb::dlpack::dtype dlpack_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::uint8: return nb::dtype<std::uint8_t>();
    case Dtype::int8: return nb::dtype<std::int8_t>();
    case Dtype::uint16: return nb::dtype<std::uint16_t>();
    case Dtype::int16: return nb::dtype<std::int16_t>();
    case Dtype::uint32: return nb::dtype<std::uint32_t>();
    case Dtype::int32: return nb::dtype<std::int32_t>();
    case Dtype::uint64: return nb::dtype<std::uint64_t>();
    case Dtype::int64: return nb::dtype<std::int64_t>();
    case Dtype::float16: return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
    case Dtype::float32: return nb::dtype<float>();
    case Dtype::float64: return nb::dtype<double>();
    case Dtype::bfloat16: return nb::dtype<std::uint16_t>();  // NumPy has no bfloat16
    case Dtype::boolean: return nb::dtype<bool>();
  }
  return nb::dtype<std::uint8_t>();
}

template <typename Array, typename Pointer>
nb::object array_over(Pointer data, Dtype dtype, std::span<const std::uint64_t> shape,
                      nb::handle owner) {
  const std::vector<std::size_t> sizes(shape.begin(), shape.end());
  nb::object array =
      nb::cast(Array(data, sizes.size(), sizes.data(), owner, nullptr, dlpack_dtype(dtype)));
  // NumPy has two types of 64 bits without a sign. torch knows only this one.
  return dtype == Dtype::uint64 ? nb::object(array.attr("view")("uint64")) : array;
}

}  // namespace

nb::object make_array(std::span<const std::byte> bytes, Dtype dtype,
                      std::span<const std::uint64_t> shape, nb::handle owner) {
  static constexpr std::byte kNothing{};  // an empty array also needs an address
  const void* data = bytes.empty() ? &kNothing : bytes.data();
  return array_over<nb::ndarray<nb::numpy, nb::ro>>(data, dtype, shape, owner);
}

nb::object make_writable_array(std::span<std::byte> bytes, Dtype dtype,
                               std::span<const std::uint64_t> shape, nb::handle owner) {
  static std::byte nothing{};
  void* data = bytes.empty() ? &nothing : bytes.data();
  return array_over<nb::ndarray<nb::numpy>>(data, dtype, shape, owner);
}

nb::object make_bytes(std::span<const std::byte> bytes, nb::handle owner) {
  const std::uint64_t size = bytes.size();
  return make_array(bytes, Dtype::uint8, {&size, 1}, owner);
}

nb::object make_int64_array(std::span<const std::uint64_t> numbers) {
  auto copy = std::make_unique<std::vector<std::uint64_t>>(numbers.begin(), numbers.end());
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(*copy));
  const nb::capsule owner(copy.release(), [](void* held) noexcept {
    delete static_cast<std::vector<std::uint64_t>*>(held);
  });
  const std::uint64_t size = numbers.size();
  return make_writable_array(bytes, Dtype::int64, {&size, 1}, owner);
}

}  // namespace stoker::python
