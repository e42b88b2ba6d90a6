#include "io/engine/residency.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "io/engine/kernel_api.h"

namespace stoker {
namespace {

constexpr std::size_t kMincoreStepBytes = std::size_t{1} << 30;  // 256 KiB of results at a time

std::uint64_t page_bytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Returns the size of the part of the range that is inside the file.
Result<std::uint64_t> clamp_to_file(int fd, std::uint64_t offset, std::uint64_t size) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return Status::from_errno(errno, "fstat", "");
  const auto file_size = static_cast<std::uint64_t>(info.st_size);
  if (offset >= file_size) return std::uint64_t{0};
  return size == 0 ? file_size - offset : std::min(size, file_size - offset);
}

/// Counts the cached pages of [offset, offset + size), which must start on a page boundary and be
/// inside the file.
Result<std::uint64_t> count_with_mincore(int fd, std::uint64_t offset, std::size_t size) {
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (map == MAP_FAILED) return Status::from_errno(errno, "mmap", "");
  std::vector<unsigned char> pages((size - 1) / page_bytes() + 1);
  const int result = ::mincore(map, size, pages.data());
  const int error = errno;
  ::munmap(map, size);
  if (result != 0) return Status::from_errno(error, "mincore", "");
  const auto count =
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
  return static_cast<std::uint64_t>(count);
}

}  // namespace

namespace testing {

Result<Residency> residency_by_mincore(int fd, std::uint64_t offset_bytes,
                                       std::uint64_t size_bytes) {
  STOKER_ASSIGN(const std::uint64_t size, clamp_to_file(fd, offset_bytes, size_bytes));
  Residency found{.size_bytes = size};
  const std::uint64_t end = offset_bytes + size;
  for (std::uint64_t at = offset_bytes / page_bytes() * page_bytes(); at < end && size > 0;) {
    const std::size_t step = std::min<std::uint64_t>(kMincoreStepBytes, end - at);
    STOKER_ASSIGN(const std::uint64_t pages, count_with_mincore(fd, at, step));
    found.resident_bytes += pages * page_bytes();
    at += step;
  }
  found.resident_bytes = std::min(found.resident_bytes, size);
  return found;
}

}  // namespace testing

Result<Residency> residency(int fd, std::uint64_t offset_bytes, std::uint64_t size_bytes) {
  STOKER_ASSIGN(const std::uint64_t size, clamp_to_file(fd, offset_bytes, size_bytes));
  if (size == 0) return Residency{.by_cachestat = true};
  CachestatRange range{.offset_bytes = offset_bytes, .size_bytes = size};
  CachestatCounts counts{};
  if (::syscall(kSysCachestat, fd, &range, &counts, 0) == 0)
    return Residency{.resident_bytes = std::min(counts.cached * page_bytes(), size),
                     .size_bytes = size,
                     .by_cachestat = true};
  if (errno != ENOSYS && errno != EPERM && errno != EOPNOTSUPP)
    return Status::from_errno(errno, "cachestat", "");
  return testing::residency_by_mincore(fd, offset_bytes, size);
}

Status evict(int fd) {
  if (::fdatasync(fd) != 0 && errno != EINVAL && errno != EROFS)  // DONTNEED skips dirty pages
    return Status::from_errno(errno, "fdatasync", "");
  const int error = ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  return error == 0 ? Status() : Status::from_errno(error, "posix_fadvise", "");
}

}  // namespace stoker
