#include "io/files/filesystem.h"

#include <sys/statfs.h>
#include <sys/statvfs.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>

namespace stoker {
namespace {

struct Row {
  std::uint64_t magic;
  std::string_view name;
  bool local_block;
};

// The numbers are in linux/magic.h and in the sources of the filesystems outside the kernel tree.
constexpr std::array kFilesystems = {
    Row{0xEF53, "ext4", true},          Row{0x58465342, "xfs", true},
    Row{0x9123683E, "btrfs", true},     Row{0xF2F52010, "f2fs", true},
    Row{0x2FC12FC1, "zfs", false},      Row{0xCA451A4E, "bcachefs", true},
    Row{0x01021994, "tmpfs", false},    Row{0x858458F6, "ramfs", false},
    Row{0x6969, "nfs", false},          Row{0xFF534D42, "cifs", false},
    Row{0xFE534D42, "smb2", false},     Row{0x0BD00BD0, "lustre", false},
    Row{0x47504653, "gpfs", false},     Row{0x19830326, "beegfs", false},
    Row{0x18031977, "weka", false},     Row{0x00C36400, "ceph", false},
    Row{0x65735546, "fuse", false},     Row{0x794C7630, "overlay", false},
    Row{0x01021997, "9p", false},       Row{0x73717368, "squashfs", false},
    Row{0x6A656A63, "virtiofs", false},
};

}  // namespace

FilesystemKind filesystem_by_magic(std::uint64_t magic) {
  for (const Row& row : kFilesystems) {
    if (row.magic == magic)
      return {.name = std::string(row.name), .magic = magic, .local_block = row.local_block};
  }
  char name[40];
  std::snprintf(name, sizeof name, "unknown (0x%llx)", static_cast<unsigned long long>(magic));
  return {.name = name, .magic = magic};
}

Result<FilesystemKind> filesystem_of(int fd) {
  struct statfs info{};
  if (::fstatfs(fd, &info) != 0) return Status::from_errno(errno, "fstatfs", "");
  return filesystem_by_magic(static_cast<std::uint32_t>(info.f_type));
}

Result<std::uint64_t> free_bytes_of(const std::string& path) {
  struct statvfs info{};
  if (::statvfs(path.c_str(), &info) != 0) return Status::from_errno(errno, "statvfs", path);
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

}  // namespace stoker
