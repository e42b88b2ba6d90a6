#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "base/counters.h"
#include "dataset/fetch/fetch_plan.h"
#include "dataset/shard_dataset.h"
#include "dataset/shards/open_files.h"
#include "io/files/file.h"
#include "stoker/status.h"
#include "stoker/store.h"

namespace stoker {

/// A shard that is open.
struct OpenShard {
  const Object* object = nullptr;
  const File* file = nullptr;  ///< The object's file, if it is a local file; else null.
};

/// Per-shard state of a fetcher: its open object, and how much of its file is in the page cache.
///
/// A whole shard is examined with cachestat(2) once some bytes of it were read, and again after
/// several times the bytes that were cached, because the call takes time for each cached page;
/// sooner if data that should have been cached had to be fetched. If all or nothing of a shard is
/// cached, that decides for every range; otherwise, and before the first look, each range is
/// examined.
///
/// Thread safety: none, except that looks() may be called from any thread.
class FetchShards {
 public:
  struct Options {
    std::uint64_t look_after_bytes = 4 << 20;
    /// Maximum number of open files, in addition to those of the datasets; at least 1.
    /// OpenFilesShare may grant fewer.
    std::size_t open_files_max = 32;
  };

  /// How to read a range.
  struct Choice {
    FetchPlan::Way way = FetchPlan::Way::page_cache;
    IoPath path = IoPath::buffered;
  };

  FetchShards(std::vector<std::shared_ptr<const ShardDataset>> datasets, const Options& options);

  std::size_t dataset_count() const noexcept { return datasets_.size(); }
  const ShardDataset& dataset(std::uint32_t dataset) const noexcept { return *datasets_[dataset]; }

  /// Returns the shard, opening it if needed. The pointers are valid until the next call, or as
  /// long as the shard is pinned.
  Result<OpenShard> open(std::uint32_t dataset, std::uint32_t shard);
  /// True if open() can open the shard without waiting for a pinned one to be closed. May open the
  /// shard, to find out whether descriptors are left.
  bool has_room_for(std::uint32_t dataset, std::uint32_t shard);
  /// Keeps an open shard open until unpin() was called as many times.
  void pin(std::uint32_t dataset, std::uint32_t shard);
  void unpin(std::uint32_t dataset, std::uint32_t shard);

  /// Chooses how to read a range, which the caller will then read.
  Result<Choice> choose(std::uint32_t dataset, std::uint32_t shard, ByteRange range);

  /// Reports that a range expected in the page cache was not there: the shard is examined again
  /// soon.
  void doubt(std::uint32_t dataset, std::uint32_t shard);

  std::uint64_t looks() const noexcept { return looks_.value(); }

 private:
  static constexpr std::uint32_t kNotOwned = std::numeric_limits<std::uint32_t>::max();

  enum class Held : std::uint8_t { none, part, whole };

  struct Shard {
    OpenShard open;  // the dataset's object, or that of owned_[owned]
    std::uint32_t owned = kNotOwned;
    Held held = Held::part;
    bool was_opened = false;
    std::uint64_t look_in_bytes = 0;
    std::uint64_t look_period_bytes = 0;
  };

  /// A shard that the dataset does not keep open.
  struct Owned {
    std::shared_ptr<const Object> object;
    std::uint32_t dataset = 0;
    std::uint32_t shard = 0;
    std::uint32_t pins = 0;
    std::uint64_t used_at = 0;
  };

  Shard& shard_of(std::uint32_t dataset, std::uint32_t shard) { return shards_[dataset][shard]; }
  Result<OpenShard> open_now(std::uint32_t dataset, std::uint32_t shard);
  Result<std::shared_ptr<const Object>> lend(std::uint32_t dataset, std::uint32_t shard);
  bool close_oldest();
  void look(Shard& shard);
  Choice choose_part(const Shard& shard, ByteRange range);

  const std::vector<std::shared_ptr<const ShardDataset>> datasets_;
  const Options options_;
  const OpenFilesShare share_;
  std::vector<std::vector<Shard>> shards_;
  std::vector<Owned> owned_;
  std::uint64_t clock_ = 0;
  Counter looks_;
};

}  // namespace stoker
