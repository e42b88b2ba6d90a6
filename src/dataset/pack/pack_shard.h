#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "dataset/input/input.h"
#include "dataset/pack/pack_part.h"
#include "dataset/pack/pack_writer.h"
#include "dataset/pack/shard_output.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// Packs one shard from appended samples. Its final name exists only if the shard is complete:
///
/// 1. Writes the samples to a staging file and syncs it; the same for the shard's sidecars.
/// 2. Publishes the part (the shard's entries for manifest and index).
/// 3. Renames the staging file, then the sidecars: a shard with all its files is finished.
///
/// If it is destroyed before finish(), it leaves nothing.
///
/// Thread safety: none; several shards may be packed at the same time.
class ShardPacker {
 public:
  struct Options {
    PathAt directory;
    std::string name;
    std::string plan_hash;
  };
  static Result<std::unique_ptr<ShardPacker>> make(FileOps& ops, const PackWriterOptions& writer,
                                                   Options options);

  /// Converts the fields to types that the format has (fit_fields), and adds the sample.
  /// `invalid_argument` if the format cannot store them; the message does not name the sample.
  Status append(SampleView& sample);
  /// Completes step 1 and runs steps 2 and 3; nothing may be appended afterwards.
  Status finish();

 private:
  ShardPacker(FileOps& ops, const ShardFormat& format, Options options)
      : ops_(ops), format_(format), options_(std::move(options)) {
    if (format.has_name_types) types_.emplace();
  }
  void add_types(const SampleView& sample, std::span<const FieldView> given);

  FileOps& ops_;
  const ShardFormat& format_;
  const Options options_;
  std::unique_ptr<ShardOutput> output_;
  PackWriter writer_;                // writes to output_
  std::optional<FieldTypes> types_;  // of fields, where the format does not store them
  FieldLosses losses_;
  std::vector<FieldView> given_;      // of append(): the fields before they were converted
  std::vector<std::uint64_t> sizes_;  // of MDS records, whose offsets are known at the end
};

struct ShardJob {
  PathAt directory;
  std::string name;
  std::string plan_hash;
  std::span<const std::uint64_t> samples;  ///< Numbers in the input, in the order of the shard.
  unsigned reader_count = 0;               ///< Threads that read samples ahead; 0: none.
  std::function<void(std::uint64_t size_bytes)> on_sample = {};
  std::stop_token stop = {};
};

/// Packs one shard of a input with a ShardPacker.
Status pack_shard(FileOps& ops, const PackInput& input, const PackWriterOptions& options,
                  const ShardJob& job);

/// Whether an earlier run of the same plan finished the shard. Removes what such a run left
/// unfinished. `already_exists` for a file of that name that is not from this plan.
Result<bool> is_shard_finished(FileOps& ops, const PathAt& directory, const std::string& name,
                               const std::string& plan_hash);

/// Whether all files of the part exist with the right sizes.
Result<bool> is_part_complete(FileOps& ops, const PathAt& directory, const PackPart& part);

}  // namespace stoker
