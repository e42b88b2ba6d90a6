/// \file
/// What is said about a checkpoint after it was committed: values that rank it, and whether it must
/// stay. Committed steps are never changed, so this lies in `notes/step-N.json`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "checkpoint/names.h"
#include "io/file_ops.h"

namespace stoker {

/// About one checkpoint.
struct CheckpointNote {
  bool is_pinned = false;  ///< Retention leaves it alone.
  std::map<std::string, double> values = {};

  friend bool operator==(const CheckpointNote&, const CheckpointNote&) = default;
};

/// About all checkpoints of one step, by generation: a rewound run saves a step again, and what was
/// said of the old one does not hold for the new one.
using StepNotes = std::map<std::uint64_t, CheckpointNote>;

/// The text of a note, sealed by its own checksum. Pure, like its inverse, which answers `corrupt`
/// for anything else.
std::string format_step_notes(std::uint64_t step, const StepNotes& notes);
Result<StepNotes> parse_step_notes(std::string_view text, std::uint64_t step,
                                   std::string_view what);

/// The notes of a step; none if nobody has written any. `corrupt` names the file.
Result<StepNotes> read_step_notes(FileOps& ops, const std::string& directory, std::uint64_t step);

/// A file of notes that cannot be read.
struct DamagedNote {
  std::string path;
  Status reason;
};

struct AllNotes {
  std::map<std::uint64_t, StepNotes> by_step;
  std::vector<DamagedNote> damaged;

  /// Null if nothing was said about that checkpoint.
  const CheckpointNote* find(std::uint64_t step, std::uint64_t generation) const noexcept;
  /// Whether a damaged file may have said something about the step.
  bool is_damaged(std::uint64_t step) const;
};

Result<AllNotes> read_all_notes(FileOps& ops, const std::string& directory);

/// Adds values to the note of a checkpoint, or replaces those of the same name. Publishes the whole
/// note by rename; writers wait for each other. A note that was damaged is `corrupt` and stays as
/// it is. Crash points: publish_file's.
Status annotate_checkpoint(FileOps& ops, const std::string& directory, std::uint64_t step,
                           std::uint64_t generation, const std::map<std::string, double>& values);
Status pin_checkpoint(FileOps& ops, const std::string& directory, std::uint64_t step,
                      std::uint64_t generation, bool is_pinned);

}  // namespace stoker
