#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/store/checkpoint_store.h"
#include "io/files/directories.h"
#include "io/files/file_ops.h"
#include "io/files/path_at.h"

namespace stoker {

/// An open directory of checkpoints. Every name in it is looked up from the directory's descriptor,
/// without following symbolic links (io/files/path_at.h). So a name that was replaced by a link
/// leads nowhere, and a directory that was renamed or mounted over stays the same one.
///
/// Thread safety: immutable; copies share the descriptor.
class CheckpointDirectory final : public CheckpointStore {
 public:
  /// Opens an existing directory. Links in `path` are followed.
  static Result<CheckpointDirectory> open(FileOps& ops, const std::string& path);
  /// As open(), but creates the directory and its parents if they are missing.
  static Result<CheckpointDirectory> make(FileOps& ops, const std::string& path);

  FileOps& ops() const noexcept { return *ops_; }
  PathAt self() const { return {root_, ""}; }
  /// Returns the path of a name such as "step-000000000001/manifest.json".
  PathAt at(std::string_view name) const { return {root_, name}; }

  /// Returns the same directory, accessed through other FileOps.
  CheckpointDirectory with(FileOps& ops) const { return {ops, root_}; }

  // CheckpointStore; implemented in directory_store.cc.
  std::shared_ptr<const CheckpointStore> share() const override;
  const std::string& path() const noexcept override { return root_->path; }
  /// False if the directory was removed or moved, or a link in its path was changed.
  bool is_where_it_was() const override;
  Result<bool> is_there() const override;
  Result<std::uint64_t> free_bytes() const override;
  Result<std::vector<StoredStep>> list_steps() const override;
  Result<StoredStep> find_step(std::string_view name) const override;
  Result<std::string> read_latest() const override;
  Result<FileInfo> find_manifest(std::string_view step) const override;
  Result<CheckpointManifest> read_manifest(std::string_view step) const override;
  Result<std::unique_ptr<OpenStep>> open_step(std::string_view name) const override;
  CatalogLines read_catalog() const override;
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

 private:
  CheckpointDirectory(FileOps& ops, std::shared_ptr<const RootDirectory> root)
      : ops_(&ops), root_(std::move(root)) {}

  FileOps* ops_;
  std::shared_ptr<const RootDirectory> root_;
};

/// If `failure` is `no_space`, adds what to do. `need` says what needs the space: "The lock needs".
Status with_space_cure(const Status& failure, std::string_view need);

}  // namespace stoker
