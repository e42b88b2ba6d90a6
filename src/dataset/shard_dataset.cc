#include "dataset/shard_dataset.h"

#include <algorithm>
#include <new>

#include "base/checksum.h"
#include "dataset/shards/dataset_manifest.h"
#include "dataset/shards/sample_key.h"
#include "dataset/shards/shard_names.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace {

constexpr std::size_t kMemoryAlignBytes = 4096;

/// Enough for all shards, but at most half of what the process has left: others may need the rest.
OpenFilesShare share_of_open_files(std::size_t shard_count, std::size_t wanted) {
  if (wanted != 0) return OpenFilesShare::insist(std::min(shard_count, wanted));
  return OpenFilesShare::take(shard_count, /*parts=*/2);
}

std::shared_ptr<std::byte[]> aligned_memory(std::size_t size_bytes) {
  constexpr std::align_val_t kAlign{kMemoryAlignBytes};
  return {static_cast<std::byte*>(::operator new(size_bytes, kAlign)),
          [](std::byte* memory) { ::operator delete(memory, kAlign); }};
}

/// The key in a damaged record, for messages only: the key may be damaged too.
std::string key_of_damaged(const ShardReader& reader, const SampleLocation& at,
                           std::span<const std::byte> record) {
  SampleView view;
  if (!reader.split(record, at.record.offset_bytes, view).ok()) return {};
  return std::string(key_of_sample(view));
}

}  // namespace

std::span<std::byte> SampleRecord::room(std::size_t size_bytes) {
  // If views of the last sample still exist, they keep its memory, and new memory is allocated.
  if (memory_bytes_ < size_bytes || memory_.use_count() > 1) {
    memory_bytes_ = (size_bytes / kMemoryAlignBytes + 1) * kMemoryAlignBytes;
    memory_ = aligned_memory(memory_bytes_);
  }
  return {memory_.get(), memory_bytes_};
}

ShardDataset::ShardDataset(std::unique_ptr<ShardSource> source, IndexFile index,
                           const Options& options)
    : source_(std::move(source)),
      index_(std::move(index.index)),
      index_path_(std::move(index.path)),
      index_refused_(std::move(index.refused)),
      index_damage_(std::move(index.damage)),
      policy_(options.policy),
      open_files_(share_of_open_files(source_->shards().size(), options.open_shards_max)),
      open_(std::make_unique<std::atomic<const Object*>[]>(open_files_.count())) {
  if (!options.cache) return;
  cache_ = options.cache;
  cache_units_ = std::make_shared<DatasetUnits>(*source_, index_);
  // Samples are read at random until a loader says otherwise.
  if (cache_units_->dataset_bytes() > cache_->options().size_bytes)
    cache_units_->use(FetchUnit::records);
  cached_store_ = ShardCache::over(cache_, std::shared_ptr<ObjectStore>(source_, &source_->store()),
                                   cache_units_);
}

ShardDataset::~ShardDataset() {
  for (std::size_t i = 0; i < open_shards_max(); ++i)
    delete open_[i].load(std::memory_order_acquire);
}

Result<std::shared_ptr<const ShardDataset>> ShardDataset::open(
    std::span<const std::string> patterns, const Options& options) {
  STOKER_ASSIGN(std::unique_ptr<ShardSource> source, open_shards(patterns, options.source));
  STOKER_TRY(check_against_manifest(*source));
  STOKER_ASSIGN(IndexFile index, open_index_file(*source, options.index));
  return std::shared_ptr<const ShardDataset>(
      new ShardDataset(std::move(source), std::move(index), options));
}

Result<std::shared_ptr<const Object>> ShardDataset::lend_shard(std::size_t shard) const {
  const auto lent = [](const Object* object) {
    return std::shared_ptr<const Object>(std::shared_ptr<const void>(), object);  // owns nothing
  };
  const bool stays_open = shard < open_shards_max();
  if (stays_open) {
    if (const Object* object = open_[shard].load(std::memory_order_acquire)) return lent(object);
  }
  STOKER_ASSIGN(std::unique_ptr<const Object> mine,
                internal::open_shard(sample_store(), source_->shards()[shard], policy_));
  if (!stays_open) return std::shared_ptr<const Object>(std::move(mine));
  const Object* seen = nullptr;
  if (open_[shard].compare_exchange_strong(seen, mine.get(), std::memory_order_acq_rel,
                                           std::memory_order_acquire))
    return lent(mine.release());
  return lent(seen);  // another thread was faster
}

