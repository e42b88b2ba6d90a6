#include "support/disk_tape.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

namespace stoker::testing {

namespace {

constexpr std::uint64_t kStretchBytes = 64 << 10;

UniqueFd memory_file(std::size_t size_bytes) {
  UniqueFd fd(::memfd_create("stoker-disk", MFD_CLOEXEC));
  if (::ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0) std::abort();
  return fd;
}

}  // namespace

MappedMemory::MappedMemory(std::size_t size_bytes, int fd) {
  const int kind = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* memory = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, kind, fd, 0);
  if (memory == MAP_FAILED) std::abort();  // a test cannot continue without
  bytes_ = {static_cast<std::byte*>(memory), size_bytes};
}

MappedMemory::~MappedMemory() {
  ::munmap(bytes_.data(), bytes_.size());
}

MemoryFile::MemoryFile(std::size_t size_bytes)
    : fd_(memory_file(size_bytes)), memory_(size_bytes, fd_.get()) {}

DiskTape::DiskTape(std::size_t size_bytes)
    : image_(size_bytes),
      kept_(size_bytes),
      shared_(sizeof(Shared)),
      entries_(kEventsMax * sizeof(Entry)),
      data_(kDataBytesMax) {
  new (shared_.bytes().data()) Shared;
}

DiskTape::Shared& DiskTape::shared() const {
  return *std::launder(reinterpret_cast<Shared*>(shared_.bytes().data()));
}

std::span<DiskTape::Entry> DiskTape::entries() const {
  return {reinterpret_cast<Entry*>(entries_.bytes().data()), kEventsMax};
}

bool DiskTape::fails(std::atomic<std::int64_t>& countdown) {
  const bool is_broken = shared().is_sticky && shared().failed_count > 0;
  if (!is_broken && (countdown == kNever || countdown-- > 0)) return false;
  ++shared().failed_count;
  return true;
}

void DiskTape::break_down(std::int64_t after) {
  shared().is_sticky = true;
  fail_write(after);
}

void DiskTape::heal() {
  shared().is_sticky = false;
  fail_write(kNever);
  fail_flush(kNever);
  shared().failed_count = 0;
}

bool DiskTape::put(std::uint64_t offset_bytes, std::span<const std::byte> data) {
  const std::uint64_t number = shared().event_count;
  const std::uint64_t data_at = shared().data_bytes;
  if (number == kEventsMax || data.size() > kDataBytesMax - data_at) return false;
  std::ranges::copy(data, data_.bytes().subspan(data_at).begin());
  entries()[number] = {offset_bytes, data.size(), data_at};
  shared().data_bytes = data_at + data.size();
  shared().event_count = number + 1;
  return true;
}

int DiskTape::write(std::uint64_t offset_bytes, std::span<const std::byte> data) {
  if (fails(shared().write_countdown)) return EIO;
  if (offset_bytes > size_bytes() || data.size() > size_bytes() - offset_bytes) return ENOSPC;
  if (data.empty()) return 0;
  if (!put(offset_bytes, data)) return ENOSPC;  // of the tape
  std::ranges::copy(data, image().subspan(offset_bytes).begin());
  return 0;
}

int DiskTape::flush() {
  if (fails(shared().flush_countdown)) return EIO;
  return put(0, {}) ? 0 : ENOSPC;
}

std::vector<DiskEvent> DiskTape::events() const {
  std::vector<DiskEvent> events;
  for (const Entry& entry : entries().first(event_count())) {
    const std::span<const std::byte> data = data_.bytes().subspan(entry.data_at, entry.size_bytes);
    events.push_back({entry.offset_bytes, {data.begin(), data.end()}});
  }
  return events;
}

void DiskTape::settle(std::uint64_t offset_bytes, std::span<const std::byte> data) {
  lay(offset_bytes, data);
  std::ranges::copy(data, kept_.bytes().subspan(offset_bytes).begin());
}

void DiskTape::lay(std::uint64_t offset_bytes, std::span<const std::byte> data) {
  std::ranges::copy(data, image().subspan(offset_bytes).begin());
}

void DiskTape::copy_changes(std::span<const std::byte> from, std::span<std::byte> to) {
  off_t end = 0;
  for (off_t at = ::lseek(image_fd(), 0, SEEK_DATA); at >= 0;
       at = ::lseek(image_fd(), end, SEEK_DATA)) {
    end = ::lseek(image_fd(), at, SEEK_HOLE);
    for (auto n = static_cast<std::uint64_t>(at) / kStretchBytes;
         n * kStretchBytes < static_cast<std::uint64_t>(end); ++n)
      stretches_.insert(n);
  }
  for (const std::uint64_t n : stretches_) {
    const std::uint64_t offset = n * kStretchBytes;
    const std::size_t size = std::min<std::size_t>(kStretchBytes, size_bytes() - offset);
    if (std::memcmp(from.data() + offset, to.data() + offset, size) != 0)
      std::memcpy(to.data() + offset, from.data() + offset, size);
  }
  shared().event_count = 0;
  shared().data_bytes = 0;
}

void DiskTape::keep() {
  copy_changes(image(), kept_.bytes());
}
void DiskTape::undo() {
  copy_changes(kept_.bytes(), image());
}

}  // namespace stoker::testing
