/// \file
/// The table that MDS shards and LitData chunks begin with:
///
///     u32 N | u32 off[N+1]        little-endian; record i is [off[i], off[i+1]) of the file
///
/// Read in pieces, so that a table of gigabytes costs no memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie");

/// The little-endian number at `at`; the caller has checked that it is there.
template <typename Number>
Number load_number(std::span<const std::byte> bytes, std::size_t at = 0) noexcept {
  Number value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// Reads the table of a file, from its first byte on.
///
/// Thread safety: none.
class OffsetTable {
 public:
  struct Options {
    std::uint64_t size_bytes = 0;     ///< Of the file.
    std::uint64_t gap_bytes_max = 0;  ///< What may lie between the table and the first record.
  };

  /// At most this much of the table is wanted at a time.
  static constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;

  /// `corrupt` if the file is too short for any table.
  static Result<OffsetTable> make(const Options& options);

  /// What to feed next; empty once the table is read.
  ByteRange wants() const noexcept;

  /// Takes bytes from `wants().offset_bytes` on, tells `sink` of each record, and returns how many
  /// it has used. `corrupt` for offsets that go back, lie in the table or beyond the file, and for
  /// a table that does not fit in the file; `invalid_argument` for fewer bytes than were wanted.
  Result<std::size_t> feed(std::span<const std::byte> bytes, RecordSink& sink);

  bool finished() const noexcept { return counted_ && next_ > count_; }
  std::uint64_t count() const noexcept { return count_; }  ///< Valid after the first feed().
  /// Where the table ends, the first record begins, and the last one ends: valid once finished().
  std::uint64_t table_end_bytes() const noexcept { return 4 * (count_ + 2); }
  std::uint64_t first_bytes() const noexcept { return first_bytes_; }
  std::uint64_t end_bytes() const noexcept { return previous_bytes_; }

 private:
  explicit OffsetTable(const Options& options) : options_(options) {}

  Status take_count(std::uint32_t count);
  Status take_offset(std::uint32_t offset, RecordSink& sink);

  Options options_;
  bool counted_ = false;
  std::uint64_t count_ = 0;
  std::uint64_t next_ = 0;  ///< The entry to read next.
  std::uint64_t first_bytes_ = 0;
  std::uint64_t previous_bytes_ = 0;
};

}  // namespace stoker
