#include "bench/disk/cache_state.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "io/engine/residency.h"

namespace stoker {
namespace {

constexpr double kColdShareMax = 0.01;
constexpr double kWarmShareMin = 0.99;
constexpr std::size_t kStepBytes = std::size_t{1} << 20;

std::string percent(double share) {
  return std::to_string(std::lround(share * 100)) + " %";
}

CacheCheck look(const Residency& found) {
  const double share = found.share();
  if (share < kColdShareMax) return {.state = CacheState::cold, .resident_share = share};
  if (share > kWarmShareMin) return {.state = CacheState::warm, .resident_share = share};
  return {.state = CacheState::not_applicable, .resident_share = share};
}

}  // namespace

std::string_view cache_state_name(CacheState state) noexcept {
  switch (state) {
    case CacheState::cold: return "cold";
    case CacheState::warm: return "warm";
    case CacheState::not_applicable: break;
  }
  return "n/a";
}

Result<CacheCheck> make_cold(int fd) {
  STOKER_TRY(evict(fd));
  STOKER_ASSIGN(const Residency found, residency(fd));
  CacheCheck check = look(found);
  if (check.state != CacheState::cold)
    check.note = "not cold: " + percent(check.resident_share) + " stayed in memory after eviction";
  return check;
}

Result<CacheCheck> make_warm(int fd, std::uint64_t range_bytes, BufferPool& pool,
                             const std::stop_token& stop) {
  STOKER_ASSIGN(const Lease lease, pool.try_lease(std::min(kStepBytes, pool.budget_bytes())));
  for (std::uint64_t at = 0; at < range_bytes;) {
    if (stop.stop_requested()) return Status(Code::cancelled, "interrupted");
    const std::size_t size = std::min<std::uint64_t>(lease.bytes().size(), range_bytes - at);
    const ssize_t n = ::pread(fd, lease.bytes().data(), size, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status::from_errno(errno, "read", "");
    if (n == 0) break;
    at += static_cast<std::uint64_t>(n);
  }
  STOKER_ASSIGN(const Residency found, residency(fd, 0, range_bytes));
  CacheCheck check = look(found);
  if (check.state != CacheState::warm)
    check.note = "not warm: only " + percent(check.resident_share) + " stayed in memory";
  return check;
}

}  // namespace stoker
