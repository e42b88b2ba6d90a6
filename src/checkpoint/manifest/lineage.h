/// \file
/// The lineage of a checkpoint: the checkpoints that it continues, existing or removed. Pure
/// functions.
///
/// A generation alone does not identify a checkpoint: each directory counts its own, and a
/// directory that has lost its newest checkpoint reuses numbers. A writer therefore draws a random
/// token, its *line*, when it takes the lock, and records it in each checkpoint. Line and
/// generation together are unique. Checkpoints of version 0.1 have the empty line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

/// The checkpoints of one line from generation `first` to `last`, both included.
struct GenerationRange {
  std::string line;
  std::uint64_t first = 0;
  std::uint64_t last = 0;

  friend bool operator==(const GenerationRange&, const GenerationRange&) = default;
};

/// Everything that a checkpoint continues, oldest first: ascending ranges. A run that was neither
/// restarted nor rewound has one range.
using Lineage = std::vector<GenerationRange>;

/// Maximum number of ranges in a manifest. A longer lineage drops the oldest range; retention then
/// keeps those checkpoints, as it keeps those of other runs.
inline constexpr std::size_t kLineageRangesMax = 100;

/// Whether `text` is a line: 32 hexadecimal digits, or empty.
bool is_line(std::string_view text) noexcept;

/// Whether the ranges are a valid Lineage, and all before `generation`.
bool is_lineage_of(std::span<const GenerationRange> lineage, std::uint64_t generation);

bool is_in_lineage(std::span<const GenerationRange> lineage, std::string_view line,
                   std::uint64_t generation);

/// Whether a range of it is of `line`. False for the empty line, which identifies no writer.
bool is_line_of(std::span<const GenerationRange> lineage, std::string_view line);

/// Whether both contain the same checkpoint.
bool share_ancestor(std::span<const GenerationRange> one, std::span<const GenerationRange> other);

/// Returns `lineage` with the checkpoint of `line` and `generation` appended, which must be after
/// all of it.
Lineage continue_lineage(Lineage lineage, const std::string& line, std::uint64_t generation);

}  // namespace stoker
