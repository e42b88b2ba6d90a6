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
/// publishes, replaces or removes a checkpoint has this directory on one side, named from the
/// checkpoint directory. Whoever takes over removes it, and a writer that was only slow then finds
/// neither source nor target: `not_found`, and nothing has changed.
///
/// Nothing is unlinked but below a name remove_name() has made, so that a checkpoint on its way out
/// is whole until it is certain that it goes.
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
  bool is_owner() const override { return directory_.ops().info_of(self()).ok(); }
  /// A directory in this one: "owner-<token>/step-000000001000-7".
  std::string staging_name(std::uint64_t step, std::uint64_t number) const override;
  /// Steps 8 to 12 of the commit (step_commit.cc).
  Status commit(const StepCommit& commit, CommitStage& stage) const override;
  void discard_staged(const std::string& staging) const override;
  /// Crash points: retention.retired, .condemned, .given_back.
  Result<std::optional<std::string>> retire(const Retirement& retirement) const override;
  std::unique_ptr<CatalogKeeper> start_catalog(const CatalogLines& lines) const override;

  /// Makes it, durably: committed checkpoints pass through it.
  Status make() const;

  /// Makes a rename between this directory and the checkpoint directory durable: it is in both.
  Status sync_both() const;

  /// Gives `name` in this directory the name `to` in the checkpoint directory, which must be free:
  /// `already_exists` otherwise. Not durable yet.
  Status publish(std::string_view name, std::string_view to) const;

  /// Gives a checkpoint that was put aside its name back: its own, or that of a superseded one if
  /// it is taken or `is_superseded`. Durable; returns the name.
  Result<std::string> give_back(std::string_view name, const AsideName& aside,
                                bool is_superseded) const;

  /// Moves `name` in this directory to a name under which it may be removed; returns that. Durable.
  Result<std::string> condemn(std::string_view name) const;
  /// Removes what condemn() has returned. A directory that NFS keeps occupied is left for the next
  /// writer. Crash points: owner.unlinked, owner.removed.
  Status remove(std::string_view condemned) const override;
  /// Both, for what nobody has ever seen: staged files. The space is free then; what resists is
  /// left for the next writer.
  void discard(std::string_view name) const;

  /// Fences every other writer: moves the directories of all other owners here, takes out what they
  /// hold, and removes them. After a failure this directory holds no right. Crash points:
  /// takeover.fenced, takeover.emptied.
  ///
  /// Directories only: what else bears such a name is left alone.
  Status take_over() const;
  /// Ends what those writers have begun: checkpoints that were put aside get their names back or
  /// are removed, the rest is discarded, and so is what version 0.1 has left. What fails is left
  /// for the next writer. Crash point: takeover.swept.
  Status sweep() const;

 private:
  Status fence(const std::string& other) const;
  Status empty(const std::string& taken) const;
  Status settle(const std::string& name) const;
  Status sweep_trash() const;

  CheckpointDirectory directory_;
  std::string name_;
};

/// `failure` of a rename of `path`, told as what it is where the checkpoint lies in a lower layer
/// of an overlay filesystem (EXDEV): `unsupported`.
Status explain_layers(const Status& failure, const PathAt& path);

/// renameat2 with RENAME_NOREPLACE, or the next best where a filesystem refuses the flag.
Status rename_without_replacing(FileOps& ops, const PathAt& from, const PathAt& to);

}  // namespace stoker
