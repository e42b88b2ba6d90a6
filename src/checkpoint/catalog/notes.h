/// \file
/// Notes about committed checkpoints: values that rank them, and pins. Committed steps are never
/// changed, so notes are stored beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/store/checkpoint_store.h"
#include "io/files/file_ops.h"

namespace stoker {

/// Maximum size of the text of a step's notes.
inline constexpr std::size_t kNoteBytesMax = std::size_t{16} << 20;

/// A note about one checkpoint.
struct CheckpointNote {
  bool is_pinned = false;  ///< Retention keeps every checkpoint of this step and generation.
  std::map<std::string, double> values = {};
  /// Line of the checkpoint (lineage.h). Empty: unknown, as in version 0.1.
  std::string line = {};

  /// Whether the values are those of a checkpoint of that line. Another run may have given the same
  /// step the same generation, and its checkpoint may have been copied here.
  bool is_about(std::string_view other) const noexcept { return line.empty() || line == other; }

  /// Treats NaN as equal to NaN.
  friend bool operator==(const CheckpointNote& a, const CheckpointNote& b);
};

/// The notes about all checkpoints of one step, by generation: a rewound run saves a step again,
/// and the note about the old checkpoint does not apply to the new one.
using StepNotes = std::map<std::uint64_t, CheckpointNote>;

/// Returns the text of a step's notes, which ends with its checksum. Pure, like its inverse, which
/// returns `corrupt` for other texts and `unsupported` for a newer version.
std::string format_step_notes(std::uint64_t step, const StepNotes& notes);
Result<StepNotes> parse_step_notes(std::string_view text, std::uint64_t step,
                                   std::string_view what);

/// Reads the notes of a step; empty if there are none. The message of `corrupt` names the file.
Result<StepNotes> read_step_notes(const CheckpointStore& store, std::uint64_t step);

/// Notes of a step that are damaged or unreadable.
struct DamagedNote {
  std::uint64_t step = 0;
  std::string path;
  Status reason;
};

struct AllNotes {
  std::map<std::uint64_t, StepNotes> by_step;
  std::vector<DamagedNote> damaged;

  /// Returns the note of a generation; null if there is none. Its values apply only to checkpoints
  /// for which CheckpointNote::is_about() is true.
  const CheckpointNote* find(std::uint64_t step, std::uint64_t generation) const noexcept;
  /// Whether the notes of the step are damaged or unreadable.
  bool is_damaged(std::uint64_t step) const;
  /// Returns the greatest generation that has a note, even if its checkpoint is gone; 0 if none.
  std::uint64_t greatest_generation() const noexcept;
};

Result<AllNotes> read_all_notes(const CheckpointStore& store);

/// Reads all notes repeatedly, and opens only the files that have changed.
///
/// Thread safety: none.
class NotesReader {
 public:
  explicit NotesReader(StoreHandle store) : store_(std::move(store)) {}

  Result<AllNotes> read();

 private:
  struct Known {
    FileInfo file;
    StepNotes notes;
  };

  StoreHandle store_;
  std::map<std::uint64_t, Known> known_;
};

/// Adds values to the note of a checkpoint, or replaces those of the same name. `line` is that of
/// the checkpoint, empty if it has none. If the note is about a checkpoint of another line, that
/// one must be gone, `already_exists` otherwise: its values are dropped, its pin stays. The whole
/// note is published atomically. Errors: `not_found` if the checkpoint no longer exists after that;
/// `corrupt` if the note is damaged, which then stays unchanged; `invalid_argument` for a name that
/// is not UTF-8 of 1 to 256 bytes, and for a note that is too large to be read.
Status annotate_checkpoint(const CheckpointStore& store, std::uint64_t step,
                           std::uint64_t generation, const std::map<std::string, double>& values,
                           const std::string& line = {});
/// Sets or clears the pin, with the same errors. Once this has returned OK for a pin, retention
/// keeps the checkpoint.
Status pin_checkpoint(const CheckpointStore& store, std::uint64_t step, std::uint64_t generation,
                      bool is_pinned, const std::string& line = {});

}  // namespace stoker
