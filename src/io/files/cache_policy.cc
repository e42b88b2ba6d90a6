#include "io/files/cache_policy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <optional>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "io/engine/arena.h"
#include "io/engine/residency.h"
#include "io/files/filesystem.h"

namespace stoker {
namespace {

struct PolicyName {
  CachePolicy policy;
  std::string_view name;
  std::string_view other_name;  // accepted as well
};
constexpr std::array kPolicyNames = {
    PolicyName{CachePolicy::automatic, "automatic", "auto"},
    PolicyName{CachePolicy::buffered, "buffered", "buffered"},
    PolicyName{CachePolicy::direct, "direct", "direct"},
    PolicyName{CachePolicy::drop_behind, "drop_behind", "drop-behind"}};

constexpr std::size_t kTrialBytes = DirectAdvisor::kReadTrialBytes / 2;  // each way

/// Returns how long `transfer` took; nullopt if it did not move all its bytes.
std::optional<nanoseconds> timed(const std::function<bool()>& transfer) {
  const Deadline start = Clock::now();
  if (!transfer()) return std::nullopt;
  return Clock::now() - start;
}

bool is_faster(std::optional<nanoseconds> direct, std::optional<nanoseconds> buffered) {
  return direct && (!buffered || *direct < *buffered);
}

bool read_trial(int fd, std::span<std::byte> buffer, std::uint64_t offset) {
  return ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(offset)) ==
         std::ssize(buffer);
}

/// Opens a nameless file in `directory`, so that nothing is left behind, even after a crash.
UniqueFd open_scratch(const std::string& directory, int flags) {
  UniqueFd fd(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600));
  if (fd) return fd;
  std::string name = directory + "/.stoker-trial-XXXXXX";  // filesystems without O_TMPFILE
  fd = UniqueFd(::mkostemp(name.data(), O_CLOEXEC | flags));
  if (fd) ::unlink(name.c_str());
  return fd;
}

bool write_trial(const std::string& directory, int flags, std::span<std::byte> buffer) {
  const UniqueFd fd = open_scratch(directory, flags);
  return fd && ::pwrite(fd.get(), buffer.data(), buffer.size(), 0) == std::ssize(buffer) &&
         ::fdatasync(fd.get()) == 0;
}

/// Returns the answer if no trial is needed: true on local disks, false on memory filesystems.
std::optional<bool> known_answer(int fd) {
  const Result<FilesystemKind> kind = filesystem_of(fd);
  if (!kind.ok()) return false;
  if (kind->local_block) return true;
  if (kind->name == "tmpfs" || kind->name == "ramfs") return false;
  return std::nullopt;
}

Result<struct stat> stat_of(int fd) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return Status::from_errno(errno, "fstat", "");
  return info;
}

}  // namespace

std::string_view cache_policy_name(CachePolicy policy) noexcept {
  for (const PolicyName& row : kPolicyNames)
    if (row.policy == policy) return row.name;
  return "unknown";
}

Result<CachePolicy> parse_cache_policy(std::string_view name) {
  for (const PolicyName& row : kPolicyNames)
    if (row.name == name || row.other_name == name) return row.policy;
  return Status(Code::invalid_argument, "unknown policy \"" + std::string(name) +
                                            "\": use automatic, buffered, direct or drop_behind");
}

std::string_view io_path_name(IoPath path) noexcept {
  switch (path) {
    case IoPath::buffered: return "buffered";
    case IoPath::direct: return "direct";
    case IoPath::dont_cache: return "dontcache";
    case IoPath::fadvise_drop: return "fadvise";
  }
  return "unknown";
}

bool DirectAdvisor::pays_for_reads(int buffered_fd, int direct_fd) {
  if (const auto known = known_answer(buffered_fd)) return *known;
  const Result<struct stat> info = stat_of(buffered_fd);
  if (!info.ok()) return false;
  {
    MutexLock lock(mutex_);
    if (const auto found = reads_.find(info->st_dev); found != reads_.end()) return found->second;
  }
  const Result<Residency> cached = residency(buffered_fd, 0, kReadTrialBytes);
  const bool is_cold = cached.ok() && cached->resident_bytes == 0;
  Result<MappedArena> memory = MappedArena::map(kTrialBytes, false, true);
  if (info->st_size < static_cast<off_t>(kReadTrialBytes) || !is_cold || !memory.ok()) return false;
  const std::span<std::byte> buffer = memory->bytes();
  const bool pays = is_faster(timed([&] { return read_trial(direct_fd, buffer, 0); }),
                              timed([&] { return read_trial(buffered_fd, buffer, kTrialBytes); }));
  MutexLock lock(mutex_);
  return reads_[info->st_dev] = pays;
}

bool DirectAdvisor::pays_for_writes(const std::string& directory) {
  const UniqueFd dir(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir) return false;
  if (const auto known = known_answer(dir.get())) return *known;
  const Result<struct stat> info = stat_of(dir.get());
  Result<MappedArena> memory = MappedArena::map(kTrialBytes, false, true);
  if (!info.ok() || !memory.ok()) return false;
  {
    MutexLock lock(mutex_);
    if (const auto found = writes_.find(info->st_dev); found != writes_.end()) return found->second;
  }
  const std::span<std::byte> buffer = memory->bytes();
  const bool pays = is_faster(timed([&] { return write_trial(directory, O_DIRECT, buffer); }),
                              timed([&] { return write_trial(directory, 0, buffer); }));
  MutexLock lock(mutex_);
  return writes_[info->st_dev] = pays;
}

}  // namespace stoker
