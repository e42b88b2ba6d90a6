/// \file
/// The format of a chunk file, little-endian:
///
///   head   4096 bytes: ChunkHead, a CRC32C for each block of the body, the identity for people;
///          the rest is zero
///   body   the bytes of the chunk, in blocks of 16 KiB of which the last may be shorter
///
/// A chunk is written without fsync. After a power loss a file may have any content: the checksum
/// of the head covers the head, and those in it cover the body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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
inline constexpr std::size_t kChunkBlockBytes = std::size_t{16} << 10;

/// Read and checked at a time: their blocks are then still in the CPU's cache.
inline constexpr std::size_t kChunkPieceBytes = std::size_t{1} << 20;

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
  /// What the page cache has is read from there, the rest past it, where the filesystem can do
  /// that. `corrupt` if one of them is damaged or missing: `out` then has undefined bytes.
  Status read(std::uint64_t offset_bytes, std::span<std::byte> out) const;

  /// A read of whole blocks past the page cache, that somebody else does.
  struct DirectRead {
    int fd = -1;
    std::uint64_t offset_bytes = 0;  ///< In the file; a multiple of 4096.
    std::size_t room_bytes = 0;      ///< Of aligned memory that it needs; a multiple of 4096.
    std::uint64_t first = 0;         ///< Of the blocks, in the chunk.
    std::size_t size_bytes = 0;      ///< Of the blocks.
  };
  /// Returns how to read a range of at most kChunkPieceBytes, which must be in one piece of that
  /// size; nothing if read() does it better, because the page cache has it, or at all.
  std::optional<DirectRead> plan_direct(std::uint64_t offset_bytes, std::size_t size_bytes) const;
  /// Checks the blocks that came, of which `result` bytes were read, and copies the range. Fails as
  /// read() does.
  Status finish_direct(const DirectRead& read, std::int64_t result, std::span<std::byte> room,
                       std::uint64_t offset_bytes, std::span<std::byte> out) const;

  /// Whether the file still has a name: one that was evicted has none, and no bytes.
  bool is_named() const;

  /// Checks all blocks.
  Status verify() const;

 private:
  ChunkFile(UniqueFd fd, UniqueFd direct, ChunkHead head)
      : fd_(std::move(fd)), direct_(std::move(direct)), head_(std::move(head)) {}
  Status read_piece(std::uint64_t offset_bytes, std::span<std::byte> out) const;
  Status check_blocks(std::uint64_t offset_bytes,
                      std::span<const std::span<std::byte>> parts) const;

  UniqueFd fd_;
  UniqueFd direct_;  ///< The same file with O_DIRECT; empty if that is not possible.
  ChunkHead head_;
};

}  // namespace stoker
