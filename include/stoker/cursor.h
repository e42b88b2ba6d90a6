/// \file
/// Cursor: the position of a run in its data, and which data that is. The same on every rank, and
/// opaque bytes to the caller who stores it. docs/formats/order.md defines its two encodings. A
/// cursor of Python resumes in C++, and the other way round: str(cursor) is format_cursor().
///
/// Thread safety: plain data and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/api.h"
#include "stoker/digest.h"
#include "stoker/order.h"
#include "stoker/status.h"

namespace stoker {

struct Cursor {
  /// The order of the samples, with every default filled in. For a mixture: the order inside its
  /// datasets, and `sample_count` is the mixture's epoch.
  OrderOptions order;
  /// Identifies the samples and their order: Dataset::fingerprint(), Mixture::fingerprint().
  Digest128 fingerprint;
  Tail tail = Tail::drop;
  std::uint64_t global_batch_size = 0;
  std::uint64_t epoch = 0;
  /// Positions of this epoch that the caller has *received*: the next batch begins here. Samples
  /// that were only read ahead do not count.
  std::uint64_t position = 0;

  bool operator==(const Cursor&) const = default;
};

/// Size of an encoded cursor; guaranteed to stay below 128.
inline constexpr std::size_t kCursorBytes = 104;

/// Encodes a cursor whose numbers are valid, as those of batches and loaders are.
STOKER_API std::vector<std::byte> encode_cursor(const Cursor& cursor);
/// Decodes a cursor. `corrupt` if the bytes are not a cursor, are damaged (they have a checksum),
/// or contain invalid numbers; `unsupported` if a newer Stoker wrote them.
STOKER_API Result<Cursor> decode_cursor(std::span<const std::byte> bytes);

/// Returns the cursor as one JSON object on one line.
STOKER_API std::string format_cursor(const Cursor& cursor);
/// Parses what format_cursor() writes. `corrupt`, with the place, if a member is missing,
/// duplicate, unknown, of the wrong type or out of range; `unsupported` if a newer Stoker wrote it.
/// The member "framework_epoch" of Python's state_dict() is ignored.
STOKER_API Result<Cursor> parse_cursor(std::string_view json);

/// A field in which a cursor and a run differ.
struct CursorDifference {
  std::string_view field;  ///< The JSON name: "seed", "global_batch_size".
  std::string was;         ///< In the cursor.
  std::string is;          ///< In this run.
  bool may_be_allowed = false;
};

/// The fields that a caller may allow to differ, because the sequence of positions stays the same
/// and the run continues at its position: `global_batch_size`; `tail`; `fingerprint`, if the caller
/// knows that the samples and their order are the same (shards were renamed or packed again).
STOKER_API std::span<const std::string_view> cursor_fields_that_may_be_allowed() noexcept;

/// Returns every field in which `cursor` differs from `run`, a cursor of this run at any position
/// (epoch and position are not compared). `lanes`, `deal_samples`, `block_samples` and
/// `window_blocks` that are 0 in `run` match any value: the run takes them from the cursor, even if
/// its global batch differs.
STOKER_API std::vector<CursorDifference> compare_cursor(const Cursor& cursor, const Cursor& run);

/// OK if only fields that `allow` names differ. Otherwise `invalid_argument`; the message lists
/// every other field that differs, its value in the cursor and in the run, and whether it may be
/// allowed. Also `invalid_argument` if `allow` names a field that may not be allowed.
STOKER_API Status check_cursor(const Cursor& cursor, const Cursor& run,
                               std::span<const std::string_view> allow = {});

}  // namespace stoker
