#include "api/tree_tensors.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "api/tree_json.h"

namespace stoker::internal {
namespace {

Status bad(std::string why) {
  return {Code::invalid_argument, std::move(why)};
}

/// The bytes before and after the first element that the others lead to.
Result<std::pair<std::int64_t, std::int64_t>> reach_of(const TensorView& view) {
  std::int64_t below = 0;
  std::int64_t above = 0;
  for (std::size_t i = 0; i < view.shape.size(); ++i) {
    const std::int64_t stride = view.strides_bytes[i];
    std::int64_t reach = 0;
    std::int64_t& side = stride < 0 ? below : above;
    if (!std::in_range<std::int64_t>(view.shape[i]) ||
        __builtin_mul_overflow(static_cast<std::int64_t>(view.shape[i]) - 1, stride, &reach) ||
        __builtin_add_overflow(side, reach, &side))
      return bad("strides that no memory has");
  }
  return std::pair(below, above);
}

}  // namespace

std::string describe_tensor(TensorType type, std::span<const std::uint64_t> shape) {
  std::string text(tensor_type_name(type));
  text += " (";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text.append(i > 0 ? ", " : "").append(std::to_string(shape[i]));
  return text + ")";
}

Result<std::pair<std::int64_t, std::int64_t>> span_of(const TensorView& view) {
  STOKER_ASSIGN(const std::uint64_t size_bytes, tensor_bytes(view.type, view.shape));
  if (view.first_bytes > view.memory.size()) return bad("the first element is outside its memory");
  const bool is_empty = std::ranges::find(view.shape, 0U) != view.shape.end();
  std::pair<std::int64_t, std::int64_t> span;
  if (view.strides_bytes.empty()) {
    if (!std::in_range<std::int64_t>(size_bytes)) return bad("larger than any memory");
    span.second = static_cast<std::int64_t>(size_bytes);
  } else {
    if (view.strides_bytes.size() != view.shape.size())
      return bad(std::to_string(view.strides_bytes.size()) + " strides for " +
                 std::to_string(view.shape.size()) + " dimensions");
    if (!is_empty) {
      STOKER_ASSIGN(span, reach_of(view));
      const auto element = static_cast<std::int64_t>(tensor_type_bits(view.type) / 8);
      if (__builtin_add_overflow(span.second, element, &span.second))
        return bad("strides that no memory has");
    }
  }
  const std::uint64_t before = view.first_bytes;
  const std::uint64_t after = view.memory.size() - view.first_bytes;
  if (std::uint64_t{0} - static_cast<std::uint64_t>(span.first) > before ||
      static_cast<std::uint64_t>(span.second) > after)
    return bad(describe_tensor(view.type, view.shape) + " needs more memory than the view has, " +
               std::to_string(view.memory.size()) + " bytes");
  if (view.strides_bytes.empty() && view.first_bytes == 0 && size_bytes != view.memory.size())
    return bad(describe_tensor(view.type, view.shape) + " has " + std::to_string(size_bytes) +
               " bytes, and the view " + std::to_string(view.memory.size()) +
               ": give the shape of all, or the memory of the tensor alone");
  return span;
}

Result<std::string> TreeTensors::write(const Tree& tree, const std::string& name) {
  return write_tree(tree, name, [this](const TensorView& view, const std::string& path) {
    return name_tensor(view, path);
  });
}

Result<std::string> TreeTensors::name_tensor(const TensorView& view, const std::string& path) {
  STOKER_TRY(span_of(view).status());
  const bool is_empty = std::ranges::find(view.shape, 0U) != view.shape.end();
  if (view.is_slice() && is_empty) return path;  // it is not stored
  const std::byte* const data = view.memory.data() + view.first_bytes;
  const Key key(view.device, data, view.type, view.shape, view.strides_bytes, view.element,
                view.global_shape, view.offsets);
  if (!is_empty && view.memory.data() != nullptr)
    if (const auto known = names_.find(key); known != names_.end()) return known->second;
  std::string name = path;
  for (std::size_t number = 2; !taken_.insert(name).second; ++number)
    name = path + "~" + std::to_string(number);  // a name with a point in it
  tensors_.push_back({.name = name,
                      .type = view.type,
                      .shape = view.shape,
                      .global_shape = view.global_shape,
                      .offsets = view.offsets,
                      .data = data,
                      .device = view.device,
                      .strides_bytes = view.strides_bytes,
                      .is_per_rank = view.is_per_rank});
  names_.emplace(key, name);
  return name;
}

}  // namespace stoker::internal
