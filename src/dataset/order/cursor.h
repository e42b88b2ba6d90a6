/// \file
/// Cursor: where a run stands in its data, and which data that was. The same on every rank, and
/// opaque bytes to whoever keeps it. docs/formats/order.md has its two encodings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "dataset/order/batch_cut.h"
#include "dataset/order/order.h"
#include "stoker/status.h"

namespace stoker {

struct Cursor {
  /// The order of the samples, resolved (see resolve_order()). For a mixture: the order inside its
  /// datasets, and `sample_count` is the mixture's epoch.
  OrderOptions order;
  /// Index::fingerprint() of the dataset; mixture_fingerprint() of a mixture.
  Digest128 fingerprint;
  Tail tail = Tail::drop;
  std::uint64_t global_batch_size = 0;
  std::uint64_t epoch = 0;
  /// Positions of this epoch that the caller has *received*: the next batch begins here. Never
  /// counts what was only read ahead.
  std::uint64_t position = 0;

  bool operator==(const Cursor&) const = default;
};

/// Bytes of encode_cursor(); it will stay below 128.
inline constexpr std::size_t kCursorBytes = 104;

/// For cursors whose numbers make sense, as those of resolve_order() and BatchCut do.
std::vector<std::byte> encode_cursor(const Cursor& cursor);
/// `corrupt` if these are not the bytes of a cursor or were damaged (they carry a checksum), or if
/// their numbers make no sense; `unsupported` if a newer Stoker wrote them.
Result<Cursor> decode_cursor(std::span<const std::byte> bytes);

/// One JSON object on one line.
std::string format_cursor(const Cursor& cursor);
/// Reads what format_cursor() writes: every member once, none missing and none unknown, each of its
/// type and in its range; `corrupt` names the place, `unsupported` a newer version.
Result<Cursor> parse_cursor(std::string_view json);

/// One field that is not as expected.
struct CursorDifference {
  std::string_view field;  ///< As in the JSON: "seed", "global_batch_size".
  std::string was;         ///< In the cursor.
  std::string is;          ///< In this run.
  bool may_be_allowed = false;
};

/// What a caller may allow to differ, because the line of positions stays the same and the run goes
/// on where it stood: `global_batch_size`; `tail`; `fingerprint`, for one who knows that the
/// samples are the same in the same order (shards were renamed or packed again).
std::span<const std::string_view> cursor_fields_that_may_be_allowed() noexcept;

/// Every field in which `cursor` differs from `run`, a cursor of this run at any place (its epoch
/// and position are not looked at). `lanes`, `deal_samples`, `block_samples` and `window_blocks`
/// that are 0 in `run` mean "as the cursor says": a run that was given no lanes takes those
/// of the cursor, even with another global batch.
std::vector<CursorDifference> compare_cursor(const Cursor& cursor, const Cursor& run);

/// OK if nothing differs but what `allow` names. Otherwise `invalid_argument`, and the message
/// names every field that differs and is not allowed, what it was, what it is, and whether it may
/// be allowed. A name in `allow` that may not be allowed is `invalid_argument` too.
Status check_cursor(const Cursor& cursor, const Cursor& run,
                    std::span<const std::string_view> allow = {});

}  // namespace stoker
