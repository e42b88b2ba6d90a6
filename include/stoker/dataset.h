/// \file
/// Dataset: the samples of a set of shards, by number.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/api.h"
#include "stoker/cache.h"
#include "stoker/digest.h"
#include "stoker/dtype.h"
#include "stoker/fields.h"
#include "stoker/io.h"
#include "stoker/status.h"
#include "stoker/store.h"

namespace stoker {

namespace internal {
class DatasetInside;
struct DatasetState;
struct SampleState;
}  // namespace internal

struct DatasetOptions {
  /// Paths or URIs of shards or of directories of shards, in order, as open_store() takes them.
  /// Each may contain `{000..999}`, `{a,b}`, `*`, `?` and `[...]`. URIs are all of one bucket or
  /// server.
  std::vector<std::string> source = {};
  /// "tar", "tfrecord", "mds", "litdata", "megatron", "npy", "raw", "counted" or "shard001"; empty:
  /// detected from the content. "raw" and "counted" must be named.
  std::string format = {};
  /// Element type of token arrays that do not state theirs.
  std::optional<Dtype> dtype = {};
  /// Check every sample against a CRC32C. If the index has none yet, all shards are read once to
  /// compute them.
  bool checksums = false;
  CachePolicy policy = CachePolicy::automatic;
  /// A store of your own: `source` has its keys. Null: that of the URIs.
  std::shared_ptr<ObjectStore> store = {};
  S3Options s3 = {};  ///< For URIs; S3Options::from_environment() reads what the tools of AWS read.
  /// Where to keep what is read of the shards, if they are far away. Nothing: nowhere.
  std::optional<Cache> cache = {};
  /// Where to store the index if the shards' own directory is not writable; empty: only in memory.
  /// See cache_directory_from_environment().
  std::string cache_directory = {};
  /// Ends the making of an index, which reads all shards, with `cancelled`.
  std::stop_token stop = {};
};

/// Returns where the command and the Python package store such indexes: "$XDG_CACHE_HOME/stoker/
/// index", or below "~/.cache". Empty if neither is known.
///
/// Thread safety: from any thread, while none changes the environment.
STOKER_API std::string cache_directory_from_environment();

/// A file of a dataset.
struct ShardInfo {
  std::string name;
  std::string path;  ///< Or URI.
  std::uint64_t size_bytes = 0;
  std::uint64_t sample_count = 0;
};

/// One sample in memory of its own. Views of it are valid until it is read again, moved or
/// destroyed.
///
/// Thread safety: const methods from any thread.
class STOKER_API Sample {
 public:
  /// Empty, for Dataset::read().
  Sample();
  Sample(Sample&& other) noexcept;
  Sample& operator=(Sample&& other) noexcept;
  ~Sample();

  /// The key that the format stores, else the field "__key__", else "<shard stem>/<number>".
  std::string_view key() const noexcept;
  /// The fields, as the format defines them.
  std::span<const FieldView> fields() const noexcept;
  /// The field of that name, or null.
  const FieldView* find(std::string_view name) const noexcept;

 private:
  friend class Dataset;
  std::unique_ptr<internal::SampleState> state_;
};

/// The samples of shards in any readable format, or some of them. Copies share the open files.
///
/// Thread safety: every method from any thread, also in a forked child: a dataset has open files
/// and mappings, but no threads. The last copy closes them. It writes nothing but the index, when
/// it is opened, and installs no signal handler.
class STOKER_API Dataset {
 public:
  /// Opens the shards and their index; makes the index if there is none that matches the shards.
  /// `not_found` if a name matches nothing, `invalid_argument` if the shards cannot be opened as
  /// requested, `corrupt` if one is damaged.
  static Result<Dataset> open(const DatasetOptions& options);
  /// The same for one name: a std::string, a literal, a std::filesystem::path.
  template <typename Path>
    requires std::convertible_to<const Path&, std::string>
  static Result<Dataset> open(const Path& source) {
    return open_one(source);
  }

  Dataset(const Dataset& other) noexcept;
  Dataset& operator=(const Dataset& other) noexcept;
  ~Dataset();

  std::uint64_t size() const noexcept;
  /// Reads the sample of that number, below size(). `corrupt` names shard, offset and sample;
  /// `unavailable` if the shard was changed after the dataset was opened.
  Result<Sample> read(std::uint64_t number) const;
  /// The same into a sample whose memory is used again. After a failure it has no fields.
  Status read(std::uint64_t number, Sample& out) const;
  /// Reads samples with several threads, in the order of `numbers`, which may repeat. Of several
  /// failures, returns the first.
  Result<std::vector<Sample>> read_many(std::span<const std::uint64_t> numbers) const;
  /// Copies the bytes of one field of each sample, as read() has them, to `rows`, one row after the
  /// other, with several threads. The field must have the same type, shape and size in all of them,
  /// and `rows` the size of all rows: otherwise `invalid_argument`, with the sizes. After a failure
  /// the contents are undefined.
  Status gather(std::span<const std::uint64_t> numbers, std::string_view field,
                std::span<std::byte> rows) const;
  /// Returns the number of the first sample with this key. The index has no keys: the shards are
  /// scanned until it is found. `not_found` if there is none, `cancelled` if `stop` fires.
  Result<std::uint64_t> find(std::string_view key, const std::stop_token& stop = {}) const;

  /// Returns a dataset of these samples, in this order; they may repeat. `invalid_argument` for
  /// one that is not below size().
  Result<Dataset> select(std::span<const std::uint64_t> numbers) const;
  /// Returns `count` samples from `first` on.
  Result<Dataset> slice(std::uint64_t first, std::uint64_t count) const;
  /// Returns disjoint datasets that together have every sample, each in the order of this one.
  /// `parts` are fractions that sum to 1, or counts that sum to size(). A seed distributes the
  /// samples at random; the same seed gives the same parts everywhere, also in Python. Without one
  /// the dataset is cut in order.
  Result<std::vector<Dataset>> split(std::span<const double> parts,
                                     std::optional<std::uint64_t> seed = {}) const;

  /// Identifies the samples and their order, independent of machine and directory.
  Digest128 fingerprint() const;
  /// The shards' format: "tar".
  std::string_view format() const noexcept;
  /// The directory that contains all shards, as a path or URI.
  const std::string& directory() const noexcept;
  /// All files, even if only some samples were selected.
  std::vector<ShardInfo> shards() const;
  /// Whether every sample that is read is checked against a checksum of the index.
  bool has_checksums() const noexcept;
  /// Why the index is in memory only, and made again by every process; OK if it is in a file.
  Status index_refused() const;

 private:
  friend class internal::DatasetInside;
  explicit Dataset(std::shared_ptr<const internal::DatasetState> state) noexcept;
  static Result<Dataset> open_one(const std::string& source);
  std::shared_ptr<const internal::DatasetState> state_;
};

}  // namespace stoker
