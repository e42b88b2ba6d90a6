/// \file
/// A whole store that only tests know: objects in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "stoker/store.h"

namespace stoker::testing {

/// Thread safety: every method from any thread.
class MemoryStore final : public ObjectStore {
 public:
  /// Asked before each range that a source reads: 0, or the errno that it fails with.
  using Fault =
      std::function<int(const Object& object, std::uint64_t offset_bytes, std::size_t size_bytes)>;

  explicit MemoryStore(Fault fault = {}, std::string identity = "memory")
      : fault_(std::move(fault)), identity_(std::move(identity)) {}

  /// Versions are hashes of the content: stores with the same identity may share a cache.
  std::string identity_of(const std::string& key) override {
    return identity_.empty() ? identity_ : identity_ + ":" + key;
  }
  Result<std::unique_ptr<const Object>> open(const std::string& key, CachePolicy policy) override;
  Result<Entry> look(const std::string& key) override;
  Status list(const std::string& folder, const Found& found) override;
  Result<std::unique_ptr<RangeSource>> make_source(std::uint32_t depth) override;
  Result<std::unique_ptr<Upload>> upload(const std::string& key) override;
  Status remove(const std::string& key) override;

 private:
  friend class MemoryUpload;
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;

  Status put(const std::string& key, Bytes bytes, bool may_replace);

  const Fault fault_;
  const std::string identity_;
  Mutex mutex_;
  std::map<std::string, Bytes> objects_ STOKER_GUARDED_BY(mutex_);
};

/// Copies all files below `directory`, but what Stoker derives, object by object into `to`, under
/// the keys `folder` and their names.
void copy_files(const std::string& directory, ObjectStore& to, const std::string& folder);

}  // namespace stoker::testing
