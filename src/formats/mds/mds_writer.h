/// \file
/// Writes MDS shards, the bytes that mosaicml-streaming's MDSWriter writes for the same columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/mds/mds_index.h"
#include "formats/shard_format.h"

namespace stoker {

/// Collects one shard in memory: its header says where each sample lies, and comes first. A copy
/// is made at the end if it is to be compressed or hashed.
///
/// Thread safety: none.
class MdsWriter final : public ShardWriter {
 public:
  struct Options {
    /// Name and encoding, in any order; the shard has them sorted. None: as the first sample's
    /// fields are.
    std::vector<std::pair<std::string, std::string>> columns = {};
    /// "zstd", "zstd:7", "gz", ...: the whole shard. Empty: none.
    std::string compression = {};
    /// Names that is_mds_hash() knows, sorted.
    std::vector<std::string> hashes = {};
    /// Only noted in the header, as the peer does; whoever cuts the shards keeps to it.
    std::optional<std::uint64_t> size_limit_bytes = std::uint64_t{1} << 26;
    /// Of the raw shard, for the index; a compressed one gets its extension behind it.
    std::string basename = "shard.00000.mds";
    /// The column that gets the sample's key as "str"; empty: the key is not written.
    std::string key_field = {};
  };

  /// `sink` outlives the writer. `invalid_argument` for columns, compressions and hashes that are
  /// none.
  static Result<std::unique_ptr<MdsWriter>> make(Options options, ByteSink& sink);

  /// Each sample has all columns as its fields, and no others.
  Status append(const SampleView& sample) override;
  /// The size the shard would have with `sample` in it. A shard is full, for the peer, when that is
  /// more than its limit.
  Result<std::uint64_t> size_with(const SampleView& sample);

  /// No sidecars: what the index says of the shard is shard().
  Result<std::vector<Sidecar>> finish() override;

  std::uint64_t sample_count() const noexcept override { return sizes_bytes_.size(); }
  /// Before compression.
  std::uint64_t size_bytes() const noexcept override;
  /// Counted from the start of the shard as it is now: each later sample moves all of them by 4
  /// bytes, and they are final after finish().
  ByteRange last_record() const noexcept override;

  /// The entry for index.json, after finish().
  const MdsShard& shard() const noexcept { return shard_; }

 private:
  MdsWriter(Options options, ByteSink& sink) : options_(std::move(options)), sink_(sink) {}

  Status set_columns(std::vector<MdsColumn> columns);
  Status choose_columns(const SampleView& sample);
  void forget_columns();
  /// Into scratch_. Columns that it had to choose stay chosen.
  Status encode(const SampleView& sample);
  std::vector<std::byte> make_header() const;
  Status write_file(std::span<const std::byte> header);

  Options options_;
  ByteSink& sink_;
  MdsShard shard_;
  std::string config_text_;
  bool has_columns_ = false;
  bool finished_ = false;
  std::vector<std::byte> scratch_;  ///< The sample being encoded.
  std::vector<std::byte> samples_;
  std::vector<std::uint32_t> sizes_bytes_;
};

}  // namespace stoker
