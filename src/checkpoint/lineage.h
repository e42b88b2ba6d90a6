/// \file
/// Which checkpoints one continues, whether they are still there or not. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stoker {

/// Generations from `first` to `last`, both included.
struct GenerationRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;

  friend bool operator==(const GenerationRange&, const GenerationRange&) = default;
};

/// The generations of all that a checkpoint continues: ranges that rise and do not touch. A run
/// that was never rewound has one.
using Lineage = std::vector<GenerationRange>;

/// Whether the ranges are as a Lineage has them, and all before `generation`.
bool is_lineage_of(std::span<const GenerationRange> lineage, std::uint64_t generation);

bool is_in_lineage(std::span<const GenerationRange> lineage, std::uint64_t generation);

/// `lineage`, continued by a checkpoint of `generation`, which is after all of it.
Lineage continue_lineage(Lineage lineage, std::uint64_t generation);

}  // namespace stoker
