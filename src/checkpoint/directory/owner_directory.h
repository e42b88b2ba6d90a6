#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/store/checkpoint_writer.h"

namespace stoker {

/// The writer's own directory, `owner-<token>`. It is the fence: every rename by which a writer
/// publishes, replaces or removes a checkpoint has this directory on one side, looked up from the
/// checkpoint directory. A writer that takes over removes it. A previous writer that was only slow
/// then finds neither source nor target: it gets `not_found`, and nothing changes.
///
/// Files are unlinked only below a name that remove_name() has made, so a retired checkpoint stays
/// complete until its removal is certain.
///
/// Thread safety: const methods may be called from any thread.
class OwnerDirectory final : public CheckpointWriter {
 public:
  OwnerDirectory(CheckpointDirectory directory, std::string_view token)
      : directory_(std::move(directory)), name_(owner_name(token)) {}

  const CheckpointDirectory& directory() const noexcept { return directory_; }
  /// "owner-<token>"
  const std::string& name() const noexcept { return name_; }
  PathAt self() const { return directory_.at(name_); }
  PathAt at(std::string_view name) const { return self() / name; }

  const CheckpointStore& store() const noexcept override { return directory_; }
  bool is_owner() const override {
    return directory_.ops().info_of(self()).status().code() != Code::not_found;
  }
  /// Returns the name of a directory in this one: "owner-<token>/step-000000001000-7".
  std::string staging_name(std::uint64_t step, std::uint64_t number) const override;
  /// Steps 8 to 12 of the commit (step_commit.cc).
  Status commit(const StepCommit& commit, CommitStage& stage) const override;
  void discard_staged(const std::string& staging) const override;
  /// Crash points: retention.retired, .condemned, .given_back.
  Result<std::optional<std::string>> retire(const Retirement& retirement) const override;
  std::unique_ptr<CatalogKeeper> start_catalog(const CatalogLines& lines) const override;

  /// Creates this directory durably: committed checkpoints pass through it.
  Status make() const;

  /// Makes a rename between this directory and the checkpoint directory durable, by fsync of both.
  Status sync_both() const;

  /// Renames `name` in this directory to `to` in the checkpoint directory, without replacing
  /// anything: `already_exists` if `to` is taken. Not durable yet.
  Status publish(std::string_view name, std::string_view to) const;

  /// Moves a checkpoint that was put aside back to the checkpoint directory: to its own name, or to
  /// that of a superseded one if its own is taken or `is_superseded`. Durable. Returns the name.
  Result<std::string> give_back(std::string_view name, const AsideName& aside,
                                bool is_superseded) const;

  /// Renames `name` in this directory so that it may be removed; returns the new name. Durable.
  Result<std::string> condemn(std::string_view name) const;
  /// Removes what condemn() has returned. A directory that NFS keeps non-empty is left to the next
  /// writer. Crash points: owner.unlinked, owner.removed.
  Status remove(std::string_view condemned) const override;
  /// Condemns and removes staged files, which no reader has ever seen. What cannot be removed is
  /// left to the next writer.
  void discard(std::string_view name) const;

  /// Fences every other writer: moves the directories of all other owners here, takes out their
  /// contents, and removes them. After a failure this writer must not write. Crash points:
  /// takeover.fenced, takeover.emptied.
  ///
  /// Anything else that has the name of an owner's directory is left alone.
  Status take_over() const;
  /// Completes what the fenced writers have begun: checkpoints that were put aside get their names
  /// back or are removed; the rest, and what version 0.1 has left, is discarded. What fails is left
  /// to the next writer. Crash point: takeover.swept.
  Status sweep() const;

 private:
  Status fence(const std::string& other) const;
  Status empty(const std::string& taken) const;
  Status settle(const std::string& name) const;
  Status sweep_trash() const;

  CheckpointDirectory directory_;
  std::string name_;
};

/// Returns `failure`, the result of a rename of `path`; `unsupported` with an explanation if it is
/// EXDEV, because the checkpoint is in a lower layer of an overlay filesystem.
Status explain_layers(const Status& failure, const PathAt& path);

/// renameat2 with RENAME_NOREPLACE; a plain rename of a directory if the filesystem refuses the
/// flag.
Status rename_without_replacing(FileOps& ops, const PathAt& from, const PathAt& to);

}  // namespace stoker
