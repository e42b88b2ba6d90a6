/// \file
/// The files of a dataset as objects of a store: their sizes and versions, and functions to read
/// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/status.h"
#include "stoker/store.h"

namespace stoker {

/// A shard in its store, as it was when the dataset was opened.
struct ShardFile {
  std::string name;  ///< Relative to the dataset's directory.
  std::string path;  ///< Key in the store.
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;  ///< ObjectInfo::version; the index calls it mtime_ns too.
};

/// The files of one dataset, and their store and directory.
struct ShardFiles {
  std::shared_ptr<ObjectStore> store;
  std::string directory;
  std::vector<ShardFile> shards;
  std::vector<ShardFile> sidecars = {};  ///< See ShardSource.
};

namespace internal {

/// The key of a name in a folder; in the top folder, ".", the name itself.
inline std::string key_in(const std::string& folder, std::string_view name) {
  return (folder == "." ? std::string() : folder + "/").append(name);
}

/// Looks keys up, in a store that is not local many at a time. The answers have the keys' order.
std::vector<Result<ObjectStore::Entry>> look_all(ObjectStore& store,
                                                 std::span<const std::string> keys);
/// Looks up `paths`, which get names relative to `directory`. A missing one is an error, or has a
/// size of 0 if it `may_be_missing`.
Result<std::vector<ShardFile>> stat_shards(ObjectStore& store, std::span<const std::string> paths,
                                           const std::string& directory,
                                           bool may_be_missing = false);
/// The deepest directory that contains all paths.
std::string common_directory(std::span<const std::string> paths);

/// `unavailable` if the object was replaced or changed since `file` was looked up.
Status check_unchanged(const ObjectInfo& now, const ShardFile& file);
/// Opens a shard; `unavailable` if it changed since it was looked up.
Result<std::unique_ptr<const Object>> open_shard(ObjectStore& store, const ShardFile& file,
                                                 CachePolicy policy = CachePolicy::automatic);

/// Reads at most `size_max` bytes from the start of an object.
Result<std::vector<std::byte>> read_head(ObjectStore& store, const std::string& key,
                                         std::size_t size_max);
/// Reads a whole object; `unsupported` if it is larger than `size_max`.
Result<std::string> read_whole(ObjectStore& store, const std::string& key, std::size_t size_max);
/// The same for an object that was opened with CachePolicy::buffered.
Result<std::string> read_whole(const Object& object, std::size_t size_max);
/// Reads a shard's whole file as it is stored: a shard that is compressed as a whole, or that has
/// digests. `unsupported` for 4 GiB and more, `unavailable` if it changed since it was looked up.
Result<std::vector<std::byte>> read_packed(ObjectStore& store, const ShardFile& shard);

}  // namespace internal
}  // namespace stoker
