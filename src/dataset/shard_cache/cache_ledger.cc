#include "dataset/shard_cache/cache_ledger.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "base/checksum.h"
#include "io/files/exact_transfer.h"
#include "io/files/lock_file.h"

namespace stoker {
namespace {

constexpr std::array<char, 8> kLedgerMagic = {'S', 'T', 'K', 'L', 'E', 'D', 'G', '1'};

struct RawLedger {
  std::array<char, 8> magic;
  std::uint64_t used_bytes;
  std::uint32_t is_valid;
  std::uint32_t crc32c;  ///< Of the fields before it.
};
static_assert(sizeof(RawLedger) == 24);

std::uint32_t ledger_crc(const RawLedger& raw) {
  return crc32c(std::as_bytes(std::span(&raw, 1)).first(offsetof(RawLedger, crc32c)));
}

}  // namespace

Status lock_until(FileOps& ops, int fd, LockMode mode, Deadline deadline) {
  constexpr std::chrono::microseconds kFirstPause{50};
  constexpr std::chrono::microseconds kLongestPause{2000};
  for (auto pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    const Status locked = ops.try_lock(fd, mode);
    if (locked.code() != Code::unavailable || Clock::now() >= deadline) return locked;
    std::this_thread::sleep_for(pause);
  }
}

Result<CacheLedger> CacheLedger::lock(FileOps& ops, const PathAt& path, Deadline deadline) {
  STOKER_ASSIGN(UniqueFd fd, open_lock_file(ops, path));
  CacheLedger ledger(ops, std::make_unique<ForkClosedFd>(std::move(fd)));
  const int file = ledger.fd_->get();
  STOKER_TRY(lock_until(ops, file, LockMode::exclusive, deadline).with_context(path.text()));
  RawLedger raw{};
  const ssize_t count = ::pread(file, &raw, sizeof raw, 0);
  if (count == static_cast<ssize_t>(sizeof raw) && raw.magic == kLedgerMagic && raw.is_valid == 1 &&
      raw.crc32c == ledger_crc(raw))
    ledger.used_bytes_ = raw.used_bytes;
  STOKER_TRY(ledger.write(false).with_context(path.text()));
  return ledger;
}

Status CacheLedger::write(bool is_valid) {
  RawLedger raw{.magic = kLedgerMagic,
                .used_bytes = used_bytes_.value_or(0),
                .is_valid = is_valid ? 1U : 0U,
                .crc32c = 0};
  raw.crc32c = ledger_crc(raw);
  return write_exactly(*ops_, fd_->get(), 0, std::as_bytes(std::span(&raw, 1)));
}

Status CacheLedger::close() && {
  const Status written = used_bytes_ ? write(true) : Status();
  fd_.reset();
  return written;
}

}  // namespace stoker
