#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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

/// Packs one shard from samples that are handed to it, so that its final name stands for all of it
/// or does not exist:
///
/// 1. The samples are written to a staging file, which is fsynced; so are the shard's sidecars.
/// 2. The part (what the manifest and the index will say of it) is published.
/// 3. The staging file is renamed, then the sidecars: a shard with all its files was finished.
///
/// Destroyed before finish(), it leaves nothing.
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

  /// Turns the fields into what the format can hold (fit_fields), and adds the sample.
  /// `invalid_argument` if it cannot hold them; the message does not say which sample it was.
  Status append(SampleView& sample);
  /// Steps 2 and 3; nothing may be appended afterwards.
  Status finish();

 private:
  ShardPacker(FileOps& ops, const ShardFormat& format, Options options)
      : ops_(ops), format_(format), options_(std::move(options)) {}

  FileOps& ops_;
  const ShardFormat& format_;
  const Options options_;
  std::unique_ptr<ShardOutput> output_;
  PackWriter writer_;                 // writes to output_
  std::vector<std::uint64_t> sizes_;  // of MDS's records, whose places are known at the end
};

struct ShardJob {
  PathAt directory;
  std::string name;
  std::string plan_hash;
  std::span<const std::uint64_t> samples;  ///< Of the source, in the order of the shard.
  unsigned reader_count = 0;               ///< Samples read at a time, besides.
  std::function<void(std::uint64_t size_bytes)> on_sample = {};
  std::stop_token stop = {};
};

/// Packs one shard of a source with a ShardPacker.
Status pack_shard(FileOps& ops, const PackInput& source, const PackWriterOptions& options,
                  const ShardJob& job);

/// Whether the shard was finished by an earlier run of the same plan. What such a run left behind
/// unfinished is removed. `already_exists` for a file of that name that no run of ours has left.
Result<bool> is_shard_finished(FileOps& ops, const PathAt& directory, const std::string& name,
                               const std::string& plan_hash);

/// Whether the files of the part are there in their sizes.
Result<bool> is_part_complete(FileOps& ops, const PathAt& directory, const PackPart& part);

}  // namespace stoker
