#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/tree_fit.h"
#include "checkpoint/restore/restore_agreement.h"
#include "stoker/checkpoint.h"
#include "stoker/status.h"

namespace stoker::internal {

/// Restores one checkpoint after the other into the same trees, until one is valid on all ranks.
///
/// Thread safety: none.
class RestoreAttempt {
 public:
  /// All arguments are borrowed.
  RestoreAttempt(const Tree& trees, const RestoreOptions& options,
                 const CheckpointerOptions& settings, std::shared_ptr<DeviceReadMemory> memory)
      : trees_(trees), options_(options), settings_(settings), memory_(std::move(memory)) {}

  /// What RestoreAgreement calls. Nothing in it throws.
  RestoreTrial trial();

  /// Returns what was restored, and sets `trees` to the trees as they are now. Only after the ranks
  /// have agreed on the checkpoint that was read last.
  Result<Restored> finish(Tree& trees);

  /// Appended to the error that ended the restore: which checkpoints memory may have bytes of.
  std::string tell_partly_read() const;

 private:
  Status check(const CheckpointReader& reader);
  Status check_loader(const std::string& source) const;
  Status read(const CheckpointReader& reader);

  const Tree& trees_;
  const RestoreOptions& options_;
  const CheckpointerOptions& settings_;
  const std::shared_ptr<DeviceReadMemory> memory_;
  std::optional<TreeFit> fit_;
  std::vector<ReadTarget> targets_;
  Tree made_;
  Restored restored_;
  std::vector<std::string> partly_read_;
  bool is_callers_ = false;  // the failure of the last check is one of the caller's function
};

}  // namespace stoker::internal
