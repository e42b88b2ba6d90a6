#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/manifest.h"
#include "checkpoint/names.h"
#include "io/file_ops.h"

namespace stoker {

/// The manifest of the checkpoint in `directory`.
Result<CheckpointManifest> read_checkpoint_manifest(FileOps& ops, const std::string& directory);

/// What a writer must know of the checkpoints that are there: the greatest generation, and whether
/// one is an ancestor of what is to be saved. Manifests are read once.
///
/// Thread safety: none.
class History {
 public:
  struct Entry {
    StepName name;
    std::uint64_t generation = 0;  ///< 0 where the manifest cannot be read.
    std::optional<CheckpointParent> parent = {};
  };

  History(FileOps& ops, std::string directory) : ops_(&ops), directory_(std::move(directory)) {}

  /// Lists the directory again.
  Status refresh();
  /// The step's name leads to another checkpoint from now on: its manifest is read anew.
  void forget(std::uint64_t step) { entries_.erase(step_name(step)); }

  std::uint64_t greatest_generation() const noexcept;
  /// The one under the step's own name; not one that was superseded.
  const Entry* find(std::uint64_t step) const;
  /// Whether `entry` is `head` or one of the checkpoints that `head` continues.
  bool is_ancestor(const Entry& entry, const std::optional<CheckpointParent>& head) const;

 private:
  FileOps* ops_;
  std::string directory_;
  std::map<std::string, Entry> entries_;  // by name in the directory
};

}  // namespace stoker
