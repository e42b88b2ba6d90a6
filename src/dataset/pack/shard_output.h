/// \file
/// Writes one shard durably: staged under a private name next to the final one; its SHA-256 and the
/// CRC32C of each record are computed from the bytes as they are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "formats/shard_format.h"
#include "io/files/file_ops.h"
#include "io/write_behind.h"
#include "stoker/status.h"

namespace stoker {

/// Computes the CRC32C of consecutive records in a stream. A writer reports the place of a record
/// when it was appended, which may be before, between or after the writes of its bytes: tar pads
/// the last member with the first write of the next sample, MDS writes everything at the end.
///
/// Thread safety: none.
class RecordChecksums {
 public:
  /// Adds the next record. `invalid_argument` if it is not after the previous one, or begins before
  /// bytes that were already skipped.
  Status add(ByteRange record);
  /// The bytes so far are the head of the shard, and belong to no record.
  void skip_head() noexcept {
    tail_begin_bytes_ = position_bytes_;
    crc_.reset();
  }
  /// Adds the next bytes of the stream.
  void update(std::span<const std::byte> bytes);

  const std::vector<ByteRange>& records() const noexcept { return records_; }
  /// Returns the checksums. `invalid_argument` if the stream ended before the last record.
  Result<std::vector<std::uint32_t>> finish() const;

 private:
  std::vector<ByteRange> records_;
  std::vector<std::uint32_t> checksums_;  // of the records that are complete
  std::uint64_t position_bytes_ = 0;
  std::uint64_t tail_begin_bytes_ = 0;  // where the bytes in crc_ begin
  Crc32cStream crc_;
};

/// A file that is written under a staging name and then renamed. Crash points: shard_output.staged
/// (all bytes written), .synced, .switched, .durable.
///
/// Thread safety: none; several outputs may be written at the same time.
class ShardOutput final : public ByteSink {
 public:
  /// Creates the staging file, "<path>.staged-<pid>-<n>".
  static Result<std::unique_ptr<ShardOutput>> make(FileOps& ops, const PathAt& path);
  ShardOutput(const ShardOutput&) = delete;
  ShardOutput& operator=(const ShardOutput&) = delete;
  /// Removes the staging file if it still exists.
  ~ShardOutput() override;

  Status write(std::span<const std::byte> bytes) override;
  RecordChecksums& checksums() noexcept { return checksums_; }

  /// 1. Waits until everything is written.  2. fsync.  3. close. The bytes are then durable, the
  /// name is not. After a failure the output can only be destroyed.
  Status sync();
  /// 4. Renames without replacing: `already_exists` if the final name exists.  5. fsync of the
  /// directory. Requires a successful sync().
  Status publish();

  /// Valid after sync().
  const Sha256Digest& sha256() const noexcept { return digest_; }
  std::uint64_t size_bytes() const noexcept { return file_.size_bytes(); }

 private:
  ShardOutput(FileOps& ops, PathAt path, PathAt staged, UniqueFd fd);
  Status rename_to_final();

  FileOps& ops_;
  PathAt path_;
  PathAt staged_;
  bool is_staged_ = true;
  WriteBehind file_;
  Sha256Stream sha256_;
  Sha256Digest digest_ = {};
  RecordChecksums checksums_;
};

/// The final name of a staging file that a killed process left; empty for other names.
std::string_view final_name_of_staged(std::string_view name);

}  // namespace stoker
