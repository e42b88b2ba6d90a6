#include "formats/arrays/offset_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace stoker {
namespace {

Status corrupt_at(std::uint64_t offset_bytes, std::string_view message) {
  return {Code::corrupt, fmt::format("byte {}: {}", offset_bytes, message)};
}

}  // namespace

Result<OffsetTable> OffsetTable::make(const Options& options) {
  if (options.size_bytes < 8) {
    return corrupt_at(0,
                      fmt::format("{} bytes are too few for an offset table", options.size_bytes));
  }
  return OffsetTable(options);
}

ByteRange OffsetTable::wants() const noexcept {
  if (!counted_) return {0, 4};
  if (finished()) return {};
  const std::uint64_t left_bytes = 4 * (count_ + 1 - next_);
  return {4 * (next_ + 1), std::min(left_bytes, kPieceBytes)};
}

Result<std::size_t> OffsetTable::feed(std::span<const std::byte> bytes, RecordSink& sink) {
  if (bytes.size() < wants().size_bytes) {
    return Status(Code::invalid_argument,
                  fmt::format("byte {}: {} bytes were wanted, {} given", wants().offset_bytes,
                              wants().size_bytes, bytes.size()));
  }
  std::size_t used = 0;
  if (!counted_) {
    STOKER_TRY(take_count(load_number<std::uint32_t>(bytes)));
    used = 4;
  }
  for (; !finished() && bytes.size() - used >= 4; used += 4) {
    STOKER_TRY(take_offset(load_number<std::uint32_t>(bytes, used), sink));
  }
  return used;
}

Status OffsetTable::take_count(std::uint32_t count) {
  count_ = count;
  counted_ = true;
  if (table_end_bytes() > options_.size_bytes) {
    return corrupt_at(0, fmt::format("a table for {} records takes {} bytes, the file has {}",
                                     count_, table_end_bytes(), options_.size_bytes));
  }
  return {};
}

Status OffsetTable::take_offset(std::uint32_t offset, RecordSink& sink) {
  const std::uint64_t at = 4 * (next_ + 1);
  if (offset > options_.size_bytes) {
    return corrupt_at(at, fmt::format("offset {} of record {} is beyond the end of the file, {}",
                                      offset, next_, options_.size_bytes));
  }
  if (next_ == 0) {
    if (offset < table_end_bytes()) {
      return corrupt_at(at, fmt::format("record 0 at {} overlaps the table, which ends at {}",
                                        offset, table_end_bytes()));
    }
    if (offset - table_end_bytes() > options_.gap_bytes_max) {
      return corrupt_at(at, fmt::format("record 0 at {} is more than {} bytes behind the table, "
                                        "which ends at {}",
                                        offset, options_.gap_bytes_max, table_end_bytes()));
    }
    first_bytes_ = offset;
  } else {
    if (offset < previous_bytes_) {
      return corrupt_at(at, fmt::format("record {} ends at {}, before its start at {}", next_ - 1,
                                        offset, previous_bytes_));
    }
    STOKER_TRY(sink.add({previous_bytes_, offset - previous_bytes_}, {}));
  }
  previous_bytes_ = offset;
  ++next_;
  return {};
}

}  // namespace stoker
