/// \file
/// A dataset's shards, whatever their format: found by name, recognised by content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/shards/shard_files.h"
#include "formats/dtype.h"
#include "formats/shard_format.h"
#include "stoker/status.h"
#include "store/object_store.h"

namespace stoker {

/// Reads the shards of one dataset: which files they are, and how records are found in them.
/// An implementation adds what its format keeps outside the shards (index.json, .idx).
///
/// Thread safety: const methods from any thread.
class ShardSource {
 public:
  ShardSource(const ShardFormat& format, ShardFiles files)
      : format_(format), files_(std::move(files)) {}
  ShardSource(const ShardSource&) = delete;
  ShardSource& operator=(const ShardSource&) = delete;
  virtual ~ShardSource() = default;

  std::string_view format() const noexcept { return format_.name; }
  const ShardFormat& shard_format() const noexcept { return format_; }
  /// What all files of the dataset are read from.
  ObjectStore& store() const noexcept { return *files_.store; }
  /// The directory that holds all shards; the index lives in its `.stoker`, if the store is local.
  const std::string& directory() const noexcept { return files_.directory; }
  /// Those that were opened as a whole, in their order; empty if shards were named.
  const std::vector<std::string>& whole_directories() const noexcept { return whole_directories_; }
  void set_whole_directories(std::vector<std::string> directories) {
    whole_directories_ = std::move(directories);
  }
  const std::vector<ShardFile>& shards() const noexcept { return files_.shards; }
  /// Files beside the shards that decide where samples lie (.idx): when one of them changes, so
  /// does the dataset.
  const std::vector<ShardFile>& sidecars() const noexcept { return files_.sidecars; }

  virtual const ShardReader& reader() const noexcept = 0;

  /// The dtype of tokens, where records are nothing but tokens and follow each other in each shard
  /// without gaps; else nothing.
  virtual std::optional<Dtype> token_dtype() const noexcept { return std::nullopt; }

  /// A scanner for one shard, given the size of its plain form.
  virtual Result<std::unique_ptr<ShardScanner>> scan(std::size_t shard,
                                                     std::uint64_t size_bytes) const {
    static_cast<void>(shard);
    return reader().scan(size_bytes);
  }

  /// Whether a shard is compressed as a whole, so that records lie in its inflated bytes only.
  virtual bool is_compressed(std::size_t /*shard*/) const { return false; }
  /// The plain bytes of a compressed shard, from all of its file.
  virtual Result<std::vector<std::byte>> inflate(std::size_t /*shard*/,
                                                 std::span<const std::byte> /*file*/) const {
    return Status(Code::unsupported, "these shards are not compressed");
  }

  /// Whether the format keeps digests of a plain shard's file outside of it. Those of a compressed
  /// one are checked by inflate().
  virtual bool has_digests(std::size_t /*shard*/) const { return false; }
  /// `corrupt` if all of a plain shard's file has another digest than it should have.
  virtual Status check_digests(std::size_t /*shard*/, std::span<const std::byte> /*file*/) const {
    return {};
  }

 private:
  const ShardFormat& format_;
  ShardFiles files_;
  std::vector<std::string> whole_directories_;
};

struct ShardSourceOptions {
  /// The name of one in formats/table; empty: by content. `raw` and `counted` have nothing to be
  /// recognised by and must be named.
  std::string format = {};
  std::optional<Dtype> dtype = {};  ///< For token arrays that do not say theirs.
  /// Whether a shard that index.json names and that is missing, or has another size than it says,
  /// is an error at once. Else it is opened with the others, and fails when it is read.
  bool check_files = true;
  std::shared_ptr<ObjectStore> store = nullptr;  ///< Where the names are keys; null: local_store().
};

/// Opens what the patterns name (see find_shards()), in that order, as one dataset: shard files, or
/// directories that hold shards. `not_found` if there are none, `invalid_argument` if they are not
/// of one format (files with the same ending are taken to be of one, until a scan finds otherwise),
/// `unsupported` with the way out for what cannot be read in place.
Result<std::unique_ptr<ShardSource>> open_shards(std::span<const std::string> patterns,
                                                 const ShardSourceOptions& options = {});

namespace internal {

// In the options of these a store is set.

/// Several directories, or one, each of which holds shards of the same format.
Result<std::unique_ptr<ShardSource>> open_directories(const std::vector<std::string>& directories,
                                                      const ShardSourceOptions& options);
Result<std::unique_ptr<ShardSource>> open_shard_files(const std::vector<std::string>& paths,
                                                      const ShardSourceOptions& options);

/// A directory and the text of its index.json.
struct IndexedDirectory {
  std::string path;
  std::string index;
};

// One for each family that keeps something outside its shards.
Result<std::unique_ptr<ShardSource>> open_mds(std::span<const IndexedDirectory> directories,
                                              const ShardSourceOptions& options);
Result<std::unique_ptr<ShardSource>> open_litdata(const std::string& directory,
                                                  std::string_view index,
                                                  const ShardSourceOptions& options);
Result<std::unique_ptr<ShardSource>> open_tokens(const ShardFormat& format,
                                                 std::span<const std::string> paths,
                                                 const ShardSourceOptions& options);

/// The format that an object's first bytes show, or else its ending. `invalid_argument` if neither
/// does; `unsupported` for gzip.
Result<const ShardFormat*> recognise_shard(ObjectStore& store, const std::string& path);
/// Reads a plain shard that has digests and holds it against them; OK at once for others.
Status check_digests(const ShardSource& source, std::size_t shard);

}  // namespace internal
}  // namespace stoker
