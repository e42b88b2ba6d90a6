#include "support/mutant_file_ops.h"

#include <unistd.h>

#include <memory>

namespace stoker::testing {

int MutantFileOps::hit_count() const {
  const MutexLock lock(mutex_);
  return hit_count_;
}

Status MutantFileOps::run(const MutantCall& call, Call perform) {
  const bool is_dropped = drop_ && drop_(call);
  const bool is_deferred = !is_dropped && defer_ && defer_(call);
  if (is_dropped || is_deferred) {
    const MutexLock lock(mutex_);
    ++hit_count_;
    if (is_deferred) deferred_.push_back(std::move(perform));
    return {};
  }
  STOKER_TRY(perform());
  std::vector<Call> due;
  if (until_ && until_(call)) {
    const MutexLock lock(mutex_);
    due.swap(deferred_);
  }
  for (const Call& late : due) static_cast<void>(late());  // its caller has been told OK
  return {};
}

std::string MutantFileOps::path_of(int fd) const {
  const MutexLock lock(mutex_);
  const auto index = static_cast<std::size_t>(fd);
  return fd >= 0 && index < paths_.size() ? paths_[index] : std::string();
}

Status MutantFileOps::run_on(std::string_view op, int fd, Status (FileOps::*perform)(int)) {
  const std::string path = path_of(fd);
  const auto copy = std::make_shared<UniqueFd>(::dup(fd));
  return run({op, path}, [this, copy, perform] { return (target().*perform)(copy->get()); });
}

Result<UniqueFd> MutantFileOps::open(const PathAt& path, int flags) {
  STOKER_ASSIGN(UniqueFd fd, target().open(path, flags));
  const MutexLock lock(mutex_);
  const auto index = static_cast<std::size_t>(fd.get());
  if (index >= paths_.size()) paths_.resize(index + 1);
  paths_[index] = path.text();
  return fd;
}

Status MutantFileOps::fdatasync(int fd) {
  return run_on("fdatasync", fd, &FileOps::fdatasync);
}
Status MutantFileOps::fsync(int fd) {
  return run_on("fsync", fd, &FileOps::fsync);
}

Status MutantFileOps::rename(const PathAt& from, const PathAt& to) {
  return run({"rename", to.text()}, [=, this] { return target().rename(from, to); });
}
Status MutantFileOps::rename_noreplace(const PathAt& from, const PathAt& to) {
  return run({"rename_noreplace", to.text()},
             [=, this] { return target().rename_noreplace(from, to); });
}
Status MutantFileOps::link(const PathAt& from, const PathAt& to) {
  return run({"link", to.text()}, [=, this] { return target().link(from, to); });
}
Status MutantFileOps::unlink(const PathAt& path) {
  return run({"unlink", path.text()}, [=, this] { return target().unlink(path); });
}
Status MutantFileOps::rmdir(const PathAt& path) {
  return run({"rmdir", path.text()}, [=, this] { return target().rmdir(path); });
}
Status MutantFileOps::fsync_dir(const PathAt& path) {
  return run({"fsync_dir", path.text()}, [=, this] { return target().fsync_dir(path); });
}

}  // namespace stoker::testing
