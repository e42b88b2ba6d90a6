#include "observe/target.h"

#include <fmt/format.h>

#include <algorithm>

#include "observe/text_fields.h"

namespace stoker {
namespace {

constexpr int kStackDepthMax = 8;         // dm over md over partitions is 3
constexpr std::size_t kSlavesMax = 1024;  // of one device

/// The last two components of the path that a link in /sys points to.
struct SysfsName {
  std::string name;
  std::string parent;
};

SysfsName read_sysfs_name(Machine& machine, const std::string& link) {
  const Result<std::string> target = machine.read_link(link);
  if (!target.ok()) return {};
  const std::vector<std::string_view> parts = split(*target, '/');
  if (parts.size() < 2 || !is_plain_name(parts.back())) return {};
  return {.name = std::string(parts.back()), .parent = std::string(parts[parts.size() - 2])};
}

/// Returns the whole disk of a partition; any other device is returned as it is.
std::string whole_disk(Machine& machine, const SysfsName& device) {
  const bool is_partition =
      find_word(machine, "/sys/class/block/" + device.name + "/partition").has_value();
  return is_partition && is_plain_name(device.parent) ? device.parent : device.name;
}

void collect_disks(Machine& machine, const std::string& device, int depth,
                   std::vector<std::string>& disks) {
  const Result<std::vector<DirectoryEntry>> slaves =
      machine.list("/sys/block/" + device + "/slaves", kSlavesMax);
  if (depth == 0 || !slaves.ok() || slaves->empty()) {
    disks.push_back(device);
    return;
  }
  for (const DirectoryEntry& slave : *slaves) {
    SysfsName name = read_sysfs_name(machine, "/sys/class/block/" + slave.name);
    if (name.name.empty()) name.name = slave.name;
    collect_disks(machine, whole_disk(machine, name), depth - 1, disks);
  }
}

/// Adds what to do to an error.
Status explain(const std::string& path, const Status& status) {
  if (status.code() == Code::not_found)
    return Status(Code::not_found,
                  path +
                      ": no such file or directory; check the spelling, or mount the filesystem "
                      "first",
                  status.os_error());
  return Status(status.code(),
                fmt::format("{}: cannot be read ({}); run as a user with access, or with sudo",
                            path, status.message()),
                status.os_error());
}

/// Checks that the target can be read. Devices and pipes are not opened: opening may have effects.
Status try_read(Machine& machine, const Target& target) {
  if (target.info.is_directory) return machine.list(target.path, 1).status();
  return target.info.is_file ? machine.read_text(target.path).status() : Status();
}

}  // namespace

BlockStack find_block_stack(Machine& machine, const MountEntry& mount) {
  SysfsName device;
  if (mount.device_major != 0) {
    device = read_sysfs_name(
        machine, fmt::format("/sys/dev/block/{}:{}", mount.device_major, mount.device_minor));
  } else if (std::string_view(mount.source).starts_with("/dev/")) {
    // btrfs reports an anonymous device number; its source names one of its members.
    const std::string name = mount.source.substr(mount.source.rfind('/') + 1);
    if (is_plain_name(name)) device = read_sysfs_name(machine, "/sys/class/block/" + name);
  }
  if (device.name.empty()) return {};
  BlockStack stack{.top = whole_disk(machine, device), .disks = {}};
  collect_disks(machine, stack.top, kStackDepthMax, stack.disks);
  std::sort(stack.disks.begin(), stack.disks.end());
  stack.disks.erase(std::unique(stack.disks.begin(), stack.disks.end()), stack.disks.end());
  return stack;
}

Result<Target> make_target(Machine& machine, const std::string& path, Role role) {
  Target target;
  target.role = role;
  Result<std::string> resolved = machine.resolve(path);
  if (!resolved.ok()) return explain(path, resolved.status());
  target.path = *std::move(resolved);
  STOKER_ASSIGN(target.info, machine.stat(target.path));
  if (const Status status = try_read(machine, target); !status.ok()) return explain(path, status);
  const std::size_t slash = target.path.rfind('/');
  target.directory = target.path;
  if (!target.info.is_directory && slash != std::string::npos)
    target.directory = target.path.substr(0, std::max<std::size_t>(slash, 1));
  STOKER_ASSIGN(target.volume, machine.volume(target.path));

  if (const Result<std::string> text = machine.read_text("/proc/self/mountinfo"); text.ok()) {
    const std::vector<MountEntry> mounts = parse_mountinfo(*text);
    if (const MountEntry* mount = find_mount(mounts, target.path)) target.mount = *mount;
  }
  target.kind = filesystem_type(target.volume.type_magic, target.mount);
  target.blocks = find_block_stack(machine, target.mount);
  return target;
}

}  // namespace stoker
