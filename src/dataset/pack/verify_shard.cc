#include "dataset/pack/verify_shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hex.h"
#include "dataset/shards/sample_key.h"
#include "dataset/shards/shard_names.h"
#include "dataset/shards/shard_scan.h"
#include "io/engine/arena.h"
#include "store/open_object.h"

namespace stoker::internal {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

/// Removes the path from a message: the problem has it already.
VerifyProblem problem_of(const std::string& path, const Status& status) {
  std::string_view message = status.message();
  if (message.starts_with(path + ": ")) message.remove_prefix(path.size() + 2);
  return {.path = path, .message = std::string(message)};
}

struct Records {
  std::vector<ByteRange> ranges;
  std::vector<std::uint32_t> checksums;  ///< Empty: no checksums.
};

Result<Records> records_from(const Index& index, std::size_t shard) {
  Records records;
  const IndexedShard& entry = index.shards()[shard];
  for (std::uint64_t i = 0; i < entry.sample_count; ++i) {
    STOKER_ASSIGN(const SampleLocation at, index.locate(entry.first_sample + i));
    records.ranges.push_back(at.record);
    if (index.has_checksums()) records.checksums.push_back(at.crc32c);
  }
  return records;
}

class Collect final : public RecordSink {
 public:
  Status add(ByteRange record, std::string_view /*key*/) override {
    ranges.push_back(record);
    return {};
  }
  std::vector<ByteRange> ranges;
};

Result<Records> records_by_scan(const ShardSource& source, std::size_t shard,
                                std::span<const std::byte> inflated, const std::stop_token& stop) {
  if (source.is_compressed(shard)) {
    STOKER_ASSIGN(const std::unique_ptr<ShardScanner> scanner, source.scan(shard, inflated.size()));
    Collect found;
    for (ByteRange wanted = scanner->wants(); wanted.size_bytes > 0; wanted = scanner->wants())
      STOKER_TRY(scanner->feed(inflated.subspan(wanted.offset_bytes), found));
    return Records{.ranges = std::move(found.ranges), .checksums = {}};
  }
  STOKER_ASSIGN(const std::unique_ptr<const Object> object,
                open_object(source.store(), source.shards()[shard].path));
  STOKER_ASSIGN(const std::unique_ptr<ShardScanner> scanner,
                source.scan(shard, object->info().size_bytes));
  STOKER_ASSIGN(const MappedArena memory, MappedArena::map(kScanBytes, false, true));
  STOKER_ASSIGN(std::vector<ByteRange> ranges, scan_shard(*object, *scanner, memory.bytes(), stop));
  return Records{.ranges = std::move(ranges), .checksums = {}};
}

/// The bytes of one shard, compressed or not.
class ShardBytes {
 public:
  static Result<ShardBytes> open(const ShardSource& source, std::size_t shard) {
    const ShardFile& file = source.shards()[shard];
    ShardBytes bytes;
    if (source.is_compressed(shard)) {
      STOKER_ASSIGN(const std::vector<std::byte> packed,
                    read_head(source.store(), file.path, file.size_bytes));
      STOKER_ASSIGN(bytes.inflated_, source.inflate(shard, packed));
    } else {
      STOKER_ASSIGN(bytes.object_, open_object(source.store(), file.path, CachePolicy::buffered));
    }
    return bytes;
  }

  std::span<const std::byte> inflated() const { return inflated_; }

  /// Valid until the next call.
  Result<std::span<const std::byte>> get(ByteRange range) {
    if (object_ == nullptr) {
      if (range.end_bytes() > inflated_.size())
        return Status(Code::corrupt, "extends past the end of its shard");
      return std::span<const std::byte>(inflated_).subspan(range.offset_bytes, range.size_bytes);
    }
    memory_.resize(range.size_bytes);
    STOKER_ASSIGN(const std::span<const std::byte> bytes,
                  object_->read(range.offset_bytes, range.size_bytes, memory_));
    if (bytes.size() < range.size_bytes)
      return Status(Code::corrupt, "extends past the end of its shard");
    return bytes;
  }

 private:
  ShardBytes() = default;

