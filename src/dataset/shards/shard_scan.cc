#include "dataset/shards/shard_scan.h"

#include <algorithm>
#include <optional>

#include "base/checksum.h"
#include "io/engine/arena.h"

namespace stoker {
namespace {

constexpr std::size_t kSmallReadBytes = 8 << 10;  // a header with its PAX records
constexpr std::uint64_t kNearBytes = 128 << 10;   // closer headers are read together

/// The part of the shard that was read last.
class Window {
 public:
  Window(const Object& object, std::span<std::byte> memory) : object_(object), memory_(memory) {}

  /// Returns the bytes from `wanted.offset_bytes` on: at least `wanted`, and all that were read.
  Result<std::span<const std::byte>> get(ByteRange wanted, std::size_t read_ahead_bytes) {
    if (!holds(wanted)) {
      const std::uint64_t size = std::max<std::uint64_t>(wanted.size_bytes, read_ahead_bytes);
      if (object_.scratch_bytes(wanted.offset_bytes, size) > memory_.size())
        STOKER_TRY(grow(object_.scratch_bytes(wanted.offset_bytes, size)));
      STOKER_ASSIGN(bytes_, object_.read(wanted.offset_bytes, size, memory_));
      offset_bytes_ = wanted.offset_bytes;
      if (bytes_.size() < wanted.size_bytes)
        return Status(Code::corrupt, object_.key() + ": ends at byte " +
                                         std::to_string(offset_bytes_ + bytes_.size()) +
                                         ", inside a header");
    }
    return bytes_.subspan(wanted.offset_bytes - offset_bytes_);
  }

 private:
  bool holds(ByteRange wanted) const {
    return wanted.offset_bytes >= offset_bytes_ &&
           wanted.end_bytes() <= offset_bytes_ + bytes_.size();
  }

  /// For the rare header that is larger than the memory: an offset table of a million samples.
  Status grow(std::size_t size_bytes) {
    STOKER_ASSIGN(MappedArena larger, MappedArena::map(size_bytes, false, false));
    larger_.emplace(std::move(larger));
    memory_ = larger_->bytes();
    bytes_ = {};
    return {};
  }

  const Object& object_;
  std::span<std::byte> memory_;
  std::optional<MappedArena> larger_;
  std::uint64_t offset_bytes_ = 0;
  std::span<const std::byte> bytes_;
};

class Collect final : public RecordSink {
 public:
  Status add(ByteRange record, std::string_view /*key*/) override {
    records.push_back(record);
    return {};
  }
  std::vector<ByteRange> records;
};

}  // namespace

Status scan_shard(const Object& object, ShardScanner& scanner, std::span<std::byte> memory,
                  RecordSink& sink, const std::stop_token& stop) {
  Window window(object, memory);
  std::uint64_t last_offset = 0;
  for (ByteRange wanted = scanner.wants(); wanted.size_bytes > 0; wanted = scanner.wants()) {
    if (stop.stop_requested()) return Status(Code::cancelled, "stopped while indexing");
    const bool is_near = wanted.offset_bytes - last_offset < kNearBytes;
    last_offset = wanted.offset_bytes;
    // Half the memory, so that the read fits after it is extended for alignment.
    STOKER_ASSIGN(const std::span<const std::byte> bytes,
                  window.get(wanted, is_near ? kScanBytes / 2 : kSmallReadBytes));
    STOKER_TRY(scanner.feed(bytes, sink).with_context(object.key()));
    if (const ByteRange next = scanner.wants(); next.size_bytes > 0 && next == wanted)
      return Status(Code::corrupt, object.key() + ": the scan makes no progress at byte " +
                                       std::to_string(wanted.offset_bytes));
  }
  return {};
}

Result<std::vector<ByteRange>> scan_shard(const Object& object, ShardScanner& scanner,
                                          std::span<std::byte> memory,
                                          const std::stop_token& stop) {
  Collect found;
  STOKER_TRY(scan_shard(object, scanner, memory, found, stop));
  return std::move(found.records);
}

Result<std::vector<std::uint32_t>> checksum_records(const Object& object,
                                                    std::span<const ByteRange> records,
                                                    std::span<std::byte> memory,
                                                    const std::stop_token& stop) {
  Window window(object, memory);
  std::vector<std::uint32_t> checksums;
  checksums.reserve(records.size());
  for (const ByteRange& record : records) {
    Crc32cStream stream;
    for (std::uint64_t at = record.offset_bytes; at < record.end_bytes();) {
      if (stop.stop_requested())
        return Status(Code::cancelled, "stopped while computing checksums");
      STOKER_ASSIGN(const std::span<const std::byte> bytes, window.get({at, 1}, kScanBytes / 2));
      const std::size_t size = std::min<std::uint64_t>(bytes.size(), record.end_bytes() - at);
      stream.update(bytes.first(size));
      at += size;
    }
    checksums.push_back(stream.digest());
  }
  return checksums;
}

}  // namespace stoker
