#include "io/engine/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "io/engine/kernel_api.h"

namespace stoker {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

void touch_all(std::span<std::byte> bytes) {
  if (::madvise(bytes.data(), bytes.size(), kMadvPopulateWrite) == 0) return;
  for (std::size_t at = 0; at < bytes.size(); at += 4096) {  // before Linux 5.14
    volatile std::byte* page = bytes.data() + at;
    *page = std::byte{0};
  }
}

/// Returns the number in a line of smaps such as "AnonHugePages:    2048 kB".
std::uint64_t kib_in(std::string_view line) {
  const std::size_t digit = line.find_first_of("0123456789");
  std::uint64_t kib = 0;
  if (digit != std::string_view::npos)
    std::from_chars(line.data() + digit, line.data() + line.size(), kib);
  return kib;
}

/// Whether the kernel backed at least half of this mapping with transparent huge pages, according
/// to smaps. Uses no C++ streams: formatting numbers with them crashed a process in which a Python
/// module had loaded a second libstdc++ next to torch's.
bool has_huge_pages(std::span<const std::byte> bytes) {
  std::array<char, 2 * sizeof(std::uintptr_t) + 1> text{};
  char* const end = std::to_chars(text.begin(), text.end() - 1,
                                  reinterpret_cast<std::uintptr_t>(bytes.data()), 16)
                        .ptr;
  *end = '-';
  const std::string_view first(text.begin(), end + 1);
  std::FILE* const smaps = std::fopen("/proc/self/smaps", "re");
  if (smaps == nullptr) return false;
  bool is_inside = false;
  bool is_huge = false;
  std::array<char, 4096> buffer{};  // a longer line starts with neither prefix
  while (std::fgets(buffer.data(), buffer.size(), smaps) != nullptr) {
    const std::string_view line(buffer.data());
    is_inside = is_inside || line.starts_with(first);
    if (!is_inside || !line.starts_with("AnonHugePages:")) continue;
    is_huge = kib_in(line) * 1024 >= bytes.size() / 2;
    break;
  }
  std::fclose(smaps);
  return is_huge;
}

void* map_anonymous(std::size_t size_bytes, int more_flags) {
  return ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | more_flags, -1, 0);
}

}  // namespace

void advise_huge_pages(std::span<std::byte> bytes) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::size_t head = (kHugePageBytes - begin % kHugePageBytes) % kHugePageBytes;
  if (bytes.size() < head + kHugePageBytes) return;
  // Whole huge pages alone: what lies beside them may not be the caller's.
  const std::size_t size = (bytes.size() - head) / kHugePageBytes * kHugePageBytes;
  ::madvise(bytes.data() + head, size, MADV_HUGEPAGE);
}

Result<MappedArena> MappedArena::map(std::size_t size_bytes, bool huge_pages, bool touch) {
  if (huge_pages) {
    // Huge pages that an administrator has reserved. Populated at once: a hugetlb mapping that
    // cannot be filled raises SIGBUS later.
    void* reserved = map_anonymous(size_bytes, MAP_HUGETLB | MAP_POPULATE);
    if (reserved != MAP_FAILED)
      return MappedArena({static_cast<std::byte*>(reserved), size_bytes}, ArenaPages::hugetlb);
  }
  // One huge page more than needed, so that the arena can start on a boundary.
  const std::size_t slack = huge_pages ? kHugePageBytes : 0;
  void* raw = map_anonymous(size_bytes + slack, 0);
  if (raw == MAP_FAILED)
    return Status(Code::unavailable,
                  "cannot map an arena of " + std::to_string(size_bytes) +
                      " bytes: use a smaller budget or a machine with more memory",
                  errno);
  auto* first = static_cast<std::byte*>(raw);
  const std::size_t head =
      (slack - reinterpret_cast<std::size_t>(raw) % kHugePageBytes) % kHugePageBytes;
  const std::size_t skip = huge_pages ? head : 0;
  if (skip > 0) ::munmap(first, skip);
  if (slack > skip) ::munmap(first + skip + size_bytes, slack - skip);
  const std::span bytes(first + skip, size_bytes);
  if (huge_pages) advise_huge_pages(bytes);
  if (touch) touch_all(bytes);
  const bool granted = huge_pages && touch && has_huge_pages(bytes);
  return MappedArena(bytes, granted ? ArenaPages::transparent_huge : ArenaPages::small);
}

MappedArena::~MappedArena() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

FreeExtents::FreeExtents(std::size_t size_bytes, std::size_t unit_bytes) {
  extents_.reserve(size_bytes / unit_bytes / 2 + 1);  // at most every second unit starts a hole
  extents_.push_back({0, size_bytes});
}

std::size_t FreeExtents::take(std::size_t size_bytes) {
  auto best = extents_.end();
  for (auto it = extents_.begin(); it != extents_.end(); ++it) {
    if (it->size >= size_bytes && (best == extents_.end() || it->size < best->size)) best = it;
  }
  if (best == extents_.end()) return kNone;
  const std::size_t offset = best->offset;
  best->offset += size_bytes;
  best->size -= size_bytes;
  if (best->size == 0) extents_.erase(best);
  return offset;
}

void FreeExtents::give_back(std::size_t offset_bytes, std::size_t size_bytes) {
  const auto next = std::lower_bound(
      extents_.begin(), extents_.end(), offset_bytes,
      [](const Extent& extent, std::size_t offset) { return extent.offset < offset; });
  const bool joins_next = next != extents_.end() && offset_bytes + size_bytes == next->offset;
  const auto before = next == extents_.begin() ? extents_.end() : next - 1;
  if (before != extents_.end() && before->offset + before->size == offset_bytes) {
    before->size += size_bytes + (joins_next ? next->size : 0);
    if (joins_next) extents_.erase(next);
  } else if (joins_next) {
    next->offset = offset_bytes;
    next->size += size_bytes;
  } else {
    extents_.insert(next, {offset_bytes, size_bytes});
  }
}

}  // namespace stoker
