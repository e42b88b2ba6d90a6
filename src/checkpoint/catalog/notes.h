/// \file
/// What is said about a checkpoint after it was committed: values that rank it, and whether it must
/// stay. Committed steps are never changed, so this lies beside them.
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

/// Of the text of a step's notes.
inline constexpr std::size_t kNoteBytesMax = std::size_t{16} << 20;

/// About one checkpoint.
struct CheckpointNote {
  bool is_pinned = false;  ///< Retention leaves it alone, and any other of the same generation.
  std::map<std::string, double> values = {};
  /// Of the checkpoint that it is about (lineage.h). Empty: nobody has said so, as in version 0.1.
  std::string line = {};

  /// Whether the values are those of a checkpoint of that line. Another run may have given the same
  /// step the same generation, and its checkpoint may have been copied here.
  bool is_about(std::string_view other) const noexcept { return line.empty() || line == other; }

  /// NaN is equal to NaN here: nobody has changed it.
  friend bool operator==(const CheckpointNote& a, const CheckpointNote& b);
};

/// About all checkpoints of one step, by generation: a rewound run saves a step again, and what was
/// said of the old one does not hold for the new one. There is one note for each generation.
using StepNotes = std::map<std::uint64_t, CheckpointNote>;

/// The text of a note, sealed by its own checksum. Pure, like its inverse, which answers `corrupt`
/// for anything else.
std::string format_step_notes(std::uint64_t step, const StepNotes& notes);
Result<StepNotes> parse_step_notes(std::string_view text, std::uint64_t step,
                                   std::string_view what);

/// The notes of a step; none if nobody has written any. `corrupt` names the file.
Result<StepNotes> read_step_notes(const CheckpointStore& store, std::uint64_t step);

/// A file of notes that is damaged or cannot be read.
struct DamagedNote {
  std::uint64_t step = 0;
  std::string path;
  Status reason;
};

struct AllNotes {
  std::map<std::uint64_t, StepNotes> by_step;
  std::vector<DamagedNote> damaged;

  /// Null if nothing was said about a checkpoint of that generation. Its values count only for the
  /// line that it is about.
  const CheckpointNote* find(std::uint64_t step, std::uint64_t generation) const noexcept;
  /// Whether a file that cannot be read may have said something about the step.
  bool is_damaged(std::uint64_t step) const;
  /// Of all checkpoints something is said about, whether they are there or not; 0 if there are
  /// none.
  std::uint64_t greatest_generation() const noexcept;
};

Result<AllNotes> read_all_notes(const CheckpointStore& store);

/// Reads all notes again and again: files that have not changed are not opened.
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

/// Adds values to the note of a checkpoint, or replaces those of the same name. `line` is the
/// checkpoint's; empty where it has none. The note of a checkpoint of another line is replaced if
/// that is gone; its pin stays. `already_exists` if it is still there. Publishes the whole note
/// at once; then looks for the checkpoint: `not_found` if it is not there any more. A note that was
/// damaged is `corrupt` and stays as it is; `invalid_argument` for a name of more than 256 bytes,
/// and for more values than a reader would take.
Status annotate_checkpoint(const CheckpointStore& store, std::uint64_t step,
                           std::uint64_t generation, const std::map<std::string, double>& values,
                           const std::string& line = {});
/// The same with a pin. Once it has returned OK retention leaves the checkpoint alone.
Status pin_checkpoint(const CheckpointStore& store, std::uint64_t step, std::uint64_t generation,
                      bool is_pinned, const std::string& line = {});

}  // namespace stoker
