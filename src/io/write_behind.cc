#include "io/write_behind.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/files/file.h"
#include "io/files/filesystem.h"

namespace stoker {

WriteBehind::~WriteBehind() {
  {
    MutexLock lock(mutex_);
    is_last_ = true;
    handed_ = written_;
  }
  changed_.notify_all();
}

std::span<std::byte> WriteBehind::block(std::uint64_t number) const {
  return memory_->bytes().subspan(number % kBlockCount * kBlockBytes, kBlockBytes);
}

Status WriteBehind::append(std::span<const std::byte> bytes) {
  if (!memory_) {
    STOKER_ASSIGN(MappedArena memory, MappedArena::map(kBlockCount * kBlockBytes,
                                                       /*huge_pages=*/false, /*touch=*/false));
    memory_.emplace(std::move(memory));
  }
  while (!bytes.empty()) {
    if (used_bytes_ == kBlockBytes) STOKER_TRY(hand_over());
    const std::size_t size = std::min(bytes.size(), kBlockBytes - used_bytes_);
    std::memcpy(block(handed_bytes_ / kBlockBytes).data() + used_bytes_, bytes.data(), size);
    used_bytes_ += size;
    bytes = bytes.subspan(size);
  }
  return {};
}

/// Passes the full block to the thread, and waits until there is a free one to fill.
Status WriteBehind::hand_over() {
  if (!thread_.joinable()) {
    begin_direct();
    thread_ = std::jthread([this] { work(); });
  }
  handed_bytes_ += kBlockBytes;
  used_bytes_ = 0;
  {
    MutexLock lock(mutex_);
    ++handed_;
  }
  changed_.notify_all();
  MutexLock lock(mutex_);
  while (handed_ - written_ == kBlockCount && failure_.ok()) changed_.wait(mutex_);
  return failure_;
}

/// Called before the first byte is written: a file is written through one path from start to end.
/// Setting the flag does not affect durability, so it does not go through FileOps.
void WriteBehind::begin_direct() {
  const Result<FilesystemKind> kind = filesystem_of(fd_.get());
  if (!kind.ok() || !kind->local_block) return;
  const Result<DirectAlignment> alignment = direct_alignment_of(fd_.get());
  constexpr std::uint32_t kPageBytes = 4096;  // the alignment of the blocks
  if (!alignment.ok() || kPageBytes % alignment->memory_bytes != 0 ||
      kPageBytes % alignment->offset_bytes != 0)
    return;
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd_.get(), F_SETFL, flags | O_DIRECT) != 0) return;
  direct_unit_bytes_ = alignment->offset_bytes;
}

void WriteBehind::work() {
  for (std::uint64_t number = 0;; ++number) {
    {
      MutexLock lock(mutex_);
      while (handed_ == number && !is_last_) changed_.wait(mutex_);
      if (handed_ <= number) return;
    }
    Status status = write_block(block(number), number * kBlockBytes);
    const bool has_failed = !status.ok();
    {
      MutexLock lock(mutex_);
      ++written_;
      failure_ = std::move(status);
    }
    changed_.notify_all();
    if (has_failed) return;
  }
}

/// Writes a block. A short direct write continues from the last whole unit.
Status WriteBehind::write_block(std::span<const std::byte> block, std::uint64_t offset_bytes) {
  const std::size_t unit = std::max<std::size_t>(direct_unit_bytes_, 1);
  for (std::size_t done = 0; done < block.size();) {
    const Result<std::size_t> moved =
        ops_.pwrite(fd_.get(), block.subspan(done), offset_bytes + done);
    if (!moved.ok() && moved.status().os_error() == EINTR) continue;  // nothing was written
    STOKER_TRY(moved.status());
    const std::size_t next =
        done + *moved == block.size() ? block.size() : (done + *moved) / unit * unit;
    if (next == done) return Status(Code::io_error, "pwrite wrote nothing");
    done = next;
  }
  return {};
}

Result<UniqueFd> WriteBehind::finish() {
  if (thread_.joinable()) {
    {
      MutexLock lock(mutex_);
      is_last_ = true;
    }
    changed_.notify_all();
    thread_.join();
    MutexLock lock(mutex_);
    STOKER_TRY(failure_);
  }
  if (used_bytes_ == 0) return std::move(fd_);
  const std::size_t unit = std::max<std::size_t>(direct_unit_bytes_, 1);
  const std::size_t padded = (used_bytes_ + unit - 1) / unit * unit;
  const std::span<std::byte> tail = block(handed_bytes_ / kBlockBytes).first(padded);
  std::memset(tail.data() + used_bytes_, 0, padded - used_bytes_);
  STOKER_TRY(write_block(tail, handed_bytes_));
  if (padded != used_bytes_) STOKER_TRY(ops_.ftruncate(fd_.get(), size_bytes()));
  return std::move(fd_);
}

}  // namespace stoker
