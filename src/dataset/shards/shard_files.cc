#include "dataset/shards/shard_files.h"

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "base/work_together.h"
#include "store/open_object.h"

namespace stoker::internal {
namespace {

constexpr std::uint64_t kPackedBytesMax = (std::uint64_t{4} << 30) - 1;

/// Reads at most `size_max` bytes from the start of an object that was opened with
/// CachePolicy::buffered, which can read into any memory.
Result<std::vector<std::byte>> read_from(const Object& object, std::size_t size_max) {
  std::vector<std::byte> bytes(std::min<std::uint64_t>(size_max, object.info().size_bytes));
  STOKER_ASSIGN(const std::span<std::byte> read, object.read(0, bytes.size(), bytes));
  bytes.resize(read.size());
  return bytes;
}

}  // namespace

std::vector<Result<ObjectStore::Entry>> look_all(ObjectStore& store,
                                                 std::span<const std::string> keys) {
  constexpr std::size_t kRemoteLooks = 32;
  std::vector<Result<ObjectStore::Entry>> entries(keys.size(),
                                                  Status(Code::cancelled, "not asked"));
  std::atomic<std::size_t> next{0};  // relaxed: a ticket
  work_together(store.is_local() ? 1 : std::min(kRemoteLooks, keys.size()), [&] {
    for (std::size_t i = 0; (i = next.fetch_add(1, std::memory_order_relaxed)) < keys.size();)
      entries[i] = store.look(keys[i]);
  });
  return entries;
}

Result<std::vector<ShardFile>> stat_shards(ObjectStore& store, std::span<const std::string> paths,
                                           const std::string& directory, bool may_be_missing) {
  std::vector<ShardFile> shards;
  shards.reserve(paths.size());
  const std::string prefix = key_in(directory, "");
  const std::vector<Result<ObjectStore::Entry>> entries = look_all(store, paths);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string& path = paths[i];
    const Result<ObjectStore::Entry>& entry = entries[i];
    const std::string name = path.starts_with(prefix) ? path.substr(prefix.size()) : path;
    if (entry.status().code() == Code::not_found && may_be_missing) {
      shards.push_back({.name = name, .path = path});
      continue;
    }
    STOKER_TRY(entry.status());
    if (entry->kind != ObjectStore::Kind::object)
      return Status(Code::invalid_argument, path + ": not a regular file");
    shards.push_back({.name = name,
                      .path = path,
                      .size_bytes = entry->info.size_bytes,
                      .mtime_ns = entry->info.version});
  }
  return shards;
}

std::string common_directory(std::span<const std::string> paths) {
  std::filesystem::path common = std::filesystem::path(paths.front()).parent_path();
  const auto holds = [&common](const std::string& path) {
    const std::string prefix = common.empty() ? "" : common.string() + "/";
    return path.starts_with(prefix);
  };
  while (!common.empty() && common.has_relative_path() &&
         !std::all_of(paths.begin(), paths.end(), holds))
    common = common.parent_path();
  return common.empty() ? "." : common.string();
}

Status check_unchanged(const ObjectInfo& now, const ShardFile& file) {
  if (now.size_bytes == file.size_bytes && now.version == file.mtime_ns) return {};
  return Status(Code::unavailable,
                file.path + ": changed since the dataset was opened; open it again");
}

Result<std::unique_ptr<const Object>> open_shard(ObjectStore& store, const ShardFile& file,
                                                 CachePolicy policy) {
  STOKER_ASSIGN(std::unique_ptr<const Object> object, open_object(store, file.path, policy));
  STOKER_TRY(check_unchanged(object->info(), file));
  return object;
}

Result<std::vector<std::byte>> read_head(ObjectStore& store, const std::string& key,
                                         std::size_t size_max) {
  STOKER_ASSIGN(const std::unique_ptr<const Object> object,
                open_object(store, key, CachePolicy::buffered));
  return read_from(*object, size_max);
}

Result<std::string> read_whole(const Object& object, std::size_t size_max) {
  const std::uint64_t size_bytes = object.info().size_bytes;
  if (size_bytes > size_max)
    return Status(Code::unsupported, object.key() + ": " + std::to_string(size_bytes) +
                                         " bytes exceed the limit for an index file (" +
                                         std::to_string(size_max) + "); split the dataset");
  std::string text(size_bytes, '\0');
  STOKER_ASSIGN(const std::span<std::byte> read,
                object.read(0, text.size(), std::as_writable_bytes(std::span(text))));
  text.resize(read.size());
  return text;
}

Result<std::string> read_whole(ObjectStore& store, const std::string& key, std::size_t size_max) {
  STOKER_ASSIGN(const std::unique_ptr<const Object> object,
                open_object(store, key, CachePolicy::buffered));
  return read_whole(*object, size_max);
}

Result<std::vector<std::byte>> read_packed(ObjectStore& store, const ShardFile& shard) {
  if (shard.size_bytes > kPackedBytesMax)
    return Status(
        Code::unsupported,
        shard.path +
            ": the shard must be read as a whole, and has 4 GiB or more; write smaller shards");
  STOKER_ASSIGN(const std::unique_ptr<const Object> object,
                open_shard(store, shard, CachePolicy::buffered));
  STOKER_ASSIGN(std::vector<std::byte> bytes, read_from(*object, shard.size_bytes));
  STOKER_ASSIGN(const ObjectInfo now, object->info_now());  // it may have changed during the read
  STOKER_TRY(check_unchanged(now, shard));
  return bytes;
}

}  // namespace stoker::internal
