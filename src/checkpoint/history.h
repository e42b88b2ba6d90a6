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
/// one is an ancestor of what is to be saved. A manifest is read once: what is known of it is held
/// to the file it was read from, not to the name, which may lead to another checkpoint by now.
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

  /// Lists the directory again, and reads the manifests that were not read before.
  Status refresh();

  /// The greatest that was ever seen: one that cannot be read any more still counts.
  std::uint64_t greatest_generation() const noexcept { return greatest_generation_; }
  /// The one under the step's own name; not one that was superseded.
  const Entry* find(std::uint64_t step) const;
  /// Whether `entry` is `head` or one of the checkpoints that `head` continues.
  bool is_ancestor(const Entry& entry, const std::optional<CheckpointParent>& head) const;
  /// Of a checkpoint that continues `head`.
  Lineage lineage_after(const std::optional<CheckpointParent>& head) const;

 private:
  /// Says which file, and in which state: numbers of inodes are used again.
  struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size_bytes = 0;
    std::int64_t changed_s = 0;
    std::int64_t changed_ns = 0;

    friend auto operator<=>(const Identity&, const Identity&) = default;
  };
  /// What a manifest has said.
  struct Known {
    std::uint64_t generation = 0;
    std::optional<CheckpointParent> parent = {};
    Lineage lineage = {};
  };

  static Result<Identity> identity_of(int fd);
  /// What the manifest under this name says, read or remembered; remembers it in `known`.
  Result<Known> learn(const std::string& name, std::map<Identity, Known>& known) const;

  FileOps* ops_;
  std::string directory_;
  std::map<Identity, Known> known_;
  std::map<std::uint64_t, Known> ever_;   // by generation: what retention has removed, too
  std::map<std::string, Entry> entries_;  // by name in the directory, at the last refresh()
  std::uint64_t greatest_generation_ = 0;
};

}  // namespace stoker
