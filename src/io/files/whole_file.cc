#include "io/files/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "base/unique_fd.h"
#include "io/engine/residency.h"
#include "io/files/filesystem.h"

namespace stoker {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::align_val_t kAlign{kPageBytes};
/// Below this size a buffered read costs no more than a direct one.
constexpr std::uint64_t kDirectBytesMin = 16 << 10;

constexpr std::size_t round_up(std::size_t value) {
  return (value + kPageBytes - 1) / kPageBytes * kPageBytes;
}

/// Sets or clears O_DIRECT. Returns false if the filesystem does not support it.
bool set_direct(int fd, bool is_direct) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return false;
  return ::fcntl(fd, F_SETFL, is_direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

bool is_cold(int fd, std::uint64_t size_bytes) {
  const Result<Residency> cached = residency(fd, 0, size_bytes);
  return cached.ok() && cached->resident_bytes * 2 <= cached->size_bytes;
}

}  // namespace

void FileMemory::Free::operator()(std::byte* memory) const noexcept {
  ::operator delete(memory, kAlign);
}

std::span<std::byte> FileMemory::get(std::size_t size_bytes) {
  const std::size_t size = round_up(size_bytes);
  if (capacity_bytes_ < size) {
    memory_.reset();  // before the larger block is allocated
    memory_.reset(static_cast<std::byte*>(::operator new(size, kAlign)));
    capacity_bytes_ = size;
  }
  return {memory_.get(), size};
}

WholeFileReader::WholeFileReader(const std::string& directory) {
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return;  // read() will report the error
  const Result<FilesystemKind> kind = filesystem_of(fd.get());
  direct_pays_ = kind.ok() && kind->local_block;
}

Result<std::span<std::byte>> WholeFileReader::read(const std::string& path,
                                                   std::uint64_t size_bytes,
                                                   FileMemory& memory) const {
  // O_NONBLOCK: do not wait for a FIFO that has replaced the file; it reads as empty.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return Status::from_errno(errno, "open", path);
  bool is_direct = direct_pays_ && size_bytes >= kDirectBytesMin && is_cold(fd.get(), size_bytes) &&
                   set_direct(fd.get(), true);
  // Room for one byte more reveals a longer file without another call.
  const std::span<std::byte> room = memory.get(size_bytes + 1);
  std::uint64_t found = 0;
  while (found <= size_bytes) {
    const ssize_t n =
        ::pread(fd.get(), room.data() + found, room.size() - found, static_cast<off_t>(found));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EINVAL && is_direct && set_direct(fd.get(), false)) {
      is_direct = false;
      continue;
    }
    if (n < 0) return Status::from_errno(errno, "read", path);
    if (n == 0) break;
    found += static_cast<std::uint64_t>(n);
    // A short read means the end of the file or a signal. At the expected end no further call is
    // needed. A cut before it is rare, and may stop where direct reads cannot continue.
    if (found == size_bytes) break;
    if (is_direct && found < size_bytes) is_direct = !set_direct(fd.get(), false);
  }
  return room.first(std::min(found, size_bytes + 1));
}

}  // namespace stoker
