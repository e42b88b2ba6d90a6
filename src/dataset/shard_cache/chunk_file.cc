#include "dataset/shard_cache/chunk_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/checksum.h"
#include "base/rounding.h"
#include "io/engine/residency.h"
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

/// Of reads past the page cache, and of the memory for them.
constexpr std::size_t kDirectBytes = 4096;
constexpr std::size_t kBlocksMax = ChunkId::kSizeMax / kChunkBlockBytes;
constexpr std::size_t kIdentityBytesMax = 1024;
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

/// Returns the bytes read past the page cache, or a negative errno: -EINVAL if this file cannot be
/// read so.
std::int64_t read_direct(const ChunkFile::DirectRead& read, std::span<std::byte> room) {
  for (std::size_t done = 0;;) {
    const ssize_t count = ::pread(read.fd, room.data() + done, read.room_bytes - done,
                                  static_cast<off_t>(read.offset_bytes + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -errno;
    done += static_cast<std::size_t>(count);
    const bool is_end = count == 0 || done % kDirectBytes != 0;
    if (done >= read.size_bytes || is_end) return static_cast<std::int64_t>(done);
  }
}

/// Memory of a thread, for the blocks of one piece or for the margins of a read.
class Scratch {
 public:
  std::byte* get() {
    if (!memory_)
      memory_.reset(static_cast<std::byte*>(
          ::operator new(kChunkPieceBytes, std::align_val_t(kDirectBytes))));
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept {
      ::operator delete(memory, std::align_val_t(kDirectBytes));
    }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

/// Opens the file once more, past the page cache. Empty if that is not possible.
UniqueFd open_direct(FileOps& ops, const PathAt& path, const struct stat& file) {
  Result<UniqueFd> fd = ops.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_DIRECT);
  struct stat found{};
  const bool is_it = fd.ok() && ::fstat(fd->get(), &found) == 0 && found.st_dev == file.st_dev &&
                     found.st_ino == file.st_ino;
  return is_it ? *std::move(fd) : UniqueFd();
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
  UniqueFd direct = open_direct(ops, path, info);
  // No read-ahead behind the head: the body is read past the page cache.
  if (direct) static_cast<void>(::posix_fadvise(fd->get(), 0, 0, POSIX_FADV_RANDOM));
  HeadBytes bytes;
  STOKER_TRY(read_exactly(fd->get(), 0, bytes, path.text()));
  Result<ChunkHead> head = parse_chunk_head(bytes);
  if (!head.ok()) return head.status().with_context(path.text());
  if (head->id != id) return Status(Code::corrupt, path.text() + ": the file of another chunk");
  return ChunkFile(*std::move(fd), std::move(direct), *std::move(head));
}

/// Reads in pieces, whose blocks are still in the CPU's cache when they are checked and copied.
Status ChunkFile::read(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  const std::uint64_t size = head_.id.size_bytes;
  if (offset_bytes > size || out.size() > size - offset_bytes)
    return Status(Code::invalid_argument, "the range is outside the chunk");
  while (!out.empty()) {
    const std::size_t piece =
        std::min(out.size(), kChunkPieceBytes - offset_bytes % kChunkPieceBytes);
    STOKER_TRY(read_piece(offset_bytes, out.first(piece)));
    offset_bytes += piece;
    out = out.subspan(piece);
  }
  return {};
}

std::optional<ChunkFile::DirectRead> ChunkFile::plan_direct(std::uint64_t offset_bytes,
                                                            std::size_t size_bytes) const {
  const std::uint64_t end = offset_bytes + size_bytes;
  if (!direct_ || size_bytes == 0 || end > head_.id.size_bytes) return std::nullopt;
  const std::uint64_t first = round_down(offset_bytes, kChunkBlockBytes);
  const auto size = static_cast<std::size_t>(
      std::min<std::uint64_t>(round_up(end, kChunkBlockBytes), head_.id.size_bytes) - first);
  const Result<Residency> cached = residency(fd_.get(), kChunkHeadBytes + first, size);
  if (cached.ok() && cached->resident_bytes * 2 > cached->size_bytes) return std::nullopt;
  return DirectRead{.fd = direct_.get(),
                    .offset_bytes = kChunkHeadBytes + first,
                    .room_bytes = static_cast<std::size_t>(round_up(size, kDirectBytes)),
                    .first = first,
                    .size_bytes = size};
}

Status ChunkFile::finish_direct(const DirectRead& read, std::int64_t result,
                                std::span<std::byte> room, std::uint64_t offset_bytes,
                                std::span<std::byte> out) const {
  if (result < 0) return Status::from_errno(static_cast<int>(-result), "read", "chunk");
  if (result < static_cast<std::int64_t>(read.size_bytes))
    return Status(Code::corrupt, "the chunk file is shorter than it says");
  const std::span<std::byte> blocks = room.first(read.size_bytes);
  STOKER_TRY(check_blocks(read.first, {&blocks, 1}));
  std::memcpy(out.data(), blocks.data() + (offset_bytes - read.first), out.size());
  return {};
}

/// Reads whole blocks. Fresh pages of the page cache cost most of the time of a buffered read, so
/// what is not there is read past it.
Status ChunkFile::read_piece(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  const std::uint64_t end = offset_bytes + out.size();
  const std::uint64_t first = round_down(offset_bytes, kChunkBlockBytes);
  const std::uint64_t last =
      std::min<std::uint64_t>(round_up(end, kChunkBlockBytes), head_.id.size_bytes);
  static thread_local Scratch scratch;
  std::byte* const memory = scratch.get();
  if (const std::optional<DirectRead> direct = plan_direct(offset_bytes, out.size())) {
    const std::span<std::byte> room(memory, direct->room_bytes);
    const std::int64_t result = read_direct(*direct, room);
    if (result != -EINVAL) return finish_direct(*direct, result, room, offset_bytes, out);
  }
  // What was not asked for, before and after `out`, goes elsewhere.
  const std::array<std::span<std::byte>, 3> parts = {
      std::span(memory, static_cast<std::size_t>(offset_bytes - first)), out,
      std::span(memory + kChunkBlockBytes, static_cast<std::size_t>(last - end))};
  std::array<iovec, 3> vectors{};
  std::size_t count = 0;
  for (const std::span<std::byte> part : parts)
    if (!part.empty()) vectors[count++] = {.iov_base = part.data(), .iov_len = part.size()};
  STOKER_TRY(read_parts(fd_.get(), kChunkHeadBytes + first, std::span(vectors).first(count)));
  return check_blocks(first, parts);
}

/// Checks blocks that were read to `parts`, one after the other.
Status ChunkFile::check_blocks(std::uint64_t offset_bytes,
                               std::span<const std::span<std::byte>> parts) const {
  const auto left_in_block = [&](std::uint64_t at) {
    return static_cast<std::size_t>(
        std::min<std::uint64_t>(kChunkBlockBytes, head_.id.size_bytes - at));
  };
  std::uint64_t at = offset_bytes;
  std::size_t block_left = left_in_block(at);
  std::uint32_t crc = 0;
  for (std::span<std::byte> part : parts) {
    while (!part.empty()) {
      const std::size_t step = std::min(block_left, part.size());
      crc = crc32c(part.first(step), crc);
      part = part.subspan(step);
      at += step;
      block_left -= step;
      if (block_left > 0) continue;
      const auto block = static_cast<std::size_t>((at - 1) / kChunkBlockBytes);
      if (crc != head_.block_crc[block])
        return Status(Code::corrupt, "checksum mismatch in block " + std::to_string(block));
      crc = 0;
      block_left = left_in_block(at);
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
