#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/staging/layout.h"
#include "stoker/status.h"

namespace stoker {

/// plan_layout() for saves that follow each other: most have the layout of the one before, and
/// comparing tensors takes a fiftieth of the time of planning them.
///
/// Thread safety: none.
class LayoutPlanner {
 public:
  /// Returns what plan_layout() returns for the same arguments.
  Result<CheckpointLayout> plan(std::uint32_t rank, std::span<const SaveTensor> tensors,
                                std::span<const std::uint32_t> group_of = {});

  /// How often a layout was planned, and not found; for tests.
  std::size_t planned_count() const noexcept { return planned_count_; }

 private:
  bool is_same(std::uint32_t rank, std::span<const SaveTensor> tensors,
               std::span<const std::uint32_t> group_of) const;

  // The arguments of the last call that has succeeded; the tensors without their data.
  std::vector<SaveTensor> tensors_;
  std::vector<std::uint32_t> group_of_;
  std::optional<CheckpointLayout> layout_;
  std::size_t planned_count_ = 0;
};

}  // namespace stoker
