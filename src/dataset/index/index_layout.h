#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "dataset/index/checked_blocks.h"
#include "dataset/index/size_classes.h"
#include "formats/shard_format.h"

// The format of the index file (docs/formats/index.md), little-endian:
//
//   header      4096 bytes: Header, zeros, and in the last 16 the XXH3-128 of the bytes before
//   records     sample_count entries of 16 bytes, padded with zeros to whole blocks of 64 KiB
//   shards      the shard table, `shards_bytes` long digests     one XXH3-128 for each block of the
//   records
//
// Sections follow each other without gaps, and the file ends with the last.

namespace stoker::index_layout {

inline constexpr std::array<char, 8> kMagic = {'S', 'T', 'K', 'I', 'N', 'D', 'E', 'X'};
inline constexpr std::uint16_t kVersionMajor = 2;
inline constexpr std::uint16_t kVersionMinor = 0;
inline constexpr std::size_t kHeaderBytes = 4096;
inline constexpr std::size_t kBlockBytes = CheckedBlocks::kBlockBytes;
inline constexpr std::size_t kRecordBytes = 16;
inline constexpr std::size_t kRecordsPerBlock = kBlockBytes / kRecordBytes;
inline constexpr std::size_t kDigestBytes = CheckedBlocks::kDigestBytes;
inline constexpr std::uint32_t kFlagChecksums = 1;
inline constexpr std::uint64_t kPlaceMax =
    (std::uint64_t{1} << 48) - 1;  // maximum of offsets and sizes

struct Header {
  std::array<char, 8> magic;
  std::uint16_t version_major;
  std::uint16_t version_minor;
  std::uint32_t flags;
  std::array<char, 16> format;  ///< NUL-padded.
  std::uint64_t sample_count;
  std::uint64_t shard_count;
  std::uint64_t shards_bytes;
  std::uint64_t fingerprint_low;
  std::uint64_t fingerprint_high;
  std::uint64_t shards_digest_low;
  std::uint64_t shards_digest_high;
  std::uint64_t digests_digest_low;
  std::uint64_t digests_digest_high;
  std::uint64_t record_bytes_max;
  SizeClasses::Counts size_classes;
};
static_assert(sizeof(Header) == 112 + 8 * SizeClasses::kCount);
static_assert(sizeof(Header) <= kHeaderBytes - kDigestBytes);
static_assert(std::is_trivially_copyable_v<Header>);

/// Offset and size have six bytes each, so that an entry has sixteen.
struct Record {
  std::uint64_t offset_and_size_low;  ///< The offset in the lower 48 bits.
  std::uint32_t size_high;            ///< The size without its lowest 16 bits.
  std::uint32_t crc32c;

  static Record make(ByteRange place, std::uint32_t crc32c) noexcept {
    return {.offset_and_size_low = place.offset_bytes | place.size_bytes << 48,
            .size_high = static_cast<std::uint32_t>(place.size_bytes >> 16),
            .crc32c = crc32c};
  }
  ByteRange place() const noexcept {
    return {.offset_bytes = offset_and_size_low & kPlaceMax,
            .size_bytes = std::uint64_t{size_high} << 16 | offset_and_size_low >> 48};
  }
};
static_assert(sizeof(Record) == kRecordBytes);

/// A shard table entry: this, then `name_bytes` of name.
struct Shard {
  std::uint64_t size_bytes;
  std::uint64_t plain_size_bytes;
  std::int64_t mtime_ns;
  std::uint64_t sample_count;
  std::uint32_t name_bytes;
  std::uint32_t reserved;
};
static_assert(sizeof(Shard) == 40);

/// Reads a struct from bytes, which need not be aligned. The caller must have checked the size.
template <typename T>
T load(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

inline std::uint64_t block_count(std::uint64_t sample_count) {
  return sample_count / kRecordsPerBlock + (sample_count % kRecordsPerBlock != 0 ? 1 : 0);
}

}  // namespace stoker::index_layout
