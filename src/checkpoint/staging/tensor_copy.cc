#include "checkpoint/staging/tensor_copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace stoker {
namespace {

/// The tensor as runs of `run_bytes` without gaps; a run may be a single element.
struct Rows {
  std::uint64_t run_bytes = 0;  ///< Contiguous in memory.
  std::size_t dimensions = 0;   ///< Number of outer dimensions, which locate a run.
};

Rows rows_of(const SaveTensor& tensor, std::uint64_t element_bytes) {
  Rows rows{.run_bytes = element_bytes, .dimensions = tensor.shape.size()};
  while (rows.dimensions > 0) {
    const std::size_t last = rows.dimensions - 1;
    if (tensor.shape[last] != 1 &&
        tensor.strides_bytes[last] != static_cast<std::int64_t>(rows.run_bytes))
      break;
    rows.run_bytes *= tensor.shape[last];
    --rows.dimensions;
  }
  return rows;
}

template <typename T>
void copy_elements(const std::byte* from, std::int64_t stride, std::span<std::byte> out) {
  for (std::size_t at = 0; at < out.size(); at += sizeof(T), from += stride)
    std::memcpy(out.data() + at, from, sizeof(T));
}

/// Copies elements at equal distances: one loop per size, so that a copy is one load and one store.
void copy_strided(const std::byte* from, std::int64_t stride, std::uint64_t element_bytes,
                  std::span<std::byte> out) {
  switch (element_bytes) {
    case 1: return copy_elements<std::uint8_t>(from, stride, out);
    case 2: return copy_elements<std::uint16_t>(from, stride, out);
    case 4: return copy_elements<std::uint32_t>(from, stride, out);
    case 8: return copy_elements<std::uint64_t>(from, stride, out);
    default: break;
  }
  for (std::size_t at = 0; at < out.size(); at += element_bytes, from += stride)
    std::memcpy(out.data() + at, from, element_bytes);
}

/// Returns the begin of the run with this number, counted with the last outer dimension fastest.
const std::byte* run_at(const SaveTensor& tensor, std::size_t dimensions, std::uint64_t number) {
  const std::byte* at = tensor.data;
  for (std::size_t i = dimensions; i-- > 0;) {
    at += static_cast<std::int64_t>(number % tensor.shape[i]) * tensor.strides_bytes[i];
    number /= tensor.shape[i];
  }
  return at;
}

}  // namespace

void copy_tensor_bytes(const SaveTensor& tensor, std::uint64_t begin_bytes,
                       std::span<std::byte> out) {
  if (out.empty()) return;
  if (tensor.strides_bytes.empty()) {
    std::memcpy(out.data(), tensor.data + begin_bytes, out.size());
    return;
  }
  const std::uint64_t element_bytes = tensor_type_bits(tensor.type) / 8;
  const Rows rows = rows_of(tensor, element_bytes);
  if (rows.run_bytes == element_bytes && rows.dimensions > 0) {
    // Single elements: along the last dimension they are at equal distances.
    const std::size_t outer = rows.dimensions - 1;
    const std::uint64_t row_bytes = tensor.shape[outer] * element_bytes;
    const std::int64_t stride = tensor.strides_bytes[outer];
    while (!out.empty()) {
      const std::uint64_t in_row = begin_bytes % row_bytes;
      const std::size_t size = std::min<std::uint64_t>(out.size(), row_bytes - in_row);
      const std::byte* from = run_at(tensor, outer, begin_bytes / row_bytes) +
                              static_cast<std::int64_t>(in_row / element_bytes) * stride;
      copy_strided(from, stride, element_bytes, out.first(size));
      out = out.subspan(size);
      begin_bytes += size;
    }
    return;
  }
  while (!out.empty()) {
    const std::uint64_t in_run = begin_bytes % rows.run_bytes;
    const std::size_t size = std::min<std::uint64_t>(out.size(), rows.run_bytes - in_run);
    std::memcpy(out.data(), run_at(tensor, rows.dimensions, begin_bytes / rows.run_bytes) + in_run,
                size);
    out = out.subspan(size);
    begin_bytes += size;
  }
}

}  // namespace stoker
