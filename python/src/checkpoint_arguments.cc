#include "checkpoint_arguments.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>

#include "raise.h"

namespace nb = nanobind;

namespace stoker::python {
namespace {

std::vector<std::int64_t> strides_of(nb::handle strides) {
  if (strides.is_none()) return {};
  return nb::cast<std::vector<std::int64_t>>(strides);
}

std::byte* address_of(nb::handle address) {
  return reinterpret_cast<std::byte*>(nb::cast<std::uintptr_t>(address));
}

/// "cuda:3" is 3, None is host memory.
std::int32_t device_of(nb::handle device) {
  if (device.is_none()) return kHostMemory;
  constexpr std::string_view kPrefix = "cuda:";
  const std::string_view name = nb::cast<std::string_view>(device);
  std::int32_t number = 0;
  const char* const end = name.data() + name.size();
  if (!name.starts_with(kPrefix) ||
      std::from_chars(name.data() + kPrefix.size(), end, number).ptr != end)
    throw nb::value_error("a tensor on a device that is not copied here");
  return number;
}

}  // namespace

std::vector<SaveTensor> save_tensors_of(const TensorArguments& tensors) {
  using Numbers = std::vector<std::uint64_t>;
  const auto& [memories, slices, per_rank] = tensors;
  std::vector<SaveTensor> out;
  out.reserve(memories.size());
  for (const auto& [name, item] : memories) {
    const auto memory = nb::cast<nb::tuple>(item);
    SaveTensor& tensor = out.emplace_back();
    tensor.name = nb::cast<std::string>(name);
    tensor.type = value_or_raise(parse_tensor_type(nb::cast<std::string>(memory[0])));
    tensor.shape = nb::cast<Numbers>(memory[1]);
    tensor.strides_bytes = strides_of(memory[2]);
    tensor.data = address_of(memory[3]);
    tensor.device = device_of(memory[6]);
    tensor.is_per_rank = per_rank.contains(name);
    if (!slices.contains(name)) continue;
    const auto box = nb::cast<std::pair<Numbers, Numbers>>(nb::object(slices[name]));
    tensor.offsets = box.first;
    tensor.global_shape = box.second;
  }
  return out;
}

std::vector<ReadTarget> read_targets_of(const nb::list& targets) {
  std::vector<ReadTarget> out;
  out.reserve(targets.size());
  for (const nb::handle item : targets) {
    const auto target = nb::cast<nb::tuple>(item);
    const auto [begin, size_bytes] =
        nb::cast<std::pair<std::uintptr_t, std::size_t>>(nb::object(target[4]));
    const auto first = nb::cast<std::uintptr_t>(nb::object(target[2]));
    if (first < begin || first - begin > size_bytes)
      throw nb::value_error("the first element is outside the memory");
    ReadTarget made{.name = nb::cast<std::string>(target[0]),
                    .memory = {reinterpret_cast<std::byte*>(begin), size_bytes},
                    .first_bytes = first - begin,
                    .strides_bytes = strides_of(target[3]),
                    .device = kHostMemory};
    if (target.size() > 5 && !target[5].is_none())
      made.device = nb::cast<std::int32_t>(nb::object(target[5]));
    if (const nb::object box = nb::borrow(target[1]); !box.is_none()) {
      made.offsets = nb::cast<std::vector<std::uint64_t>>(nb::object(box[0]));
      made.shape = nb::cast<std::vector<std::uint64_t>>(nb::object(box[1]));
    }
    out.push_back(std::move(made));
  }
  return out;
}

nanoseconds timeout_of(std::optional<double> seconds) {
  constexpr double kForeverSeconds = 1e9;  // a double of nanoseconds would overflow
  if (!seconds || !(*seconds < kForeverSeconds)) return kForever;
  return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(*seconds));
}

std::string path_of(const nb::bytes& path) {
  return {path.c_str(), path.size()};
}

nb::str text_of(std::string_view text) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
}

}  // namespace stoker::python
