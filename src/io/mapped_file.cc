#include "io/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/files/regular_file.h"

namespace stoker {
namespace {

int advice_number(MapAdvice advice) {
  switch (advice) {
    case MapAdvice::sequential: return MADV_SEQUENTIAL;
    case MapAdvice::random: return MADV_RANDOM;
    case MapAdvice::normal: break;
  }
  return MADV_NORMAL;
}

}  // namespace

Result<MappedFile> MappedFile::open(const PathAt& path, MapAdvice advice) {
  STOKER_ASSIGN(UniqueFd fd, open_regular(posix_file_ops(), path));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return Status::from_errno(errno, "fstat", path.text());
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return MappedFile(std::move(fd), {});
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (map == MAP_FAILED) return Status::from_errno(errno, "mmap", path.text());
  ::madvise(map, size, advice_number(advice));
  return MappedFile(std::move(fd), {static_cast<std::byte*>(map), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Status MappedFile::will_need(std::uint64_t offset_bytes, std::size_t size_bytes) const {
  if (offset_bytes > bytes_.size() || size_bytes > bytes_.size() - offset_bytes)
    return Status(Code::invalid_argument, "will_need: the range extends past the end of the file");
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t start = offset_bytes / page * page;
  std::byte* first = bytes_.data() + start;
  if (::madvise(first, offset_bytes + size_bytes - start, MADV_WILLNEED) == 0) return {};
  return Status::from_errno(errno, "madvise", "");
}

}  // namespace stoker
