#include "checkpoint/restore/tensor_boxes.h"

#include <algorithm>

namespace stoker {

Status for_each_box(TensorType type, std::span<const std::uint64_t> shape,
                    std::uint64_t size_max_bytes,
                    const std::function<Status(const TensorBox&)>& visit) {
  STOKER_ASSIGN(const std::uint64_t whole_bytes, tensor_bytes(type, shape));
  if (whole_bytes == 0) return {};
  TensorBox box{std::vector<std::uint64_t>(shape.size()),
                std::vector<std::uint64_t>(shape.begin(), shape.end()), whole_bytes};
  const std::size_t bits = tensor_type_bits(type);
  if (bits % 8 != 0 || whole_bytes <= size_max_bytes) return visit(box);
  // Boxes have size 1 in the dimensions before `cut`, `strip` in `cut`, and full size after it.
  std::size_t cut = 0;
  std::uint64_t row_bytes = whole_bytes / shape[0];
  while (row_bytes > size_max_bytes && cut + 1 < shape.size()) row_bytes /= shape[++cut];
  const std::uint64_t strip = std::max<std::uint64_t>(size_max_bytes / row_bytes, 1);
  std::fill_n(box.shape.begin(), cut, 1);
  for (;;) {
    box.shape[cut] = std::min(strip, shape[cut] - box.offsets[cut]);
    box.size_bytes = box.shape[cut] * row_bytes;
    STOKER_TRY(visit(box));
    box.offsets[cut] += box.shape[cut];
    for (std::size_t d = cut; box.offsets[d] == shape[d]; --d) {
      if (d == 0) return {};
      box.offsets[d] = 0;
      ++box.offsets[d - 1];
    }
  }
}

}  // namespace stoker