  std::unique_ptr<const Object> object_;
  std::vector<std::byte> inflated_;
  std::vector<std::byte> memory_;
};

std::string key_of(const SampleView& view, const std::string& shard_name, std::uint64_t number) {
  const std::string_view own = key_of_sample(view);
  return own.empty() ? numbered_key(shard_name, number) : std::string(own);
}

}  // namespace

Result<bool> verify_file(ObjectStore& store, const std::string& path, const ManifestFile& expected,
                         VerifyCounter& counter, std::vector<VerifyProblem>& problems) {
  const std::size_t before = problems.size();
  const auto compare = [&]() -> Status {
    STOKER_ASSIGN(const std::unique_ptr<const Object> object,
                  store.open(path, CachePolicy::buffered));
    const std::uint64_t size_bytes = object->info().size_bytes;
    if (size_bytes != expected.size_bytes) {
      problems.push_back({.path = path,
                          .message = fmt::format("has {} bytes, the manifest says {}", size_bytes,
                                                 expected.size_bytes)});
      return {};
    }
    Sha256Stream stream;
    std::vector<std::byte> piece(std::min<std::uint64_t>(kPieceBytes, size_bytes));
    for (std::uint64_t at = 0; at < size_bytes;) {
      if (counter.stop.stop_requested()) return Status(Code::cancelled, "stopped while verifying");
      const std::size_t wanted = std::min<std::uint64_t>(piece.size(), size_bytes - at);
      STOKER_ASSIGN(const std::span<const std::byte> bytes, object->read(at, wanted, piece));
      stream.update(bytes);
      at += bytes.size();
      counter.bytes.fetch_add(bytes.size(), std::memory_order_relaxed);
    }
    STOKER_ASSIGN(const Sha256Digest digest, stream.digest());
    if (digest != expected.sha256)
      problems.push_back({.path = path,
                          .message = fmt::format("its SHA-256 is {}, the manifest says {}",
                                                 format_hex(digest), format_hex(expected.sha256))});
    return {};
  };
  const Status status = compare();
  if (status.code() == Code::cancelled) return status;
  if (!status.ok()) problems.push_back(problem_of(path, status));
  return problems.size() == before;
}

Status verify_samples(const ShardSource& source, std::size_t shard, const Index* index,
                      VerifyCounter& counter, ShardVerdict& verdict) {
  const ShardFile& file = source.shards()[shard];
  Result<ShardBytes> bytes = ShardBytes::open(source, shard);
  if (!bytes.ok()) {
    if (!verdict.problems.empty())
      return {};  // already reported by the comparison with the manifest
    verdict.problems.push_back(problem_of(file.path, bytes.status()));
    return {};
  }
  const Status digests = check_digests(source, shard);
  if (!digests.ok()) verdict.problems.push_back(problem_of(file.path, digests));
  const Result<Records> records =
      index != nullptr ? records_from(*index, shard)
                       : records_by_scan(source, shard, bytes->inflated(), counter.stop);
  if (records.status().code() == Code::cancelled) return records.status();
  if (!records.ok()) {
    verdict.problems.push_back(problem_of(file.path, records.status()));
    return {};
  }
  SampleView view;
  for (std::size_t i = 0; i < records->ranges.size(); ++i) {
    if (counter.stop.stop_requested()) return Status(Code::cancelled, "stopped while verifying");
    const ByteRange range = records->ranges[i];
    const Result<std::span<const std::byte>> record = bytes->get(range);
    Status status = record.status();
    view.clear();
    if (record.ok()) {
      status = source.reader().split(*record, range.offset_bytes, view);
      if (!status.ok()) view.clear();
      if (!records->checksums.empty() && crc32c(*record) != records->checksums[i])
        status = Status(Code::corrupt,
                        "checksum mismatch: the shard was damaged after it was "
                        "written");
    }
    ++verdict.sample_count;
    counter.bytes.fetch_add(range.size_bytes, std::memory_order_relaxed);
    if (status.ok()) continue;
    VerifyProblem problem = problem_of(file.path, status);
    problem.offset_bytes = range.offset_bytes;
    problem.key = key_of(view, file.name, i);
    verdict.problems.push_back(std::move(problem));
  }
  return {};
}

}  // namespace stoker::internal
