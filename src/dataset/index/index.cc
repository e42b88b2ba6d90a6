#include "dataset/index/index.h"

#include <algorithm>

#include "dataset/index/index_layout.h"
#include "io/mapped_file.h"

namespace stoker {
namespace {

using namespace index_layout;

Status damaged(const std::string& what) {
  return Status(Code::corrupt, "index: " + what + "; rebuild it with `stoker index`");
}

Result<Header> check_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) return damaged("shorter than its header");
  const auto header = load<Header>(bytes);
  if (header.magic != kMagic) return damaged("not an index file");
  if (header.version_major != kVersionMajor) {
    const bool is_newer = header.version_major > kVersionMajor;
    return Status(Code::unsupported, std::string("index: written by ") +
                                         (is_newer ? "a newer" : "an older") + " Stoker (format " +
                                         std::to_string(header.version_major) +
                                         "); rebuild it with `stoker index`");
  }
  const std::size_t digested = kHeaderBytes - kDigestBytes;
  if (xxh3_128(bytes.first(digested)) != load_digest(bytes.subspan(digested)))
    return damaged("the header is damaged");
  return header;
}

/// Bounds every count by the file's size before anything is allocated.
Status check_sections(const Header& header, std::uint64_t file_bytes) {
  const std::uint64_t body = file_bytes - kHeaderBytes;
  if (header.sample_count > body / kRecordBytes || header.shards_bytes > body ||
      header.shard_count > body / sizeof(Shard))
    return damaged("its counts exceed its size");
  const std::uint64_t blocks = block_count(header.sample_count);
  if (blocks * (kBlockBytes + kDigestBytes) + header.shards_bytes != body)
    return damaged("its size does not match its header");
  std::uint64_t counted = 0;
  for (const std::uint64_t count : header.size_classes) {
    if (count > header.sample_count - counted)
      return damaged("it counts more sizes than it has samples");
    counted += count;
  }
  if (counted != header.sample_count) return damaged("it counts fewer sizes than it has samples");
  return {};
}

Result<std::vector<IndexedShard>> parse_shards(std::span<const std::byte> table,
                                               const Header& header) {
  std::vector<IndexedShard> shards;
  shards.reserve(header.shard_count);
  std::uint64_t first_sample = 0;
  for (std::uint64_t i = 0; i < header.shard_count; ++i) {
    if (table.size() < sizeof(Shard)) return damaged("the shard table ends early");
    const auto shard = load<Shard>(table);
    table = table.subspan(sizeof(Shard));
    if (table.size() < shard.name_bytes)
      return damaged("a shard's name extends past the end of the table");
    if (shard.sample_count > header.sample_count - first_sample)
      return damaged("the shards have more samples than the header says");
    const auto* name = reinterpret_cast<const char*>(table.data());
    shards.push_back({.name = std::string(name, shard.name_bytes),
                      .size_bytes = shard.size_bytes,
                      .plain_size_bytes = shard.plain_size_bytes,
                      .mtime_ns = shard.mtime_ns,
                      .first_sample = first_sample,
                      .sample_count = shard.sample_count});
    table = table.subspan(shard.name_bytes);
    first_sample += shard.sample_count;
  }
  if (!table.empty()) return damaged("the shard table has bytes left over");
  if (first_sample != header.sample_count)
    return damaged("the shards have fewer samples than the header says");
  return shards;
}

}  // namespace

Result<Index> Index::open(const PathAt& path) {
  STOKER_ASSIGN(MappedFile file, MappedFile::open(path, MapAdvice::random));
  const auto mapping = std::make_shared<const MappedFile>(std::move(file));
  Result<Index> index = parse(mapping->bytes());
  if (!index.ok()) return index.status().with_context(path.text());
  index->mapping_ = mapping;
  return index;
}

Result<Index> Index::adopt(std::vector<std::byte> bytes) {
  const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  STOKER_ASSIGN(Index index, parse(*kept));
  index.mapping_ = kept;
  return index;
}

