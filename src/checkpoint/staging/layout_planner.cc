#include "checkpoint/staging/layout_planner.h"

#include <algorithm>

namespace stoker {
namespace {

/// Whether both have the same place in any layout.
bool is_placed_alike(const SaveTensor& one, const SaveTensor& other) {
  return one.name == other.name && one.type == other.type && one.shape == other.shape &&
         one.global_shape == other.global_shape && one.offsets == other.offsets &&
         one.strides_bytes == other.strides_bytes;
}

}  // namespace

bool LayoutPlanner::is_same(std::uint32_t rank, std::span<const SaveTensor> tensors,
                            std::span<const std::uint32_t> group_of) const {
  return layout_ && layout_->rank == rank && std::ranges::equal(group_of_, group_of) &&
         std::ranges::equal(tensors_, tensors, is_placed_alike);
}

Result<CheckpointLayout> LayoutPlanner::plan(std::uint32_t rank,
                                             std::span<const SaveTensor> tensors,
                                             std::span<const std::uint32_t> group_of) {
  if (is_same(rank, tensors, group_of)) return *layout_;
  layout_.reset();
  ++planned_count_;
  STOKER_ASSIGN(CheckpointLayout planned, plan_layout(rank, tensors, group_of));
  tensors_.assign(tensors.begin(), tensors.end());
  for (SaveTensor& tensor : tensors_) tensor.data = nullptr;
  group_of_.assign(group_of.begin(), group_of.end());
  layout_ = planned;
  return planned;
}

}  // namespace stoker
