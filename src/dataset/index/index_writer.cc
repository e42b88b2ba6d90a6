#include <algorithm>
#include <bit>
#include <cstring>

#include "dataset/index/index.h"
#include "dataset/index/index_layout.h"
#include "formats/table/shard_formats.h"

namespace stoker {
namespace {

static_assert(std::endian::native == std::endian::little, "index files are little-endian");

using namespace index_layout;

template <typename T>
void put(std::vector<std::byte>& out, const T& value) {
  const std::size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

/// The name of a shard in the fingerprint: without directories, so that shards may be moved. Some
/// formats keep the directories, because several of their datasets can be read as one, with shards
/// of the same name and often the same size.
std::string_view identity_of(std::string_view name, std::string_view format) {
  const ShardFormat* const known = find_shard_format(format);
  return known != nullptr && known->keeps_folders ? name : name.substr(name.rfind('/') + 1);
}

/// Hashes names, sizes, counts, then every record without its checksum: adding checksums to an
/// index must not change the fingerprint.
Digest128 fingerprint_of(std::string_view format, const std::vector<IndexedShard>& shards,
                         std::span<const std::byte> records) {
  Xxh3Stream stream;
  for (const IndexedShard& shard : shards) {
    const std::string_view name = identity_of(shard.name, format);
    const std::array<std::uint64_t, 3> numbers = {name.size(), shard.size_bytes,
                                                  shard.sample_count};
    stream.update(std::as_bytes(std::span(numbers)));
    stream.update(std::as_bytes(std::span(name)));
  }
  constexpr std::size_t kBatch = 1024;
  std::vector<std::byte> places;
  for (std::size_t at = 0; at < records.size();) {
    places.clear();
    for (std::size_t i = 0; i < kBatch && at < records.size(); ++i, at += kRecordBytes) {
      const auto place = records.subspan(at, kRecordBytes - sizeof(Record::crc32c));
      places.insert(places.end(), place.begin(), place.end());
    }
    stream.update(places);
  }
  return stream.digest();
}

std::vector<std::byte> shard_table(const std::vector<IndexedShard>& shards) {
  std::vector<std::byte> table;
  for (const IndexedShard& shard : shards) {
    put(table, Shard{.size_bytes = shard.size_bytes,
                     .plain_size_bytes = shard.plain_size_bytes,
                     .mtime_ns = shard.mtime_ns,
                     .sample_count = shard.sample_count,
                     .name_bytes = static_cast<std::uint32_t>(shard.name.size()),
                     .reserved = 0});
    const auto name = std::as_bytes(std::span(shard.name));
    table.insert(table.end(), name.begin(), name.end());
  }
  return table;
}

}  // namespace

IndexWriter::IndexWriter(std::string format, bool has_checksums)
    : format_(std::move(format)), has_checksums_(has_checksums) {}

void IndexWriter::add_shard(std::string name, std::uint64_t size_bytes,
                            std::uint64_t plain_size_bytes, std::int64_t mtime_ns) {
  shards_.push_back({.name = std::move(name),
                     .size_bytes = size_bytes,
                     .plain_size_bytes = plain_size_bytes,
                     .mtime_ns = mtime_ns,
                     .first_sample = records_.size() / kRecordBytes,
                     .sample_count = 0});
}

Status IndexWriter::add_sample(ByteRange record, std::uint32_t crc32c) {
  if (record.offset_bytes > kPlaceMax || record.size_bytes > kPlaceMax)
    return Status(Code::unsupported, "a shard of 256 TiB or more cannot be indexed: split it");
  put(records_, Record::make(record, crc32c));
  ++shards_.back().sample_count;
  ++size_classes_[SizeClasses::index_of(record.size_bytes)];
  record_bytes_max_ = std::max(record_bytes_max_, record.size_bytes);
  return {};
}

std::vector<std::byte> IndexWriter::finish() {
  const std::uint64_t sample_count = records_.size() / kRecordBytes;
  const Digest128 fingerprint = fingerprint_of(format_, shards_, records_);
  const std::vector<std::byte> shards = shard_table(shards_);
  records_.resize(block_count(sample_count) * kBlockBytes);
  std::vector<std::byte> digests;
  for (std::size_t at = 0; at < records_.size(); at += kBlockBytes) {
    const Digest128 digest = xxh3_128(std::span(records_).subspan(at, kBlockBytes));
    put(digests, digest.low);
    put(digests, digest.high);
  }
  const Digest128 shards_digest = xxh3_128(shards);
  const Digest128 digests_digest = xxh3_128(digests);

  Header header{.magic = kMagic,
                .version_major = kVersionMajor,
                .version_minor = kVersionMinor,
                .flags = has_checksums_ ? kFlagChecksums : 0,
                .format = {},
                .sample_count = sample_count,
                .shard_count = shards_.size(),
                .shards_bytes = shards.size(),
                .fingerprint_low = fingerprint.low,
                .fingerprint_high = fingerprint.high,
                .shards_digest_low = shards_digest.low,
                .shards_digest_high = shards_digest.high,
                .digests_digest_low = digests_digest.low,
                .digests_digest_high = digests_digest.high,
                .record_bytes_max = record_bytes_max_,
                .size_classes = size_classes_};
  format_.copy(header.format.data(), header.format.size() - 1);  // the last byte stays NUL

  std::vector<std::byte> file;
  file.reserve(kHeaderBytes + records_.size() + shards.size() + digests.size());
  put(file, header);
  file.resize(kHeaderBytes - kDigestBytes);
  const Digest128 header_digest = xxh3_128(file);
  put(file, header_digest.low);
  put(file, header_digest.high);
  file.insert(file.end(), records_.begin(), records_.end());
  file.insert(file.end(), shards.begin(), shards.end());
  file.insert(file.end(), digests.begin(), digests.end());
  return file;
}

}  // namespace stoker
