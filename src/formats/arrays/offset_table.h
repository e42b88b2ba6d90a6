/// \file
/// The table that MDS shards and LitData chunks begin with:
///
///     u32 N | u32 off[N+1]        little-endian; record i is [off[i], off[i+1]) of the file
///
/// It is read in pieces, so that a table of gigabytes uses no memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker {

static_assert(std::endian::native == std::endian::little, "numbers are read in native byte order");

/// Returns the little-endian number at `at`; the caller has checked that it is inside `bytes`.
template <typename Number>
Number load_number(std::span<const std::byte> bytes, std::size_t at = 0) noexcept {
  Number value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// Reads the table at the beginning of a file.
///
/// Thread safety: none.
class OffsetTable {
 public:
  struct Options {
    std::uint64_t size_bytes = 0;     ///< Size of the file.
    std::uint64_t gap_bytes_max = 0;  ///< Maximum distance of the first record from the table.
  };

  /// wants() asks for at most this much of the table at a time.
  static constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;

  /// `corrupt` if the file is too short for any table.
  static Result<OffsetTable> make(const Options& options);

  /// Returns the range to feed next; empty once the whole table is read.
  ByteRange wants() const noexcept;

  /// Takes bytes that begin at `wants().offset_bytes`, reports each record to `sink`, and returns
  /// how many bytes it used. `corrupt` if offsets decrease or point into the table or past the end
  /// of the file, or if the table is larger than the file; `invalid_argument` for fewer bytes than
  /// wants() asked for.
  Result<std::size_t> feed(std::span<const std::byte> bytes, RecordSink& sink);

  bool finished() const noexcept { return counted_ && next_ > count_; }
  std::uint64_t count() const noexcept { return count_; }  ///< Valid after the first feed().
  /// The end of the table, and the beginning of the first and the end of the last record. Valid
  /// once finished().
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