Result<InflatedCache::Bytes> ShardDataset::inflate_shard(std::size_t shard) const {
  if (InflatedCache::Bytes bytes = inflated_.find(shard)) return bytes;
  const ShardFile& info = source_->shards()[shard];
  STOKER_ASSIGN(const std::vector<std::byte> packed, internal::read_packed(sample_store(), info));
  STOKER_ASSIGN(std::vector<std::byte> plain, source_->inflate(shard, packed));
  auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(plain));
  inflated_.put(shard, bytes);
  return InflatedCache::Bytes(std::move(bytes));
}

Result<std::span<const std::byte>> ShardDataset::read_record(const SampleLocation& at,
                                                             SampleRecord& out) const {
  if (source_->is_compressed(at.shard)) {
    STOKER_ASSIGN(const InflatedCache::Bytes plain, inflate_shard(at.shard));
    if (at.record.end_bytes() > plain->size())
      return Status(Code::corrupt, "the record is outside its shard");
    const std::span<std::byte> memory = out.room(at.record.size_bytes).first(at.record.size_bytes);
    std::ranges::copy(std::span(*plain).subspan(at.record.offset_bytes, at.record.size_bytes),
                      memory.begin());
    return std::span<const std::byte>(memory);
  }
  STOKER_ASSIGN(const std::shared_ptr<const Object> object, lend_shard(at.shard));
  const std::span<std::byte> memory =
      out.room(object->scratch_bytes(at.record.offset_bytes, at.record.size_bytes));
  STOKER_ASSIGN(const std::span<const std::byte> bytes,
                object->read(at.record.offset_bytes, at.record.size_bytes, memory));
  if (bytes.size() != at.record.size_bytes)
    return Status(Code::corrupt, "the shard ends inside the record");
  return bytes;
}

Status ShardDataset::check_record(const SampleLocation& at,
                                  std::span<const std::byte> record) const {
  if (!index_.has_checksums() || crc32c(record) == at.crc32c) return {};
  const std::string key = key_of_damaged(source_->reader(), at, record);
  return Status(Code::corrupt,
                (key.empty() ? "" : "key " + quote_for_message(key) + ": ") +
                    "checksum mismatch: the shard was damaged after it was indexed; restore it "
                    "from its source, or, if it was changed on purpose, run stoker index --rebuild "
                    "--checksums");
}

Status ShardDataset::read_and_split(std::uint64_t sample, const SampleLocation& at,
                                    SampleRecord& out) const {
  STOKER_ASSIGN(const std::span<const std::byte> record, read_record(at, out));
  STOKER_TRY(check_record(at, record));
  STOKER_TRY(source_->reader().split(record, at.record.offset_bytes, out.view_));
  out.key_ = key_of(out.view_, sample, at.shard);
  return {};
}

Status ShardDataset::read(std::uint64_t sample, SampleRecord& out) const {
  out.view_.clear();
  out.key_.clear();
  STOKER_ASSIGN(const SampleLocation at, index_.locate(sample));
  const Status status = read_and_split(sample, at, out);
  if (status.ok()) return {};
  out.view_.clear();
  return status.with_context(describe(sample));
}

std::string ShardDataset::key_of(const SampleView& view, std::uint64_t sample,
                                 std::size_t shard) const {
  const std::string_view own = key_of_sample(view);
  return own.empty() ? numbered_key(sample, shard) : std::string(own);
}

std::string_view ShardDataset::own_key(const SampleView& view) noexcept {
  return key_of_sample(view);
}

std::string ShardDataset::numbered_key(std::uint64_t sample, std::size_t shard) const {
  const IndexedShard& info = index_.shards()[shard];
  return stoker::numbered_key(info.name, sample - info.first_sample);
}

std::string ShardDataset::describe(std::uint64_t sample) const {
  const Result<SampleLocation> at = index_.locate(sample);
  if (!at.ok()) return "sample " + std::to_string(sample);
  return source_->uri_of(at->shard) + ": sample " + std::to_string(sample) + " at byte " +
         std::to_string(at->record.offset_bytes);
}

}  // namespace stoker
