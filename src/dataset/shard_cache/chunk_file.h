/// \file
/// The format of a chunk file, little-endian:
///
///   head   4096 bytes: ChunkHead, a CRC32C for each block of the body, the identity for people,
///   zeros body   the bytes of the chunk, in blocks of 64 KiB of which the last may be shorter
///
/// A chunk is written without fsync. After a power loss a file may have any content: the checksum
/// of the head covers the head, and those in it cover the body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "dataset/shard_cache/chunk_id.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

inline constexpr std::size_t kChunkHeadBytes = 4096;
inline constexpr std::size_t kChunkBlockBytes = std::size_t{64} << 10;

/// Returns the size of the file of a chunk.
constexpr std::uint64_t chunk_file_bytes(const ChunkId& id) noexcept {
  return kChunkHeadBytes + id.size_bytes;
}

/// What the head of a chunk file says.
struct ChunkHead {
  ChunkId id;
  std::string identity;                  ///< For people; cut if it is very long.
  std::vector<std::uint32_t> block_crc;  ///< One for each block.
};

/// Reads a head. `corrupt` if the bytes are not kChunkHeadBytes of a valid head.
Result<ChunkHead> parse_chunk_head(std::span<const std::byte> bytes);

/// Writes head and body into an empty file. Not durable, and need not be.
Status write_chunk(FileOps& ops, int fd, const ChunkId& id, std::string_view identity,
                   std::span<const std::byte> body);

/// An open chunk file. It stays readable after its name was removed.
///
/// Thread safety: const methods from any thread, also in a forked child.
class ChunkFile {
 public:
  /// Opens a chunk file and reads its head. `not_found` if there is none; `corrupt` if it is
  /// damaged, not a regular file, or the file of another chunk.
  static Result<ChunkFile> open(FileOps& ops, const PathAt& path, const ChunkId& id);

  const ChunkHead& head() const noexcept { return head_; }
  int fd() const noexcept { return fd_.get(); }

  /// Reads a range of the chunk, which must lie inside it, and checks each block that it touches.
  /// `corrupt` if one of them is damaged or missing: `out` then has undefined bytes.
  Status read(std::uint64_t offset_bytes, std::span<std::byte> out) const;

  /// Whether the file still has a name: one that was evicted has none, and no bytes.
  bool is_named() const;

  /// Checks all blocks.
  Status verify() const;

 private:
  ChunkFile(UniqueFd fd, ChunkHead head) : fd_(std::move(fd)), head_(std::move(head)) {}

  UniqueFd fd_;
  ChunkHead head_;
};

}  // namespace stoker
