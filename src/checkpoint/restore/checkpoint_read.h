#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest/manifest.h"
#include "checkpoint/restore/box_copy.h"
#include "checkpoint/restore/device_reads.h"
#include "checkpoint/restore/verified_chunks.h"
#include "checkpoint/store/open_step.h"
#include "io/chunk_reader.h"

namespace stoker {

/// Reads targets from a checkpoint: determines the chunks they need, and the destination of each
/// piece. Every chunk is read completely and verified against its checksum; run() succeeds only if
/// all of them match. What goes to a device is copied there only after its chunk was verified.
///
/// Thread safety: none, except that read_chunks() calls the ChunkHandler methods from its threads.
class CheckpointRead final : public ChunkHandler {
 public:
  /// All arguments are borrowed. Without `has_checksums` nothing is verified: for files of other
  /// programs.
  CheckpointRead(const CheckpointManifest& manifest, StoredFiles& files, VerifiedChunks& verified,
                 bool has_checksums)
      : manifest_(manifest), files_(files), verified_(verified), has_checksums_(has_checksums) {}

  /// Adds a target. `slices` are all saved slices of its tensor.
  Status add(std::span<const std::uint32_t> slices, const ReadTarget& target) {
    return plan_copies(manifest_, slices, target, copies_);
  }

  /// Reads all targets; may be called once. Adds to `read_bytes` unless it is null. On return
  /// nothing writes to the targets any more, even on a device. `unsupported` if some of it is on
  /// the disk of another node.
  Status run(ChunkReadOptions options, const DeviceReadUse& devices,
             std::atomic<std::uint64_t>* read_bytes);

  Status chunk_read(std::size_t index, std::span<const std::byte> bytes) override;
  Result<bool> may_reuse(std::span<const std::byte> memory, bool wait) override;
  Status chunk_failed(std::size_t index, const Status& status) override;

 private:
  /// The copies of one chunk are a range of `order_`.
  struct Job {
    std::uint32_t file = 0;
    std::uint32_t chunk = 0;
    std::uint32_t copies_begin = 0;
    std::uint32_t copies_end = 0;
  };

  std::uint32_t file_of(const BoxCopy& copy) const { return manifest_.tensors[copy.tensor].file; }
  bool is_for_devices(const Job& job) const;
  Status begin_devices(const DeviceReadUse& use, ChunkReadOptions& options);
  Status copy_to_devices(std::size_t index, std::span<const std::byte> bytes);
  Status check_here() const;
  void add_jobs();
  void add_read(const Job& job);
  std::span<std::byte> place_of(const Job& job, std::uint64_t begin, std::uint64_t end) const;
  bool is_small_part(const Job& job, std::uint64_t begin, std::uint64_t end) const;
  void copy_from(const Job& job, std::uint64_t offset_bytes,
                 std::span<const std::byte> bytes) const;
  Digest128 hash_and_copy(std::size_t index, std::span<const std::byte> bytes) const;
  bool is_expected(const Job& job, const Digest128& digest) const;
  Status mismatch(std::size_t index, std::span<const std::byte> bytes) const;
  std::string tensors_of(std::size_t index) const;

  const CheckpointManifest& manifest_;
  StoredFiles& files_;
  VerifiedChunks& verified_;
  const bool has_checksums_;
  std::atomic<std::uint64_t>* read_bytes_ = nullptr;
  std::vector<BoxCopy> copies_;
  std::vector<std::uint32_t> order_;      // indexes of copies, chunk by chunk
  std::vector<Job> jobs_;                 // chunks to be read
  std::vector<ChunkRead> reads_;          // one for each job
  std::unique_ptr<DeviceReads> devices_;  // null: all targets are in host memory
};

/// Returns the names of the tensors with bytes in [begin, end) of a file.
std::vector<std::string> tensors_in(const CheckpointManifest& manifest, std::uint32_t file,
                                    std::uint64_t begin_bytes, std::uint64_t end_bytes);
/// "tensors a, b and 3 more"
std::string name_tensors(std::span<const std::string> names);

/// Describes a checksum mismatch for messages: tells a hole of zeros from other damage.
std::string_view describe_mismatch(std::span<const std::byte> bytes) noexcept;

}  // namespace stoker
