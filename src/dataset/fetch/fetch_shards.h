#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "base/counters.h"
#include "dataset/dataset.h"
#include "dataset/fetch/fetch_plan.h"
#include "dataset/shards/open_files.h"
#include "io/files/file.h"
#include "stoker/status.h"
#include "store/object_store.h"

namespace stoker {

/// A shard that is open.
struct OpenShard {
  const Object* object = nullptr;
  const File* file = nullptr;  ///< The object's, where it is a local file: looked up once.
};

/// What a fetcher knows of each shard: its open object, and how much of a file the page cache
/// holds.
///
/// A shard is looked at as a whole, with cachestat(2), once some bytes of it were read, and again
/// after several times those that the page cache held, because the look costs time for each page
/// that is there; sooner if what should have been there had to be fetched. All there or nothing
/// there decides for every range; in between, and before the first look, each range is looked at.
///
/// Thread safety: none, but looks() from any thread.
class FetchShards {
 public:
  struct Options {
    std::uint64_t look_after_bytes = 4 << 20;
    /// Beside those of the datasets, at most; see OpenFilesShare for what there really are. One is
    /// the least.
    std::size_t open_files_max = 32;
  };

  /// How a range shall come.
  struct Choice {
    FetchPlan::Way way = FetchPlan::Way::page_cache;
    IoPath path = IoPath::buffered;
  };

  FetchShards(std::vector<std::shared_ptr<const Dataset>> datasets, const Options& options);

  std::size_t dataset_count() const noexcept { return datasets_.size(); }
  const Dataset& dataset(std::uint32_t dataset) const noexcept { return *datasets_[dataset]; }

  /// The shard, opened if it is not; why not, if it cannot be. The pointers are valid until the
  /// next call, or as long as the shard is pinned.
  Result<OpenShard> open(std::uint32_t dataset, std::uint32_t shard);
  /// Whether open() has no need to wait for a pinned one to be closed; found by opening it, where
  /// descriptors may be what is lacking.
  bool has_room_for(std::uint32_t dataset, std::uint32_t shard);
  /// Keeps an open shard open until it is unpinned as often.
  void pin(std::uint32_t dataset, std::uint32_t shard);
  void unpin(std::uint32_t dataset, std::uint32_t shard);

  /// The way for a range, which is taken to be read.
  Result<Choice> choose(std::uint32_t dataset, std::uint32_t shard, ByteRange range);

  /// Something was read from the page cache and was not there: the shard is looked at soon.
  void doubt(std::uint32_t dataset, std::uint32_t shard);

  std::uint64_t looks() const noexcept { return looks_.value(); }

 private:
  static constexpr std::uint32_t kNotOwned = std::numeric_limits<std::uint32_t>::max();

  enum class Held : std::uint8_t { none, part, whole };

  struct Shard {
    OpenShard open;  // the dataset's, or that of owned_[owned]
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

  const std::vector<std::shared_ptr<const Dataset>> datasets_;
  const Options options_;
  const OpenFilesShare share_;
  std::vector<std::vector<Shard>> shards_;
  std::vector<Owned> owned_;
  std::uint64_t clock_ = 0;
  Counter looks_;
};

}  // namespace stoker
