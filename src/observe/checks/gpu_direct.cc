#include <fmt/format.h>

#include <algorithm>

#include "observe/checks.h"
#include "observe/gpu.h"
#include "observe/text_fields.h"

namespace stoker {
namespace {

/// Whether nvidia-fs supports this filesystem; local ones on NVMe are checked separately.
bool has_nvidia_fs_path(FilesystemType kind) {
  using enum FilesystemType;
  return kind == lustre || kind == weka || kind == nfs || kind == gpfs || kind == beegfs;
}

/// With native multipath the disk belongs to a subsystem, which lists its controllers.
bool is_fabric_disk(Machine& machine, const std::string& disk) {
  const std::string device = "/sys/block/" + disk + "/device";
  std::vector<std::string> places{device};
  for (const std::string& controller : find_numbered(machine, device, "nvme"))
    places.push_back(fmt::format("{}/{}", device, controller));
  return std::any_of(places.begin(), places.end(), [&](const std::string& place) {
    return find_word(machine, place + "/transport").value_or("pcie") != "pcie";
  });
}

/// Returns why reads of this path cannot go directly to a GPU; empty if no reason is known.
std::string obstacle(Machine& machine, const Target& target, const PeerToPeerState& state) {
  using enum FilesystemType;
  const std::string_view name = filesystem_traits(target.kind).name;
  if (has_nvidia_fs_path(target.kind))
    return state.nvidia_fs ? "" : fmt::format("{} needs nvidia-fs", name);
  if (target.kind != ext4 && target.kind != xfs) return fmt::format("{} has no direct path", name);
  const std::vector<std::string>& disks = target.blocks.disks;
  const auto is_nvme = [](const std::string& disk) { return disk.starts_with("nvme"); };
  if (disks.empty() || !std::all_of(disks.begin(), disks.end(), is_nvme))
    return "the device is not NVMe";
  if (target.kind == ext4 && target.mount.find_option("data") == "journal")
    return "ext4 journals data";
  if (state.nvidia_fs) return "";
  if (disks.size() > 1 || target.blocks.top != disks.front())
    return "peer-to-peer needs a plain NVMe drive, without md or device mapper";
  if (is_fabric_disk(machine, disks.front()))
    return "peer-to-peer does not reach NVMe over fabrics";
  return state.blockers.empty() ? "" : "neither nvidia-fs nor peer-to-peer works on this machine";
}

}  // namespace

Findings check_gpu_direct(Machine& machine, const Target& target) {
  if (find_gpus(machine).empty()) return {};  // check_gpus reports it
  const std::string subject = target.subject("GPUDirect");
  const PeerToPeerState state = find_peer_to_peer(machine);
  const std::string obstacle_text = obstacle(machine, target, state);
  if (obstacle_text.empty())
    return {{.subject = subject, .seen = "reads straight into GPU memory are possible"}};
  return {
      {.severity = Severity::note,
       .subject = subject,
       .seen = "reads go through pinned host memory: " + obstacle_text,
       .why = "The bytes cross host memory twice, which matters once several drives feed one GPU.",
       .fix = "/usr/local/cuda/gds/tools/gdscheck -p   # NVIDIA's own probe"}};
}

}  // namespace stoker
