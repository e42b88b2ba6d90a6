#include "checkpoint/restore/box_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "formats/json/strict_json.h"

namespace stoker {
namespace {

using Extents = std::vector<std::uint64_t>;

/// A box, with its last dimension in bytes if elements are smaller than a byte.
struct Box {
  Extents offsets;
  Extents shape;

  friend bool operator==(const Box&, const Box&) = default;
};

Status invalid(const ReadTarget& target, std::string_view message) {
  return {Code::invalid_argument,
          fmt::format("tensor {}: {}", quote_for_message(target.name), message)};
}

std::uint64_t count_of(const Extents& shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t size : shape) count *= size;
  return count;
}

/// Returns the box to be read, which must be inside the tensor.
Result<Box> wanted_box(const CheckpointTensor& tensor, const ReadTarget& target) {
  const std::size_t dimensions = tensor.global_shape.size();
  if (target.shape.empty()) return Box{Extents(dimensions), tensor.global_shape};
  if (target.shape.size() != dimensions || target.offsets.size() != dimensions)
    return invalid(target, fmt::format("has {} dimensions, unlike its target", dimensions));
  for (std::size_t d = 0; d < dimensions; ++d) {
    if (target.offsets[d] > tensor.global_shape[d] ||
        target.shape[d] > tensor.global_shape[d] - target.offsets[d])
      return invalid(
          target,
          fmt::format("[{}] at [{}] is not inside its shape [{}]", fmt::join(target.shape, ", "),
                      fmt::join(target.offsets, ", "), fmt::join(tensor.global_shape, ", ")));
  }
  return Box{target.offsets, target.shape};
}

/// Converts the last dimension to bytes. Returns false if the box begins or ends inside a byte.
bool to_bytes(Box& box, std::size_t bits) {
  if (box.shape.empty()) return false;
  if (box.offsets.back() * bits % 8 != 0 || box.shape.back() * bits % 8 != 0) return false;
  box.offsets.back() = box.offsets.back() * bits / 8;
  box.shape.back() = box.shape.back() * bits / 8;
  return true;
}

Extents strides_of(const Extents& shape, std::uint64_t item_bytes) {
  Extents strides(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; item_bytes *= shape[d]) strides[d] = item_bytes;
  return strides;
}

/// Returns the intersection of both boxes; some dimension is 0 if they have nothing in common.
Box common(const Box& a, const Box& b) {
  Box box = a;
  for (std::size_t d = 0; d < a.shape.size(); ++d) {
    const std::uint64_t end = std::min(a.offsets[d] + a.shape[d], b.offsets[d] + b.shape[d]);
    box.offsets[d] = std::max(a.offsets[d], b.offsets[d]);
    box.shape[d] = end > box.offsets[d] ? end - box.offsets[d] : 0;
  }
  return box;
}

/// A target with its box and strides resolved.
struct Place {
  Box wanted;
  std::vector<std::int64_t> strides_bytes;
  std::byte* data = nullptr;
};

/// Checks that the whole box is inside the target's memory.
Status check_memory(const ReadTarget& target, const Place& place, std::uint64_t item_bytes) {
  __extension__ using Wide = __int128;  // the product of two 64-bit numbers does not wrap
  Wide low = static_cast<Wide>(target.first_bytes);
  Wide high = low;
  for (std::size_t d = 0; d < place.wanted.shape.size(); ++d) {
    const Wide extent =
        static_cast<Wide>(place.wanted.shape[d] - 1) * static_cast<Wide>(place.strides_bytes[d]);
    (extent < 0 ? low : high) += extent;
  }
  high += static_cast<Wide>(item_bytes);
  if (low >= 0 && high <= static_cast<Wide>(target.memory.size())) return {};
  return invalid(target,
                 fmt::format("does not fit into its target of {} bytes", target.memory.size()));
}

/// Returns the copy of the intersection of `slice` and `place`, with offsets relative to the slice.
BoxCopy copy_of(const Box& slice, const Place& place, std::uint64_t item_bytes) {
  BoxCopy copy;
  const Box box = common(place.wanted, slice);
  const Extents source_strides = strides_of(slice.shape, item_bytes);
  std::int64_t target_at = 0;
  copy.run_bytes = item_bytes;
  for (std::size_t d = box.shape.size(); d-- > 0;) {
    copy.begin_bytes += (box.offsets[d] - slice.offsets[d]) * source_strides[d];
    target_at += static_cast<std::int64_t>(box.offsets[d] - place.wanted.offsets[d]) *
                 place.strides_bytes[d];
    if (box.shape[d] == 1) continue;
    // Dimensions without gaps on either side become one run.
    if (copy.loops.empty() && source_strides[d] == copy.run_bytes &&
        place.strides_bytes[d] == static_cast<std::int64_t>(copy.run_bytes)) {
      copy.run_bytes *= box.shape[d];
    } else {
      copy.loops.push_back({box.shape[d], source_strides[d], place.strides_bytes[d]});
    }
  }
  std::ranges::reverse(copy.loops);
  copy.into = place.data + target_at;
  return copy;
}

/// Returns the begin of run number `run` in the file and in memory, relative to the first run.
std::pair<std::uint64_t, std::int64_t> place_of(const BoxCopy& copy, std::uint64_t run) {
  std::uint64_t source = 0;
  std::int64_t target = 0;
  for (std::size_t d = copy.loops.size(); d-- > 0;) {
    const BoxCopy::Loop& loop = copy.loops[d];
    source += run % loop.count * loop.source_stride_bytes;
    target += static_cast<std::int64_t>(run % loop.count) * loop.target_stride_bytes;
    run /= loop.count;
  }
  return {source, target};
}

/// Returns the first run that ends after the offset; runs are in file order.
std::uint64_t first_run_behind(const BoxCopy& copy, std::uint64_t offset_bytes) {
  std::uint64_t low = 0;
  std::uint64_t high = copy.run_count();
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (copy.begin_bytes + place_of(copy, middle).first + copy.run_bytes > offset_bytes)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

}  // namespace

std::uint64_t BoxCopy::run_count() const noexcept {
  std::uint64_t count = 1;
  for (const Loop& loop : loops) count *= loop.count;
  return count;
}

std::uint64_t BoxCopy::end_bytes() const noexcept {
  std::uint64_t end = begin_bytes + run_bytes;
  for (const Loop& loop : loops) end += (loop.count - 1) * loop.source_stride_bytes;
  return end;
}

void for_each_run(const BoxCopy& copy, std::uint64_t begin_bytes, std::uint64_t end_bytes,
                  const std::function<void(const RunPiece&)>& visit) {
  const std::uint64_t run_count = copy.run_count();
  // Along the innermost loop both positions advance by constants.
  const BoxCopy::Loop inner = copy.loops.empty() ? BoxCopy::Loop{.count = 1} : copy.loops.back();
  for (std::uint64_t run = first_run_behind(copy, begin_bytes); run < run_count;) {
    auto [source, target] = place_of(copy, run);
    for (std::uint64_t i = run % inner.count; i < inner.count; ++i, ++run) {
      const std::uint64_t at = copy.begin_bytes + source;
      if (at >= end_bytes) return;
      const std::uint64_t first = std::max(at, begin_bytes);
      const std::uint64_t last = std::min(at + copy.run_bytes, end_bytes);
      visit({.offset_bytes = first,
             .into = copy.into + target + static_cast<std::ptrdiff_t>(first - at),
             .size_bytes = static_cast<std::size_t>(last - first)});
      source += inner.source_stride_bytes;
      target += inner.target_stride_bytes;
    }
  }
}

std::pair<std::uint64_t, std::uint64_t> hull_of(const BoxCopy& copy, std::uint64_t begin_bytes,
                                                std::uint64_t end_bytes) {
  const std::uint64_t first_run = first_run_behind(copy, begin_bytes);
  if (first_run == copy.run_count()) return {0, 0};
  const std::uint64_t first =
      std::max(copy.begin_bytes + place_of(copy, first_run).first, begin_bytes);
  if (first >= end_bytes) return {0, 0};
  // Find the last run that begins before the end; first_run does.
  std::uint64_t low = first_run;
  std::uint64_t high = copy.run_count();
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (copy.begin_bytes + place_of(copy, middle).first < end_bytes ? low : high) = middle;
  }
  const std::uint64_t end = copy.begin_bytes + place_of(copy, low).first + copy.run_bytes;
  return {first, std::min(end, end_bytes)};
}

