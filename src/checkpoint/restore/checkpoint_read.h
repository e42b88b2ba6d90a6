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
#include "checkpoint/restore/verified_chunks.h"
#include "checkpoint/store/open_step.h"
#include "io/chunk_reader.h"

namespace stoker {

/// Reads what some targets want of a checkpoint: which chunks they need, and which pieces of each
/// go where. Every chunk is read whole and compared with its checksum before any of it counts.
///
/// Thread safety: none; what read_chunks() calls, from its threads.
class CheckpointRead final : public ChunkHandler {
 public:
  /// All is borrowed.
  CheckpointRead(const CheckpointManifest& manifest, StoredFiles& files, VerifiedChunks& verified)
      : manifest_(manifest), files_(files), verified_(verified) {}

  /// `slices`: all that were saved of the target's tensor.
  Status add(std::span<const std::uint32_t> slices, const ReadTarget& target) {
    return plan_copies(manifest_, slices, target, copies_);
  }

  /// Once. Counts `read_bytes` up, where it is not null.
  Status run(const ChunkReadOptions& options, std::atomic<std::uint64_t>* read_bytes);

  Status chunk_read(std::size_t index, std::span<const std::byte> bytes) override;
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
  void add_jobs();
  void add_read(const Job& job);
  std::span<std::byte> place_of(const Job& job, std::uint64_t begin, std::uint64_t end) const;
  bool is_small_part(const Job& job, std::uint64_t begin, std::uint64_t end) const;
  void copy_from(const Job& job, std::uint64_t offset_bytes,
                 std::span<const std::byte> bytes) const;
  Digest128 hash_and_copy(std::size_t index, std::span<const std::byte> bytes) const;
  Status mismatch(std::size_t index, std::span<const std::byte> bytes) const;
  std::string tensors_of(std::size_t index) const;

  const CheckpointManifest& manifest_;
  StoredFiles& files_;
  VerifiedChunks& verified_;
  std::atomic<std::uint64_t>* read_bytes_ = nullptr;
  std::vector<BoxCopy> copies_;
  std::vector<std::uint32_t> order_;  // copies, chunk by chunk
  std::vector<Job> jobs_;             // that must be read
  std::vector<ChunkRead> reads_;      // of each job
};

/// The tensors with bytes in [begin, end) of a file.
std::vector<std::string> tensors_in(const CheckpointManifest& manifest, std::uint32_t file,
                                    std::uint64_t begin_bytes, std::uint64_t end_bytes);
/// "tensors a, b and 3 more"
std::string name_tensors(std::span<const std::string> names);

/// What is wrong with bytes whose checksum is another.
std::string_view describe_mismatch(std::span<const std::byte> bytes) noexcept;

}  // namespace stoker
