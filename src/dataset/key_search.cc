#include "dataset/key_search.h"

#include <charconv>
#include <optional>
#include <string>

#include "dataset/shards/sample_key.h"
#include "dataset/shards/shard_names.h"
#include "dataset/shards/shard_scan.h"
#include "io/engine/arena.h"

namespace stoker {
namespace {

/// Counts the records before the one with the key, and stops the scan there.
class KeySink final : public RecordSink {
 public:
  explicit KeySink(std::string_view key) : key_(key) {}
  Status add(ByteRange /*record*/, std::string_view key) override {
    if (key == key_) {
      found_ = true;
      return Status(Code::cancelled, "found");
    }
    ++before_;
    return {};
  }
  bool found() const { return found_; }
  std::uint64_t before() const { return before_; }

 private:
  std::string_view key_;
  std::uint64_t before_ = 0;
  bool found_ = false;
};

/// Parses "<shard stem>/<number in the shard>".
std::optional<std::uint64_t> find_numbered(const Index& index, std::string_view key) {
  const std::size_t slash = key.rfind('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view digits = key.substr(slash + 1);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size())
    return std::nullopt;
  for (const IndexedShard& shard : index.shards())
    if (number < shard.sample_count && shard_stem(shard.name) == key.substr(0, slash))
      return shard.first_sample + number;
  return std::nullopt;
}

Result<std::optional<std::uint64_t>> find_scanning(const ShardDataset& dataset,
                                                   std::string_view key,
                                                   const std::stop_token& stop) {
  STOKER_ASSIGN(const MappedArena memory, MappedArena::map(kScanBytes, false, true));
  for (std::size_t i = 0; i < dataset.source().shards().size(); ++i) {
    const ShardFile& shard = dataset.source().shards()[i];
    STOKER_ASSIGN(const std::unique_ptr<const Object> object,
                  internal::open_shard(dataset.source().store(), shard));
    STOKER_ASSIGN(const auto scanner, dataset.source().scan(i, object->info().size_bytes));
    KeySink sink(key);
    const Status status = scan_shard(*object, *scanner, memory.bytes(), sink, stop);
    if (sink.found())
      return std::optional(dataset.index().shards()[i].first_sample + sink.before());
    STOKER_TRY(status);
  }
  return std::optional<std::uint64_t>();
}

/// Reads samples until one has the key. Gives up if the first sample has no key: samples of one
/// dataset usually have the same fields.
Result<std::optional<std::uint64_t>> find_reading(const ShardDataset& dataset, std::string_view key,
                                                  const std::stop_token& stop) {
  SampleRecord record;
  for (std::uint64_t i = 0; i < dataset.sample_count(); ++i) {
    if (stop.stop_requested()) return Status(Code::cancelled, "stopped while searching");
    STOKER_TRY(dataset.read(i, record));
    const std::string_view own = key_of_sample(record.view());
    if (own.empty() && i == 0) break;
    if (own == key && !key.empty()) return std::optional(i);
  }
  return std::optional<std::uint64_t>();
}

}  // namespace

Result<std::uint64_t> find_key(const ShardDataset& dataset, std::string_view key,
                               const std::stop_token& stop) {
  std::optional<std::uint64_t> sample;
  if (dataset.source().shard_format().has_keys) {
    STOKER_ASSIGN(sample, find_scanning(dataset, key, stop));
  } else {
    const Result<std::optional<std::uint64_t>> found = find_reading(dataset, key, stop);
    if (found.ok()) sample = *found;
    if (!sample) sample = find_numbered(dataset.index(), key);
    if (!sample) STOKER_TRY(found.status());  // the search stopped at a damaged sample
  }
  if (sample) return *sample;
  return Status(Code::not_found,
                "no sample has the key \"" + std::string(key) + "\"; `stoker ls` shows the keys");
}

}  // namespace stoker
