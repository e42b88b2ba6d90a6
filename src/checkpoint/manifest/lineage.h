/// \file
/// Which checkpoints one continues, whether they are still there or not. Pure functions.
///
/// A generation alone names no checkpoint: other directories count as well, and a directory counts
/// again where it has lost its newest. A writer therefore draws a token when it has got the lock,
/// its *line*, and puts it into each checkpoint. Line and generation together were given once. What
/// version 0.1 has saved has no line: the empty one.
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

/// All that a checkpoint continues, oldest first: ranges that rise. A run that was neither
/// restarted nor rewound has one.
using Lineage = std::vector<GenerationRange>;

/// What a manifest holds at most. A run with more forgets the oldest, and retention leaves those
/// alone, as it does with what another run has saved.
inline constexpr std::size_t kLineageRangesMax = 100;

/// Whether `text` is a line: 32 hexadecimal digits, or empty.
bool is_line(std::string_view text) noexcept;

/// Whether the ranges are as a Lineage has them, and all before `generation`.
bool is_lineage_of(std::span<const GenerationRange> lineage, std::uint64_t generation);

bool is_in_lineage(std::span<const GenerationRange> lineage, std::string_view line,
                   std::uint64_t generation);

/// Whether some of it is of `line`. The empty one names no writer, and is never among them.
bool is_line_of(std::span<const GenerationRange> lineage, std::string_view line);

/// Whether both continue a checkpoint that is the same.
bool share_ancestor(std::span<const GenerationRange> one, std::span<const GenerationRange> other);

/// `lineage`, continued by a checkpoint of `line` and `generation`, which is after all of it.
Lineage continue_lineage(Lineage lineage, const std::string& line, std::uint64_t generation);

}  // namespace stoker
