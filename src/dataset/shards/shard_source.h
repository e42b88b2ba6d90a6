/// \file
/// A dataset's shards in any format: found by name, recognized by content.
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
#include "formats/shard_format.h"
#include "stoker/dtype.h"
#include "stoker/status.h"
#include "stoker/store.h"

namespace stoker {

/// The shards of one dataset: which files they are, and how to find records in them. An
/// implementation adds what its format stores outside the shards (index.json, .idx).
///
/// Thread safety: const methods from any thread.
class ShardSource {
 public:
  ShardSource(const ShardFormat& format, ShardFiles files)
      : format_(format), files_(std::move(files)), uri_(files_.store->uri_of(files_.directory)) {}
  ShardSource(const ShardSource&) = delete;
  ShardSource& operator=(const ShardSource&) = delete;
  virtual ~ShardSource() = default;

  std::string_view format() const noexcept { return format_.name; }
  const ShardFormat& shard_format() const noexcept { return format_; }
  /// The store that contains all files of the dataset.
  ObjectStore& store() const noexcept { return *files_.store; }
  /// The directory that contains all shards; if the store is local, the index is in its `.stoker`.
  const std::string& directory() const noexcept { return files_.directory; }
  /// The same as users name it.
  const std::string& uri() const noexcept { return uri_; }
  std::string uri_of(std::size_t shard) const { return store().uri_of(shards()[shard].path); }
  /// The directories that were opened as a whole, in order; empty if shards were named.
  const std::vector<std::string>& whole_directories() const noexcept { return whole_directories_; }
  void set_whole_directories(std::vector<std::string> directories) {
    whole_directories_ = std::move(directories);
  }
  const std::vector<ShardFile>& shards() const noexcept { return files_.shards; }
  /// Files next to the shards that locate the samples (.idx): if one of them changes, the dataset
  /// changes.
  const std::vector<ShardFile>& sidecars() const noexcept { return files_.sidecars; }

  virtual const ShardReader& reader() const noexcept = 0;

  /// The dtype of tokens, if records consist only of tokens and are stored without gaps in each
  /// shard; else nothing.
  virtual std::optional<Dtype> token_dtype() const noexcept { return std::nullopt; }

  /// Makes a scanner for one shard; `size_bytes` is its decompressed size.
  virtual Result<std::unique_ptr<ShardScanner>> scan(std::size_t shard,
                                                     std::uint64_t size_bytes) const {
    static_cast<void>(shard);
    return reader().scan(size_bytes);
  }

  /// Whether a shard is compressed as a whole. Offsets of records are then those in its
  /// decompressed bytes.
  virtual bool is_compressed(std::size_t /*shard*/) const { return false; }
  /// Returns the decompressed bytes of a compressed shard; `file` is its whole file.
  virtual Result<std::vector<std::byte>> inflate(std::size_t /*shard*/,
                                                 std::span<const std::byte> /*file*/) const {
    return Status(Code::unsupported, "these shards are not compressed");
  }

  /// Whether the format stores digests of an uncompressed shard outside of it. For a compressed
  /// shard, inflate() checks them.
  virtual bool has_digests(std::size_t /*shard*/) const { return false; }
  /// Checks the whole file of an uncompressed shard: `corrupt` if a digest does not match.
  virtual Status check_digests(std::size_t /*shard*/, std::span<const std::byte> /*file*/) const {
    return {};
  }

 private:
  const ShardFormat& format_;
  ShardFiles files_;
  std::string uri_;
  std::vector<std::string> whole_directories_;
};

struct ShardSourceOptions {
  /// A name in formats/table; empty: recognized by content. `raw` and `counted` cannot be
  /// recognized and must be named.
  std::string format = {};
  std::optional<Dtype> dtype = {};  ///< For token arrays that do not store it.
  /// Whether a shard that index.json names but that is missing or has another size fails the
  /// opening. Otherwise it fails when it is read.
  bool check_files = true;
  /// Null: names are paths or URIs, see open_places(). Else they are keys of this store.
  std::shared_ptr<ObjectStore> store = nullptr;
  S3Options s3 = {};  ///< For URIs.
};

/// Opens what the patterns name (see find_shards()), in that order, as one dataset: shard files, or
/// directories of shards. `not_found` if there are none, `invalid_argument` if their formats differ
/// (files with the same ending are assumed to have the same format until they are scanned),
/// `unsupported` for what cannot be read in place, with advice.
Result<std::unique_ptr<ShardSource>> open_shards(std::span<const std::string> patterns,
                                                 const ShardSourceOptions& options = {});

namespace internal {

// The options of these functions must have a store.

/// Opens one or more directories with shards of the same format.
Result<std::unique_ptr<ShardSource>> open_directories(const std::vector<std::string>& directories,
                                                      const ShardSourceOptions& options);
Result<std::unique_ptr<ShardSource>> open_shard_files(const std::vector<std::string>& paths,
                                                      const ShardSourceOptions& options);

/// A directory and the text of its index.json.
struct IndexedDirectory {
  std::string path;
  std::string index;
};

// One for each family of formats that stores something outside its shards, and for token arrays.
Result<std::unique_ptr<ShardSource>> open_mds(std::span<const IndexedDirectory> directories,
                                              const ShardSourceOptions& options);
Result<std::unique_ptr<ShardSource>> open_litdata(const std::string& directory,
                                                  std::string_view index,
                                                  const ShardSourceOptions& options);
Result<std::unique_ptr<ShardSource>> open_tokens(const ShardFormat& format,
                                                 std::span<const std::string> paths,
                                                 const ShardSourceOptions& options);

/// Recognizes the format of an object by its first bytes, or else by its ending. `invalid_argument`
/// if neither is known; `unsupported` for gzip, zstd, bzip2 and xz.
Result<const ShardFormat*> recognise_shard(ObjectStore& store, const std::string& path);
/// Reads an uncompressed shard that has digests and checks them; returns OK for other shards.
Status check_digests(const ShardSource& source, std::size_t shard);

}  // namespace internal
}  // namespace stoker
