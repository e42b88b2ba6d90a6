/// \file
/// The files that a dataset consists of, as objects of a store: how they are, and small ones whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stoker/status.h"
#include "store/object_store.h"

namespace stoker {

/// A shard as it lies in its store now.
struct ShardFile {
  std::string name;  ///< Relative to the dataset's directory.
  std::string path;  ///< Its key.
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;  ///< ObjectInfo::version: what the index keeps under this name.
};

/// Those of one dataset, and where they lie.
struct ShardFiles {
  std::shared_ptr<ObjectStore> store;
  std::string directory;
  std::vector<ShardFile> shards;
  std::vector<ShardFile> sidecars = {};  ///< See ShardSource.
};

namespace internal {

/// Looks at `paths`, which get names relative to their common directory. One that is not there is
/// an error, or has a size of 0 if it `may_be_missing`.
Result<std::vector<ShardFile>> stat_shards(ObjectStore& store, std::span<const std::string> paths,
                                           const std::string& directory,
                                           bool may_be_missing = false);
/// The longest directory that holds all of them.
std::string common_directory(std::span<const std::string> paths);

/// `unavailable` if the object is not the one that was looked at, or was changed since.
Status check_unchanged(const ObjectInfo& now, const ShardFile& file);
/// Opens a shard, unchanged since then.
Result<std::unique_ptr<const Object>> open_shard(ObjectStore& store, const ShardFile& file,
                                                 CachePolicy policy = CachePolicy::automatic);

/// At most `size_max` bytes from the start of an object.
Result<std::vector<std::byte>> read_head(ObjectStore& store, const std::string& key,
                                         std::size_t size_max);
/// All of an object; `unsupported` if it is larger than `size_max`.
Result<std::string> read_whole(ObjectStore& store, const std::string& key, std::size_t size_max);
/// The same of one that was opened with CachePolicy::buffered.
Result<std::string> read_whole(const Object& object, std::size_t size_max);
/// All of a shard's file, as it lies there and unchanged: of one that is compressed as a whole, or
/// that has digests. `unsupported` for 4 GiB and more.
Result<std::vector<std::byte>> read_packed(ObjectStore& store, const ShardFile& shard);

}  // namespace internal
}  // namespace stoker
