#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "io/engine/engine.h"
#include "io/files/file_ops.h"
#include "support/model_state.h"
#include "support/power_cut.h"

namespace stoker::testing {

/// A disk in memory that keeps what is durable apart from what is not, bytes and names: FileOps and
/// Engine over one state, so that a power cut can be tried between any two calls. What a cut may
/// take is said in ModelFile and ModelNames.
///
/// Descriptors are real: each file's live bytes lie in a memfd, and open() opens that, so fstat,
/// pread, mmap and any engine's reads work on them, flock(2) is the kernel's own, and closing needs
/// no word to us. A descriptor is known by its inode number, so a number used again is no riddle.
/// Paths are not: only this class knows them, and they begin at the model's own root.
///
/// What it does not do: O_APPEND, O_TMPFILE, opening a directory other than with O_DIRECTORY, and
/// permissions. A write that goes past FileOps and Engine is seen by readers and never durable.
///
/// Thread safety: every method from any thread.
class ModelDisk final : public FileOps {
 public:
  /// Sees the state after each call, while no other call can change it; must not call back.
  using Watcher = std::function<void(const ModelState& state, const std::string& operation)>;

  explicit ModelDisk(ModelState state = {}) : state_(std::move(state)) {}

  void watch(Watcher watcher);
  ModelState snapshot() const;
  /// The states that a cut may leave at this moment. Locks and descriptors are in none of them.
  std::vector<CutState> cut(const CutOptions& options = {}) const;
  /// Performs requests at once, in the order of submission. Ends before the disk does.
  Result<std::unique_ptr<Engine>> make_engine(const EngineOptions& options = {});

  Result<UniqueFd> open(const PathAt& path, int flags) override;
  Result<std::size_t> pwrite(int fd, std::span<const std::byte> data,
                             std::uint64_t offset_bytes) override;
  Status fallocate(int fd, std::uint64_t size_bytes) override;
  Status ftruncate(int fd, std::uint64_t size_bytes) override;
  Status fchmod(int fd, unsigned mode) override;
  Status fdatasync(int fd) override;
  Status fsync(int fd) override;
  Status close(UniqueFd fd) override;
  Status rename(const PathAt& from, const PathAt& to) override;
  Status rename_noreplace(const PathAt& from, const PathAt& to) override;
  Status link(const PathAt& from, const PathAt& to) override;
  Status symlink(const std::string& target, const PathAt& path) override;
  Result<std::string> read_link(const PathAt& path) override;
  Result<FileInfo> info_of(const PathAt& path) override;
  Status unlink(const PathAt& path) override;
  Status mkdir(const PathAt& path) override;
  Status rmdir(const PathAt& path) override;
  Result<std::vector<DirectoryName>> list_names(const PathAt& path) override;
  Status fsync_dir(const PathAt& path) override;
  Status try_lock(int fd, LockMode mode) override;
  void reached(std::string_view crash_point) override;

 private:
  friend class ModelEngine;
  using FileKey = std::pair<dev_t, ino_t>;

  /// For the engine: those bytes are in the file by now.
  Status record_write(int fd, std::uint64_t offset_bytes, std::span<const std::byte> data);

  Result<InodeId> inode_of(int fd) const STOKER_REQUIRES(mutex_);
  Result<ModelPlace> resolve(const PathAt& path, bool follow_last) const STOKER_REQUIRES(mutex_);
  Result<InodeId> find(const PathAt& path, bool follow_last) const STOKER_REQUIRES(mutex_);
  /// A place where nothing is yet, in a directory that exists.
  Result<ModelPlace> find_free(const PathAt& path) const STOKER_REQUIRES(mutex_);
  Result<InodeId> find_or_create(const PathAt& path, int flags) STOKER_REQUIRES(mutex_);
  Result<int> memory_of(InodeId id) STOKER_REQUIRES(mutex_);
  Status move(const PathAt& from, const PathAt& to, bool replace) STOKER_REQUIRES(mutex_);
  void add_name(const ModelPlace& place, ModelInode inode) STOKER_REQUIRES(mutex_);
  Status sync(int fd) STOKER_REQUIRES(mutex_);
  void tell(const std::string& operation) STOKER_REQUIRES(mutex_);

  mutable Mutex mutex_;
  ModelState state_ STOKER_GUARDED_BY(mutex_);
  std::map<InodeId, UniqueFd> memories_ STOKER_GUARDED_BY(mutex_);
  std::map<FileKey, InodeId> by_key_ STOKER_GUARDED_BY(mutex_);
  Watcher watcher_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker::testing
