#pragma once

#include <cstdint>
#include <string_view>

#include "observe/mount_table.h"

namespace stoker {

enum class FilesystemType : std::uint8_t {
  ext4,
  xfs,
  zfs,
  btrfs,
  tmpfs,
  nfs,
  lustre,
  gpfs,
  beegfs,
  weka,
  cephfs,
  ceph_fuse,
  fuse,
  object_fuse,  ///< A FUSE mount of an object store: s3fs, mountpoint-s3, gcsfuse, rclone.
  overlay,
  unknown,
};

/// What a filesystem guarantees about the calls that checkpoints and loaders depend on.
struct FilesystemTraits {
  FilesystemType kind;
  std::string_view name;
  std::string_view rename;
  std::string_view fsync;
  std::string_view direct;
  std::string_view hard_links;
  bool is_network;  ///< Its read-ahead is set per mount (/sys/class/bdi), not per block device.
};

const FilesystemTraits& filesystem_traits(FilesystemType kind);

/// Finds the type by the magic number of statfs(2), and by the mount's type if several filesystems
/// share the number (FUSE) or the number is not known.
FilesystemType filesystem_type(std::uint64_t type_magic, const MountEntry& mount);

}  // namespace stoker
