#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/store/checkpoint_store.h"
#include "checkpoint/toys/memory_bucket.h"
#include "checkpoint/toys/memory_log.h"

namespace stoker::testing {

/// Checkpoints in a bucket, as small as it can be: what a store must do where there are neither
/// directories nor renames. Objects:
///
///   data/<staging>/<file>     data and manifest.json of a checkpoint, under a name nobody else has
///   parts/<staging>/<rank>    part manifests
///   log/<20 digits>           commits, removals, locks (memory_log.h)
///   notes/<step>              replaced where nobody else has replaced them meanwhile (If-Match)
///
/// A holder of the lock gives no sign of life: another writer takes over after the ttl.
///
/// Thread safety: const methods may be called from any thread.
class MemoryCheckpointStore final : public CheckpointStore {
 public:
  explicit MemoryCheckpointStore(std::shared_ptr<MemoryBucket> bucket)
      : bucket_(std::move(bucket)), log_(std::make_shared<MemoryLog>(bucket_)) {}

  std::shared_ptr<const CheckpointStore> share() const override;
  const std::string& path() const noexcept override { return path_; }
  bool is_where_it_was() const override { return true; }
  Result<bool> is_there() const override { return true; }
  Result<std::uint64_t> free_bytes() const override;
  Result<std::vector<StoredStep>> list_steps() const override;
  Result<StoredStep> find_step(std::string_view name) const override;
  Result<std::string> read_latest() const override { return std::string(); }
  Result<FileInfo> find_manifest(std::string_view step) const override;
  Result<CheckpointManifest> read_manifest(std::string_view step) const override;
  Result<std::unique_ptr<OpenStep>> open_step(std::string_view name) const override;
  Result<std::vector<ForeignName>> find_foreign_names() const override;
  Result<std::vector<std::uint64_t>> list_notes() const override;
  Result<FileInfo> find_note(std::uint64_t step) const override;
  Result<std::string> read_note(std::uint64_t step) const override;
  Status update_note(std::uint64_t step, const NoteChange& change,
                     const std::function<Status()>& check) const override;
  std::string note_path_of(std::uint64_t step) const override;
  Result<std::unique_ptr<StoreLock>> lock(const LockOptions& options) const override;
  std::unique_ptr<CheckpointWriter> make_writer(const StoreLock& lock) const override;
  std::unique_ptr<StagedPart> make_part(StageRequest request) const override;
  Result<CheckpointPart> read_part(const std::string& staging, std::uint32_t rank) const override;
  Abandoned abandon(const std::string& staging) const override;
  bool is_abandoned(const std::string& staging) const override;

  MemoryBucket& bucket() const noexcept { return *bucket_; }
  MemoryLog& log() const noexcept { return *log_; }
  /// Of what the step's name leads to; `not_found` if nothing does.
  Result<MemoryLog::Step> look_up(std::string_view name) const;

 private:
  Status sweep(const std::string& token) const;

  const std::string path_ = "memory:run";
  std::shared_ptr<MemoryBucket> bucket_;
  std::shared_ptr<MemoryLog> log_;
};

/// Keys of objects.
std::string data_key(const std::string& staging, std::string_view file);
std::string part_key(const std::string& staging, std::uint32_t rank);
/// What is known of an object.
FileInfo info_of(const MemoryBucket::Object& object);

}  // namespace stoker::testing
