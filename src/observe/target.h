#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "observe/filesystem_traits.h"
#include "observe/machine.h"
#include "observe/mount_table.h"

namespace stoker {

/// The use of a path. Datasets can be fetched again; checkpoints cannot.
enum class Role : std::uint8_t { both, dataset, checkpoint };

/// The block devices under a filesystem.
struct BlockStack {
  std::string top;  ///< The mounted device, or the disk of a partition; empty if none.
  std::vector<std::string> disks;  ///< The whole disks below it, sorted by name.
};

/// A path to examine, with its mount, filesystem and devices.
struct Target {
  std::string path;       ///< Absolute, without symbolic links.
  std::string directory;  ///< The path itself, or its parent if it is not a directory.
  Role role = Role::both;
  PathInfo info;
  VolumeStats volume;
  MountEntry mount;
  FilesystemType kind = FilesystemType::unknown;
  BlockStack blocks;

  bool for_checkpoints() const { return role != Role::dataset; }
  bool for_datasets() const { return role != Role::checkpoint; }
  /// "/data: mount options"
  std::string subject(std::string_view what) const { return path + ": " + std::string(what); }
};

/// Finds the mount, filesystem and devices of `path`. `not_found` if it does not exist, `denied` if
/// it cannot be read.
Result<Target> make_target(Machine& machine, const std::string& path, Role role);

/// Returns the devices under a mount, through partitions, device mapper and md.
BlockStack find_block_stack(Machine& machine, const MountEntry& mount);

}  // namespace stoker
