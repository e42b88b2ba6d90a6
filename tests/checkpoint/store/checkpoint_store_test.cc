#include "checkpoint/toys/memory_checkpoint_store.h"
#include "conformance/checkpoint_store_suite.h"
#include "io/files/forwarding_file_ops.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

/// A directory that several hosts share. Of the locks each host sees its own alone; but a lock that
/// is waited for, as that of the notes, works: NFS has both kinds.
class SharedFileOps final : public ForwardingFileOps {
 public:
  SharedFileOps() : ForwardingFileOps(posix_file_ops()) {}
  Result<UniqueFd> open(const PathAt& path, int flags) override {
    Result<UniqueFd> fd = ForwardingFileOps::open(path, flags);
    if (fd.ok() && path.name() == kLockName) {
      const MutexLock lock(mutex_);
      blind_.insert(fd->get());
    }
    return fd;
  }
  Status try_lock(int fd, LockMode mode) override {
    {
      const MutexLock lock(mutex_);
      if (blind_.erase(fd) > 0) return {};
    }
    return ForwardingFileOps::try_lock(fd, mode);
  }

 private:
  Mutex mutex_;
  std::set<int> blind_ STOKER_GUARDED_BY(mutex_);
};

class DirectoryPlace final : public StorePlace {
 public:
  std::shared_ptr<const CheckpointStore> open() override {
    return opened(dir_.path(), ops_).share();
  }

 private:
  const TempDir dir_;
  SharedFileOps ops_;
};

class MemoryPlace final : public StorePlace {
 public:
  std::shared_ptr<const CheckpointStore> open() override {
    return std::make_shared<const MemoryCheckpointStore>(bucket_);
  }

 private:
  const std::shared_ptr<MemoryBucket> bucket_ = std::make_shared<MemoryBucket>();
};

template <typename Place>
std::unique_ptr<StorePlace> make_place() {
  return std::make_unique<Place>();
}

INSTANTIATE_TEST_SUITE_P(stores, CheckpointStoreSuite,
                         ::testing::Values(CheckpointStoreMaker{"directory",
                                                                make_place<DirectoryPlace>},
                                           CheckpointStoreMaker{"memory", make_place<MemoryPlace>}),
                         checkpoint_store_name);

}  // namespace
}  // namespace stoker::testing
