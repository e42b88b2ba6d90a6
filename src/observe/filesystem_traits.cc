#include "observe/filesystem_traits.h"

#include <algorithm>
#include <array>

#include "io/files/filesystem.h"

namespace stoker {
namespace {

using enum FilesystemType;

// In the order of the enum: filesystem_traits() uses it as the index.
constexpr std::array kTraits{
    FilesystemTraits{ext4, "ext4", "atomic", "durable", "yes", "yes", false},
    FilesystemTraits{xfs, "XFS", "atomic", "durable", "yes", "yes", false},
    FilesystemTraits{zfs, "ZFS", "atomic", "durable unless sync=disabled",
                     "since OpenZFS 2.3, before that through the ARC", "yes", false},
    FilesystemTraits{btrfs, "btrfs", "atomic inside a subvolume", "durable",
                     "yes, but buffered for compressed files", "inside a subvolume", false},
    FilesystemTraits{tmpfs, "tmpfs", "atomic", "without effect: this is memory",
                     "not applicable: this is memory", "yes", false},
    FilesystemTraits{
        nfs, "NFS", "atomic on the server, RENAME_NOREPLACE refused",
        "durable once the server has committed; errors may appear only here or at close",
        "yes, past the client's cache", "yes", true},
    FilesystemTraits{lustre, "Lustre", "atomic", "durable", "yes, in whole pages", "yes", true},
    FilesystemTraits{gpfs, "GPFS", "atomic", "durable", "yes", "yes", true},
    FilesystemTraits{beegfs, "BeeGFS", "atomic", "durable with tuneRemoteFSync=true", "yes",
                     "only inside one directory", true},
    FilesystemTraits{weka, "Weka", "atomic", "durable", "yes", "yes", true},
    FilesystemTraits{cephfs, "CephFS", "atomic", "durable", "yes", "yes", true},
    FilesystemTraits{ceph_fuse, "CephFS through ceph-fuse", "atomic", "durable", "up to the daemon",
                     "yes", true},
    FilesystemTraits{fuse, "FUSE", "up to the daemon", "up to the daemon", "up to the daemon",
                     "up to the daemon", true},
    FilesystemTraits{object_fuse, "an object store through FUSE",
                     "refused, or copy and delete: not atomic",
                     "uploads at close, if it does at all", "no", "no", true},
    FilesystemTraits{overlay, "overlay", "EXDEV for directories of a lower layer",
                     "durable in the upper layer, which is deleted with the container",
                     "as on the upper filesystem", "copies a file of a lower layer first", false},
    FilesystemTraits{unknown, "unknown", "unknown", "unknown", "unknown", "unknown", false},
};
static_assert(kTraits.size() == static_cast<std::size_t>(unknown) + 1);

struct TypeRow {
  std::string_view type;
  FilesystemType kind;
};
// The names of io/files/filesystem.h, and those of mounts.
constexpr std::array kTypes{TypeRow{"ext4", ext4},
                            TypeRow{"ext3", ext4},
                            TypeRow{"xfs", xfs},
                            TypeRow{"zfs", zfs},
                            TypeRow{"btrfs", btrfs},
                            TypeRow{"tmpfs", tmpfs},
                            TypeRow{"ramfs", tmpfs},
                            TypeRow{"nfs", nfs},
                            TypeRow{"nfs4", nfs},
                            TypeRow{"lustre", lustre},
                            TypeRow{"gpfs", gpfs},
                            TypeRow{"beegfs", beegfs},
                            TypeRow{"beegfs_nodev", beegfs},
                            TypeRow{"weka", weka},
                            TypeRow{"wekafs", weka},
                            TypeRow{"ceph", cephfs},
                            TypeRow{"overlay", overlay}};

// The names in their mounts, as a type ("fuse.s3fs") or as a source ("mountpoint-s3").
constexpr std::array<std::string_view, 9> kObjectDaemons{"s3fs",      "mountpoint-s3", "goofys",
                                                         "geesefs",   "gcsfuse",       "blobfuse",
                                                         "blobfuse2", "rclone",        "s3ql"};

FilesystemType fuse_kind(const MountEntry& mount) {
  const std::string_view type = mount.type;
  const std::string_view daemon = type.starts_with("fuse.") ? type.substr(5) : mount.source;
  if (daemon == "ceph" || daemon == "ceph-fuse" || mount.source == "ceph-fuse") return ceph_fuse;
  for (const std::string_view name : kObjectDaemons)
    if (daemon == name || mount.source == name) return object_fuse;
  return fuse;
}

FilesystemType type_of(std::string_view name, const MountEntry& mount) {
  for (const TypeRow& row : kTypes)
    if (row.type == name) return row.kind;
  return name.starts_with("fuse") ? fuse_kind(mount) : unknown;
}

}  // namespace

const FilesystemTraits& filesystem_traits(FilesystemType kind) {
  return kTraits[std::min<std::size_t>(static_cast<std::size_t>(kind), kTraits.size() - 1)];
}

FilesystemType filesystem_type(std::uint64_t type_magic, const MountEntry& mount) {
  if (mount.type == "ext2") return unknown;  // ext4's magic without ext4's journal
  const FilesystemType by_magic = type_of(filesystem_by_magic(type_magic).name, mount);
  return by_magic != unknown ? by_magic : type_of(mount.type, mount);
}

}  // namespace stoker
