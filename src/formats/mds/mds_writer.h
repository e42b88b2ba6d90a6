/// \file
/// Writes MDS shards, byte for byte as mosaicml-streaming's MDSWriter does for the same columns.
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

/// Collects one shard in memory, because its header, which comes first, has the offset of each
/// sample. Makes a copy at the end if the shard is compressed or hashed.
///
/// Thread safety: none.
class MdsWriter final : public ShardWriter {
 public:
  struct Options {
    /// Name and encoding, in any order; the shard has them sorted. Empty: chosen from the fields of
    /// the first sample.
    std::vector<std::pair<std::string, std::string>> columns = {};
    /// "zstd", "zstd:7", "gz", ...: compresses the whole shard. Empty: no compression.
    std::string compression = {};
    /// Names for which is_mds_hash() is true, sorted.
    std::vector<std::string> hashes = {};
    /// Only recorded in the header, as MDSWriter does; the caller must observe it.
    std::optional<std::uint64_t> size_limit_bytes = std::uint64_t{1} << 26;
    /// Name of the raw shard in the index; a compressed shard has its extension appended.
    std::string basename = "shard.00000.mds";
    /// The column that stores the sample's key as "str"; empty: the key is not written.
    std::string key_field = {};
  };

  /// `sink` outlives the writer. `invalid_argument` for invalid columns, compressions and hashes.
  static Result<std::unique_ptr<MdsWriter>> make(Options options, ByteSink& sink);

  /// Each sample must have exactly the columns, except `key_field`, as its fields.
  Status append(const SampleView& sample) override;
  /// Returns the size of the shard if `sample` were added. MDSWriter considers a shard full when
  /// that exceeds the limit.
  Result<std::uint64_t> size_with(const SampleView& sample);

  /// Returns no sidecars: shard() is the entry for the index.
  Result<std::vector<Sidecar>> finish() override;

  std::uint64_t sample_count() const noexcept override { return sizes_bytes_.size(); }
  /// Before compression.
  std::uint64_t size_bytes() const noexcept override;
  /// Relative to the start of the shard as it is now: each later sample moves all records by 4
  /// bytes. Final after finish().
  ByteRange last_record() const noexcept override;

  /// The shard's entry for index.json. Valid after finish().
  const MdsShard& shard() const noexcept { return shard_; }

 private:
  MdsWriter(Options options, ByteSink& sink) : options_(std::move(options)), sink_(sink) {}

  Status set_columns(std::vector<MdsColumn> columns);
  Status choose_columns(const SampleView& sample);
  void forget_columns();
  /// Encodes into scratch_. Sets the columns if they are not set yet.
  Status encode(const SampleView& sample);
  /// Names the field that has no column.
  Status refuse_new_field(const SampleView& sample) const;
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
