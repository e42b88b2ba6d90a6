#include "fuzz/memory_file_ops.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace stoker {

MemoryFileOps::MemoryFileOps() : memory_(::memfd_create("stoker-fuzz", MFD_CLOEXEC)) {
  if (!memory_) std::abort();
}

CheckpointDirectory MemoryFileOps::directory() {
  // Only a placeholder: no name is looked up in it.
  const Result<CheckpointDirectory> place = CheckpointDirectory::open(posix_file_ops(), "/");
  if (!place.ok()) std::abort();
  return place->with(*this);
}

void MemoryFileOps::clear() {
  files_.clear();
  open_.clear();
}

void MemoryFileOps::write(std::string_view name, std::string_view text) {
  const auto file = std::make_shared<File>();
  file->inode = ++last_inode_;
  file->text = text;
  files_.insert_or_assign(std::string(name), file);
}

std::optional<std::string> MemoryFileOps::find(std::string_view name) const {
  const auto found = files_.find(name);
  return found == files_.end() ? std::nullopt : std::optional(found->second->text);
}

Status MemoryFileOps::unasked() {
  std::abort();
}

void MemoryFileOps::fill(const std::string& text) {
  const auto size = static_cast<ssize_t>(text.size());
  if (::pwrite(memory_.get(), text.data(), text.size(), 0) != size) std::abort();
  if (text.size() < memory_bytes_ && ::ftruncate(memory_.get(), size) != 0) std::abort();
  memory_bytes_ = text.size();
}

Result<UniqueFd> MemoryFileOps::open(const PathAt& path, int flags) {
  auto found = files_.find(path.name());
  if (found == files_.end()) {
    if ((flags & O_CREAT) == 0) return Status::from_errno(ENOENT, "open", path.text());
    write(path.name(), "");
    found = files_.find(path.name());
  } else if ((flags & O_EXCL) != 0) {
    return Status::from_errno(EEXIST, "open", path.text());
  }
  if ((flags & O_ACCMODE) == O_RDONLY) fill(found->second->text);
  UniqueFd fd(::fcntl(memory_.get(), F_DUPFD_CLOEXEC, 0));
  if (!fd) std::abort();
  const auto at = static_cast<std::size_t>(fd.get());
  if (open_.size() <= at) open_.resize(at + 1);
  open_[at] = found->second;
  return fd;
}

Result<std::size_t> MemoryFileOps::pwrite(int fd, std::span<const std::byte> data,
                                          std::uint64_t offset_bytes) {
  std::string& text = open_[static_cast<std::size_t>(fd)]->text;
  if (text.size() < offset_bytes + data.size()) text.resize(offset_bytes + data.size());
  if (!data.empty()) std::memcpy(text.data() + offset_bytes, data.data(), data.size());
  return data.size();
}

Status MemoryFileOps::close(UniqueFd fd) {
  fd = UniqueFd();
  return {};
}

Status MemoryFileOps::rename(const PathAt& from, const PathAt& to) {
  const auto found = files_.find(from.name());
  if (found == files_.end()) return Status::from_errno(ENOENT, "rename", from.text());
  std::shared_ptr<File> file = std::move(found->second);
  files_.erase(found);
  files_.insert_or_assign(std::string(to.name()), std::move(file));
  return {};
}

Result<std::string> MemoryFileOps::read_link(const PathAt& path) {
  return Status::from_errno(files_.contains(path.name()) ? EINVAL : ENOENT, "readlink",
                            path.text());
}

Result<FileInfo> MemoryFileOps::info_of(const PathAt& path) {
  const auto found = files_.find(path.name());
  if (found == files_.end()) return Status::from_errno(ENOENT, "lstat", path.text());
  return FileInfo{.kind = FileKind::regular,
                  .device = 1,
                  .inode = found->second->inode,
                  .link_count = 1,
                  .size_bytes = found->second->text.size(),
                  .modified_ns = 1};
}

Status MemoryFileOps::unlink(const PathAt& path) {
  const auto found = files_.find(path.name());
  if (found == files_.end()) return Status::from_errno(ENOENT, "unlink", path.text());
  files_.erase(found);
  return {};
}

Status MemoryFileOps::mkdir(const PathAt& /*path*/) {
  return {};
}

Status MemoryFileOps::rmdir(const PathAt& /*path*/) {
  return {};
}

Result<std::vector<DirectoryName>> MemoryFileOps::list_names(const PathAt& path) {
  const std::string prefix = path.name().empty() ? "" : std::string(path.name()) + "/";
  std::vector<DirectoryName> names;
  for (auto file = files_.lower_bound(prefix); file != files_.end(); ++file) {
    if (!file->first.starts_with(prefix)) break;
    const std::string_view rest = std::string_view(file->first).substr(prefix.size());
    const std::size_t slash = rest.find('/');
    const std::string_view name = rest.substr(0, slash);
    if (!names.empty() && names.back().name == name) continue;
    const bool is_directory = slash != std::string_view::npos;
    names.push_back({.name = std::string(name),
                     .inode = file->second->inode,
                     .kind = is_directory ? FileKind::directory : FileKind::regular});
  }
  return names;
}

Status MemoryFileOps::try_lock(int fd, LockMode mode) {
  File& file = *open_[static_cast<std::size_t>(fd)];
  if (file.is_locked) return Status::from_errno(EWOULDBLOCK, "flock", "memory");
  file.is_locked = mode == LockMode::exclusive;
  return {};
}

}  // namespace stoker
