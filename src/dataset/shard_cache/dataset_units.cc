#include "dataset/shard_cache/dataset_units.h"

#include <algorithm>

namespace stoker {
namespace {

/// Of an array of tokens a read needs a few KiB, in any place: a unit is short, whatever a record
/// is.
constexpr std::uint64_t kCellBytes = std::uint64_t{64} << 10;
constexpr std::uint64_t kTokenUnitBytes = std::uint64_t{256} << 10;

/// The units of one object, which follow the choice of its dataset.
class ShardUnits final : public FetchUnits {
 public:
  ShardUnits(const DatasetUnits& dataset, std::uint32_t shard, std::uint64_t object_bytes)
      : dataset_(dataset),
        shard_(shard),
        object_bytes_(object_bytes),
        chunks_(make_chunk_units(object_bytes)) {}

  Unit at(std::uint64_t offset_bytes) const override {
    if (dataset_.unit() == FetchUnit::chunks) return chunks_->at(offset_bytes);
    return dataset_.record_unit(shard_, offset_bytes, object_bytes_);
  }

 private:
  const DatasetUnits& dataset_;
  const std::uint32_t shard_;
  const std::uint64_t object_bytes_;
  const std::unique_ptr<const FetchUnits> chunks_;
};

}  // namespace

DatasetUnits::DatasetUnits(const ShardSource& source, const Index& index)
    : source_(source), index_(index) {
  for (std::uint32_t i = 0; i < source.shards().size(); ++i) {
    shard_of_key_.emplace(source.shards()[i].path, i);
    dataset_bytes_ += source.shards()[i].size_bytes;
  }
}

std::unique_ptr<const FetchUnits> DatasetUnits::units_of(const std::string& key,
                                                         std::uint64_t size_bytes) const {
  const auto found = shard_of_key_.find(key);
  if (found == shard_of_key_.end() || source_.is_compressed(found->second))
    return make_chunk_units(size_bytes);
  return std::make_unique<ShardUnits>(*this, found->second, size_bytes);
}

/// Where a sample starts; a damaged entry of the index counts as the start of the shard, and costs
/// only a unit that is cut in an unusual way.
std::uint64_t DatasetUnits::start_of(std::uint64_t sample, std::size_t shard) const {
  const Result<SampleLocation> at = index_.locate(sample, static_cast<std::uint32_t>(shard));
  return at.ok() ? at->record.offset_bytes : 0;
}

/// The number of the first sample of a shard that starts at an offset or later; that after the last
/// one if there is none.
std::uint64_t DatasetUnits::first_from(std::size_t shard, std::uint64_t offset_bytes) const {
  const IndexedShard& info = index_.shards()[shard];
  std::uint64_t low = info.first_sample;
  std::uint64_t high = info.first_sample + info.sample_count;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (start_of(middle, shard) < offset_bytes) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

FetchUnits::Unit DatasetUnits::record_unit(std::size_t shard, std::uint64_t offset_bytes,
                                           std::uint64_t object_bytes) const {
  const IndexedShard& info = index_.shards()[shard];
  const std::uint64_t end_sample = info.first_sample + info.sample_count;
  const std::uint64_t after = first_from(shard, offset_bytes + 1);
  std::uint64_t begin = 0;
  std::uint64_t next = info.first_sample;  // the first sample of the next unit
  if (after > info.first_sample) {
    const std::uint64_t cell = start_of(after - 1, shard) / kCellBytes * kCellBytes;
    const std::uint64_t first = first_from(shard, cell);
    if (first > info.first_sample) begin = start_of(first, shard);  // else with the shard's head
    next = first_from(shard, cell + kCellBytes);
  } else if (next < end_sample) {  // in the shard's head, which goes with the first sample
    next = first_from(shard, start_of(next, shard) / kCellBytes * kCellBytes + kCellBytes);
  }
  const std::uint64_t end =
      next < end_sample ? std::min(start_of(next, shard), object_bytes) : object_bytes;
  // Records that are not stored in order could give a unit without the byte.
  if (begin > offset_bytes || end <= offset_bytes)
    return make_chunk_units(object_bytes)->at(offset_bytes);
  const std::uint64_t most = source_.token_dtype() ? kTokenUnitBytes : ChunkId::kSizeMax;
  begin += (offset_bytes - begin) / most * most;
  return {.offset_bytes = begin, .size_bytes = std::min(most, end - begin)};
}

double DatasetUnits::mean_record_unit_bytes() const {
  constexpr std::uint64_t kJudged = 256;
  const std::uint64_t count = index_.sample_count();
  if (count == 0) return 0;
  double sum = 0;
  std::uint64_t judged = 0;
  for (std::uint64_t i = 0; i < count; i += std::max<std::uint64_t>(count / kJudged, 1), ++judged) {
    const Result<SampleLocation> at = index_.locate(i);
    if (!at.ok()) continue;
    const std::uint64_t object_bytes = source_.shards()[at->shard].size_bytes;
    if (source_.is_compressed(at->shard)) {
      sum += static_cast<double>(object_bytes);
      continue;
    }
    // A record may be cut into several units.
    std::uint64_t place = at->record.offset_bytes;
    do {
      const FetchUnits::Unit unit = record_unit(at->shard, place, object_bytes);
      sum += static_cast<double>(unit.size_bytes);
      place = unit.offset_bytes + unit.size_bytes;
    } while (place < at->record.end_bytes());
  }
  return judged == 0 ? 0 : sum / static_cast<double>(judged);
}

const std::unordered_map<std::uint64_t, std::uint32_t>& DatasetUnits::shards_by_id() const {
  std::call_once(ids_made_, [this] {
    for (std::uint32_t i = 0; i < source_.shards().size(); ++i) {
      const ShardFile& shard = source_.shards()[i];
      const Digest128 id = object_id(source_.store().identity_of(shard.path),
                                     {.size_bytes = shard.size_bytes, .version = shard.mtime_ns});
      shard_of_id_.emplace(id.low, i);
    }
  });
  return shard_of_id_;
}

std::optional<SampleRange> DatasetUnits::samples_of(const ChunkId& id) const {
  const auto found = shards_by_id().find(id.object.low);
  if (found == shards_by_id().end()) return std::nullopt;
  const std::uint32_t shard = found->second;
  const IndexedShard& info = index_.shards()[shard];
  const SampleRange whole{.first = info.first_sample, .count = info.sample_count};
  if (source_.is_compressed(shard)) return whole;
  const std::uint64_t end = first_from(shard, id.offset_bytes + id.size_bytes);
  std::uint64_t first = first_from(shard, id.offset_bytes);
  if (first > whole.first) {  // the sample before may extend into the chunk
    const Result<SampleLocation> before = index_.locate(first - 1, shard);
    if (before.ok() && before->record.end_bytes() > id.offset_bytes) --first;
  }
  return SampleRange{.first = first, .count = end > first ? end - first : 0};
}

}  // namespace stoker
