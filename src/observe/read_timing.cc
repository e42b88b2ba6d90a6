#include "observe/read_timing.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <random>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace stoker {
namespace {

constexpr std::size_t kReadBytes = 4096;
constexpr std::size_t kReadsMax = 64;
constexpr std::chrono::milliseconds kTimeMax{250};
/// In a shorter file a rotating disk hardly moves its heads, and its cache may contain all of it.
constexpr std::uint64_t kSpanMin = std::uint64_t{64} << 20;
constexpr std::uint64_t kStatBlockBytes = 512;

/// Returns the number of blocks of kReadBytes; `invalid_argument` if the file cannot be measured.
Result<std::uint64_t> count_blocks(int fd, const std::string& path) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return Status::from_errno(errno, "fstat", path);
  if (!S_ISBLK(info.st_mode) && !S_ISREG(info.st_mode))
    return Status(Code::invalid_argument, path + ": neither a block device nor a regular file");
  const off_t size = ::lseek(fd, 0, SEEK_END);  // also works for a block device
  if (size < 0) return Status::from_errno(errno, "lseek", path);
  const auto bytes = static_cast<std::uint64_t>(size);
  // Reads of holes do not reach the device.
  const bool is_sparse =
      S_ISREG(info.st_mode) && static_cast<std::uint64_t>(info.st_blocks) * kStatBlockBytes < bytes;
  if (bytes < kSpanMin || is_sparse)
    return Status(Code::invalid_argument, path + ": too small or too sparse to measure reads");
  return bytes / kReadBytes;
}

}  // namespace

Result<ReadTiming> time_random_reads(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return Status::from_errno(errno, "open", path);
  STOKER_ASSIGN(const std::uint64_t block_count, count_blocks(fd.get(), path));

  // Other offsets each time: those of the last run may be in the drive's cache.
  std::mt19937_64 random(static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()));
  std::uniform_int_distribution<std::uint64_t> block(0, block_count - 1);
  alignas(kReadBytes) std::array<std::byte, kReadBytes> buffer;
  std::vector<nanoseconds> times;
  const Deadline deadline = deadline_after(kTimeMax);
  while (times.size() < kReadsMax && Clock::now() < deadline) {
    const auto began = Clock::now();
    const ssize_t count = ::pread(fd.get(), buffer.data(), buffer.size(),
                                  static_cast<off_t>(block(random) * kReadBytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Status::from_errno(errno, "read", path);
    times.push_back(Clock::now() - began);
  }
  if (times.empty()) return Status(Code::unavailable, path + ": no read finished in time");
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return ReadTiming{.count = static_cast<std::uint32_t>(times.size()), .median = *middle};
}

}  // namespace stoker
