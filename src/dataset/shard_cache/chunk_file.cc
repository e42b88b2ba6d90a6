#include "dataset/shard_cache/chunk_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/checksum.h"
#include "io/files/exact_transfer.h"

namespace stoker {
namespace {

constexpr std::array<char, 8> kChunkMagic = {'S', 'T', 'K', 'C', 'H', 'N', 'K', '1'};

/// The start of a head, followed by the checksums of the blocks and the identity.
struct RawHead {
  std::array<char, 8> magic;
  std::uint64_t object_high;
  std::uint64_t object_low;
  std::uint64_t offset_bytes;
  std::uint32_t size_bytes;
  std::uint32_t identity_bytes;
  std::uint32_t reserved;
  std::uint32_t crc32c;  ///< Of the whole head, with this field as 0.
};
static_assert(sizeof(RawHead) == 48);

constexpr std::size_t kBlocksMax = ChunkId::kSizeMax / kChunkBlockBytes;
constexpr std::size_t kIdentityBytesMax = 2048;
static_assert(sizeof(RawHead) + kBlocksMax * sizeof(std::uint32_t) + kIdentityBytesMax <=
              kChunkHeadBytes);

std::size_t chunk_block_count(std::uint64_t size_bytes) {
  return static_cast<std::size_t>((size_bytes + kChunkBlockBytes - 1) / kChunkBlockBytes);
}

using HeadBytes = std::array<std::byte, kChunkHeadBytes>;

std::uint32_t head_crc(std::span<const std::byte> bytes) {
  constexpr std::array<std::byte, sizeof(std::uint32_t)> kZero{};
  constexpr std::size_t kAt = offsetof(RawHead, crc32c);
  const std::uint32_t crc = crc32c(kZero, crc32c(bytes.first(kAt)));
  return crc32c(bytes.subspan(kAt + kZero.size()), crc);
}

HeadBytes format_head(const ChunkId& id, std::string_view identity,
                      std::span<const std::byte> body) {
  HeadBytes bytes{};
  identity = identity.substr(0, kIdentityBytesMax);
  RawHead raw{.magic = kChunkMagic,
              .object_high = id.object.high,
              .object_low = id.object.low,
              .offset_bytes = id.offset_bytes,
              .size_bytes = id.size_bytes,
              .identity_bytes = static_cast<std::uint32_t>(identity.size()),
              .reserved = 0,
              .crc32c = 0};
  std::size_t at = sizeof raw;
  for (std::size_t begin = 0; begin < body.size(); begin += kChunkBlockBytes) {
    const std::uint32_t crc =
        crc32c(body.subspan(begin, std::min(kChunkBlockBytes, body.size() - begin)));
    std::memcpy(bytes.data() + at, &crc, sizeof crc);
    at += sizeof crc;
  }
  if (!identity.empty()) std::memcpy(bytes.data() + at, identity.data(), identity.size());
  std::memcpy(bytes.data(), &raw, sizeof raw);
  raw.crc32c = head_crc(bytes);
  std::memcpy(bytes.data(), &raw, sizeof raw);
  return bytes;
}

/// Fills the parts from one place of the file; `corrupt` if the file ends inside.
Status read_parts(int fd, std::uint64_t offset_bytes, std::span<iovec> parts) {
  while (!parts.empty()) {
    const ssize_t count = ::preadv(fd, parts.data(), static_cast<int>(parts.size()),
                                   static_cast<off_t>(offset_bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Status::from_errno(errno, "preadv", "chunk");
    if (count == 0) return Status(Code::corrupt, "the chunk file is shorter than it says");
    offset_bytes += static_cast<std::uint64_t>(count);
    auto left = static_cast<std::size_t>(count);
    while (!parts.empty() && left >= parts.front().iov_len) {
      left -= parts.front().iov_len;
      parts = parts.subspan(1);
    }
    if (left == 0) continue;
    parts.front().iov_base = static_cast<std::byte*>(parts.front().iov_base) + left;
    parts.front().iov_len -= left;
  }
  return {};
}

}  // namespace

Result<ChunkHead> parse_chunk_head(std::span<const std::byte> bytes) {
  const auto damaged = [](const char* what) {
    return Status(Code::corrupt, std::string("not a valid head of a chunk file: ") + what);
  };
  if (bytes.size() != kChunkHeadBytes) return damaged("its size");
  RawHead raw;
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (raw.magic != kChunkMagic) return damaged("the first bytes");
  if (raw.crc32c != head_crc(bytes)) return damaged("the checksum");
  if (raw.size_bytes == 0 || raw.size_bytes > ChunkId::kSizeMax ||
      raw.offset_bytes > UINT64_MAX - raw.size_bytes || raw.identity_bytes > kIdentityBytesMax)
    return damaged("a number");
  ChunkHead head{.id = {.object = {.low = raw.object_low, .high = raw.object_high},
                        .offset_bytes = raw.offset_bytes,
                        .size_bytes = raw.size_bytes},
                 .identity = {},
                 .block_crc = std::vector<std::uint32_t>(chunk_block_count(raw.size_bytes))};
  const std::size_t crc_bytes = head.block_crc.size() * sizeof(std::uint32_t);
  std::memcpy(head.block_crc.data(), bytes.data() + sizeof raw, crc_bytes);
  const std::span<const std::byte> identity =
      bytes.subspan(sizeof raw + crc_bytes, raw.identity_bytes);
  head.identity.assign(reinterpret_cast<const char*>(identity.data()), identity.size());
  return head;
}

Status write_chunk(FileOps& ops, int fd, const ChunkId& id, std::string_view identity,
                   std::span<const std::byte> body) {
  STOKER_TRY(write_exactly(ops, fd, 0, format_head(id, identity, body)));
  return write_exactly(ops, fd, kChunkHeadBytes, body);
}

Result<ChunkFile> ChunkFile::open(FileOps& ops, const PathAt& path, const ChunkId& id) {
  Result<UniqueFd> fd = ops.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!fd.ok()) {
    if (fd.status().os_error() != ELOOP && fd.status().os_error() != ENXIO) return fd.status();
    return Status(Code::corrupt, path.text() + ": not a regular file");
  }
  struct stat info{};
  if (::fstat(fd->get(), &info) != 0) return Status::from_errno(errno, "fstat", path.text());
  if (!S_ISREG(info.st_mode) || static_cast<std::uint64_t>(info.st_size) != chunk_file_bytes(id))
    return Status(Code::corrupt, path.text() + ": not a regular file of the expected size");
  HeadBytes bytes;
  STOKER_TRY(read_exactly(fd->get(), 0, bytes, path.text()));
  Result<ChunkHead> head = parse_chunk_head(bytes);
  if (!head.ok()) return head.status().with_context(path.text());
  if (head->id != id) return Status(Code::corrupt, path.text() + ": the file of another chunk");
  return ChunkFile(*std::move(fd), *std::move(head));
}

Status ChunkFile::read(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  const std::uint64_t size = head_.id.size_bytes;
  if (out.empty()) return {};
  if (offset_bytes > size || out.size() > size - offset_bytes)
    return Status(Code::invalid_argument, "the range is outside the chunk");
  // One read of whole blocks: what was not asked for, before and after `out`, goes elsewhere.
  const std::uint64_t end = offset_bytes + out.size();
  const std::uint64_t first = offset_bytes / kChunkBlockBytes * kChunkBlockBytes;
  const std::uint64_t last = std::min<std::uint64_t>(
      (end + kChunkBlockBytes - 1) / kChunkBlockBytes * kChunkBlockBytes, size);
  static thread_local std::unique_ptr<std::byte[]> margins;
  if (!margins) margins = std::make_unique_for_overwrite<std::byte[]>(2 * kChunkBlockBytes);
  const std::array<std::span<std::byte>, 3> parts = {
      std::span(margins.get(), static_cast<std::size_t>(offset_bytes - first)), out,
      std::span(margins.get() + kChunkBlockBytes, static_cast<std::size_t>(last - end))};
  std::array<iovec, 3> vectors{};
  std::size_t count = 0;
  for (const std::span<std::byte> part : parts)
    if (!part.empty()) vectors[count++] = {.iov_base = part.data(), .iov_len = part.size()};
  STOKER_TRY(read_parts(fd_.get(), kChunkHeadBytes + first, std::span(vectors).first(count)));

  std::size_t block = first / kChunkBlockBytes;
  std::size_t block_left = std::min<std::size_t>(kChunkBlockBytes, size - first);
  std::uint64_t at = first;
  std::uint32_t crc = 0;
  for (std::span<std::byte> part : parts) {
    while (!part.empty()) {
      const std::size_t step = std::min(block_left, part.size());
      crc = crc32c(part.first(step), crc);
      part = part.subspan(step);
      at += step;
      block_left -= step;
      if (block_left > 0) continue;
      if (crc != head_.block_crc[block])
        return Status(Code::corrupt, "checksum mismatch in block " + std::to_string(block));
      ++block;
      crc = 0;
      block_left = static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBlockBytes, size - at));
    }
  }
  return {};
}

bool ChunkFile::is_named() const {
  struct stat info{};
  return ::fstat(fd_.get(), &info) == 0 && info.st_nlink > 0;
}

Status ChunkFile::verify() const {
  std::vector<std::byte> bytes(head_.id.size_bytes);
  return read(0, bytes);
}

}  // namespace stoker
