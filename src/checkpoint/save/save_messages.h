/// \file
/// The messages that ranks exchange during a save, and their text form. Pure.
///
/// All rounds of a save with the number n, in their order (g: gathered on rank 0, b: broadcast by
/// rank 0). Rounds 4 to 7 exist only if there are several places.
///
///     1. begin-n (g)       BeginMessage: what each rank is to save            SaveRounds
///     2. verdict-n (b)     Verdict. After `count`, `lock_places` and          SaveRounds
///                          `make_room`, rounds 1 and 2 follow again,
///                          with the number n + 1
///     3. part-n (g)        PartMessage: what each rank has written            SaveWorker
///     4. manifest-n (b)    ManifestMessage: what all places store             SaveWorker
///     5. sealed-n (g, b)   EndMessage: all is durable, nothing is visible     PlaceRounds
///     6. durable-n (g, b)  EndMessage: it is durable under its name           PlaceRounds
///     7. places-n (g)      PlaceReport: what each place has                   SaveWorker
///     8. end-n (b)         EndMessage: the result, and what retention keeps   SaveWorker
///
/// A saver that closes gathers "close": rank 0 waits until the others have read its last message.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/save/pending.h"
#include "checkpoint/save/sharing.h"
#include "stoker/status.h"

namespace stoker {

inline constexpr std::uint64_t kUnknownBytes = ~std::uint64_t{0};

/// Sent by each rank before the copy.
struct BeginMessage {
  std::uint64_t call = 0;  ///< Counts the calls of save() on this rank.
  bool is_behind = false;  ///< The step has failed on other ranks before: see SaveRounds.
  std::uint64_t step = 0;
  std::uint64_t size_bytes = 0;      ///< Bytes to be written, without linked files.
  bool is_late = false;              ///< No room for one more save in flight.
  std::uint64_t waiting_number = 0;  ///< Number of the save that could be replaced; 0 if none.
  std::uint64_t failed_number = 0;   ///< Number of the save whose error is unreported; 0 if none.
  Status failure = {};               ///< That error, or an error of this save.
  /// Number of the save whose decision about shared tensors this rank would follow; 0 if none.
  std::uint64_t shared_number = 0;
  /// The tensors of this rank, if it has counted them.
  std::optional<std::vector<SharedPiece>> pieces = {};
  // If nodes have private disks (manifest/places.h):
  std::string place = {};  ///< The same for ranks whose directory is the same one.
  std::string host = {};
  std::string token = {};  ///< Of the lock that this rank holds in its place; empty if none.
  std::uint64_t free_bytes = kUnknownBytes;  ///< Free space of its directory.
  std::uint64_t unreserved_bytes = 0;  ///< Disk space that earlier saves still need on this rank.
};

enum class SaveAction : std::uint8_t {
  go,
  skip,
  fail,
  fail_behind,  ///< Ranks that save an earlier step fail; the others wait for their next call.
  count,        ///< Every rank sends another message, with its pieces.
  lock_places,  ///< As well; the first rank of each place takes its lock before.
  make_room,    ///< As well; it waits before until checkpoints that it removes are gone.
};

/// Rank 0's decision, the same for all ranks.
struct Verdict {
  SaveAction action = SaveAction::go;
  std::uint64_t step = 0;  ///< The latest of all ranks; that of rank 0 if it has not heard them.
  /// The call of each rank that this answers; empty if rank 0 has not heard them all.
  std::vector<std::uint64_t> calls = {};
  std::uint64_t replaced_number = 0;  ///< Number of the save to be dropped; 0 if none.
  std::uint64_t raised_number = 0;    ///< Number of the earlier save that failed; 0 if this one.
  std::string staging = {};           ///< From CheckpointWriter::staging_name().
  Status failure = {};
  /// A new decision about shared tensors, under the number of this round. Nothing: the earlier one
  /// remains in force.
  std::optional<std::vector<PieceOwner>> owners = {};
  std::vector<std::uint32_t> places = {};  ///< The place of each rank; empty if all are in one.
  std::vector<std::string> tokens = {};    ///< Of the lock of each place, if known.
};

/// What one place has, as its first rank tells once the checkpoint is durable in all places.
struct PlaceReport {
  Status failure = {};
  bool has_rules = false;                ///< There are rules of retention. Then:
  std::vector<std::string> steps = {};   ///< checkpoint_id() of every valid checkpoint.
  std::vector<std::string> pinned = {};  ///< Those that a note keeps.
  std::vector<std::string> valued = {};  ///< Those whose note has the value of `keep_best`.
  std::vector<double> values = {};       ///< These values.
  bool has_invalid = false;              ///< There are checkpoints that cannot be read.
};

/// Identifies a checkpoint, whatever its name is.
std::string checkpoint_id(std::uint64_t generation, std::string_view line);

/// Sent by each rank when its files are durable or have failed.
struct PartMessage {
  Status failure = {};
  // If there are several places:
  std::string part = {};         ///< The part manifest; rank 0 may not see its file.
  std::uint64_t generation = 0;  ///< Of the first rank of a place: the greatest that is used up.
};

/// Sent by rank 0 to all places once it has every part.
struct ManifestMessage {
  Status failure = {};
  std::string manifest = {};  ///< The text to be stored, unless there is a failure.
};

/// The result of the save, sent by rank 0.
struct EndMessage {
  SaveOutcome outcome = SaveOutcome::failed;
  std::uint64_t generation = 0;
  std::string line = {};
  Status failure = {};
  bool has_decided = false;  ///< Rank 0 has decided for all of several places. Otherwise all stay.
  /// What retention keeps and removes in all of them, by checkpoint_id(). What is in neither list
  /// is not in all places: each decides about it.
  std::vector<std::string> keep = {};
  std::vector<std::string> drop = {};
};

std::string format_message(const BeginMessage& message);
std::string format_message(const Verdict& message);
std::string format_message(const PartMessage& message);
std::string format_message(const ManifestMessage& message);
std::string format_message(const PlaceReport& message);
std::string format_message(const EndMessage& message);

/// The inverse; `corrupt` for any other text.
Result<BeginMessage> parse_begin_message(std::string_view text);
Result<Verdict> parse_verdict(std::string_view text);
Result<PartMessage> parse_part_message(std::string_view text);
Result<ManifestMessage> parse_manifest_message(std::string_view text);
Result<PlaceReport> parse_place_report(std::string_view text);
Result<EndMessage> parse_end_message(std::string_view text);

}  // namespace stoker