Result<Index> Index::parse(std::span<const std::byte> bytes) {
  STOKER_ASSIGN(const Header header, check_header(bytes));
  STOKER_TRY(check_sections(header, bytes.size()));
  const std::uint64_t blocks = block_count(header.sample_count);
  Index index;
  const auto records = bytes.subspan(kHeaderBytes, blocks * kBlockBytes);
  const auto table = bytes.subspan(kHeaderBytes + records.size(), header.shards_bytes);
  const auto digests = bytes.last(blocks * kDigestBytes);
  if (xxh3_128(table) !=
      Digest128{.low = header.shards_digest_low, .high = header.shards_digest_high})
    return damaged("the shard table is damaged");
  if (xxh3_128(digests) !=
      Digest128{.low = header.digests_digest_low, .high = header.digests_digest_high})
    return damaged("the table of checksums is damaged");
  STOKER_ASSIGN(index.shards_, parse_shards(table, header));
  const auto end = std::find(header.format.begin(), header.format.end(), '\0');
  index.format_.assign(header.format.begin(), end);
  index.has_checksums_ = (header.flags & kFlagChecksums) != 0;
  index.sample_count_ = header.sample_count;
  index.record_bytes_max_ = header.record_bytes_max;
  index.size_classes_ = header.size_classes;
  index.fingerprint_ = {.low = header.fingerprint_low, .high = header.fingerprint_high};
  index.records_ = CheckedBlocks(records, digests);
  return index;
}

Status Index::check_block(std::uint64_t block) const {
  if (records_.is_good(block)) return {};
  return damaged("the entries from sample " + std::to_string(block * kRecordsPerBlock) +
                 " on are damaged");
}

void Index::prefetch(std::uint64_t sample) const noexcept {
  if (sample < sample_count_) __builtin_prefetch(records_.bytes().data() + sample * kRecordBytes);
}

Result<SampleLocation> Index::locate(std::uint64_t sample, std::uint32_t shard_hint) const {
  if (sample >= sample_count_)
    return Status(Code::invalid_argument, "there is no sample " + std::to_string(sample) +
                                              ": there are " + std::to_string(sample_count_) +
                                              ", from 0");
  STOKER_TRY(check_block(sample / kRecordsPerBlock));
  const auto entry = load<Record>(records_.bytes().subspan(sample * kRecordBytes, kRecordBytes));
  const ByteRange record = entry.place();
  std::uint32_t number = shard_hint;
  // Unsigned: for a sample before the shard the difference is larger than any count.
  if (number >= shards_.size() ||
      sample - shards_[number].first_sample >= shards_[number].sample_count) {
    const auto after = std::upper_bound(shards_.begin(), shards_.end(), sample,
                                        [](std::uint64_t wanted, const IndexedShard& shard) {
                                          return wanted < shard.first_sample;
                                        });
    number = static_cast<std::uint32_t>(after - 1 - shards_.begin());
  }
  const IndexedShard& shard = shards_[number];
  if (record.offset_bytes > shard.plain_size_bytes ||
      record.size_bytes > shard.plain_size_bytes - record.offset_bytes)
    return damaged("sample " + std::to_string(sample) + " is outside its shard");
  if (record.size_bytes > record_bytes_max_)
    return damaged("sample " + std::to_string(sample) + " is larger than the largest");
  return SampleLocation{.shard = number, .record = record, .crc32c = entry.crc32c};
}

bool Index::claims_checksums(const PathAt& path) {
  const Result<MappedFile> file = MappedFile::open(path, MapAdvice::random);
  if (!file.ok() || file->bytes().size() < kHeaderBytes) return false;
  const auto header = load<Header>(file->bytes());
  return header.magic == kMagic && header.version_major == kVersionMajor &&
         (header.flags & kFlagChecksums) != 0;
}

Status Index::verify() const {
  for (std::uint64_t block = 0; block < records_.count(); ++block) STOKER_TRY(check_block(block));
  return {};
}

}  // namespace stoker