Status plan_copies(const CheckpointManifest& manifest, std::span<const std::uint32_t> slices,
                   const ReadTarget& target, std::vector<BoxCopy>& copies) {
  const CheckpointTensor& any = manifest.tensors[slices.front()];
  STOKER_ASSIGN(const Box elements, wanted_box(any, target));
  if (count_of(elements.shape) == 0) return {};
  if (!target.strides_bytes.empty() && target.strides_bytes.size() != elements.shape.size())
    return invalid(target, "its target has the wrong number of strides");
  const std::size_t bits = tensor_type_bits(any.type);
  const bool is_small = bits % 8 != 0;
  if (is_small && !target.strides_bytes.empty())
    return {Code::unsupported, "tensor " + quote_for_message(target.name) +
                                   ": no strides for elements smaller than a byte"};
  const std::uint64_t item_bytes = is_small ? 1 : bits / 8;
  if (target.first_bytes > target.memory.size())
    return invalid(target, "its target begins after the end of the memory");
  Place place{elements, target.strides_bytes, target.memory.data() + target.first_bytes};
  const bool is_cut = is_small && !to_bytes(place.wanted, bits);
  const auto cut = [&] {
    return Status(Code::unsupported, "tensor " + quote_for_message(target.name) +
                                         ": the box begins or ends inside a byte of a saved slice");
  };
  if (is_cut) {  // then it must be exactly one saved slice, without gaps
    const Result<std::uint64_t> size_bytes = tensor_bytes(any.type, elements.shape);
    if (!size_bytes.ok()) return cut();
    place.wanted = {.offsets = {0}, .shape = {*size_bytes}};
  }
  if (place.strides_bytes.empty())
    for (const std::uint64_t stride : strides_of(place.wanted.shape, item_bytes))
      place.strides_bytes.push_back(static_cast<std::int64_t>(stride));
  STOKER_TRY(check_memory(target, place, item_bytes));

  std::uint64_t found_count = 0;
  for (const std::uint32_t index : slices) {
    const CheckpointTensor& tensor = manifest.tensors[index];
    Box slice{tensor.offsets, tensor.shape};
    const Box in_elements = common(elements, slice);
    const std::uint64_t count = count_of(in_elements.shape);
    if (count == 0) continue;
    found_count += count;
    BoxCopy copy;
    if (is_small && elements == slice) {
      copy.into = place.data;
      copy.run_bytes = tensor.end_bytes - tensor.begin_bytes;
    } else if (is_cut || (is_small && !to_bytes(slice, bits))) {
      return cut();
    } else {
      copy = copy_of(slice, place, item_bytes);
    }
    copy.tensor = index;
    copy.device = target.device;
    copy.begin_bytes += tensor.begin_bytes;
    copies.push_back(std::move(copy));
  }
  if (found_count == count_of(elements.shape)) return {};
  return {Code::corrupt,
          fmt::format("tensor {}: {} of the {} requested elements are in no file of the checkpoint",
                      quote_for_message(target.name), count_of(elements.shape) - found_count,
                      count_of(elements.shape))};
}

}  // namespace stoker
