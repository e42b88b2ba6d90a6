#include <fmt/format.h>

#include <set>

#include "observe/checks.h"
#include "observe/gpu.h"
#include "observe/text_fields.h"

namespace stoker {
namespace {

/// Returns the nodes of the NVMe drives. A negative number, which means that the firmware does not
/// report the node, is skipped.
std::set<std::uint64_t> nvme_nodes(Machine& machine) {
  std::set<std::uint64_t> nodes;
  for (const std::string& name : find_numbered(machine, "/sys/class/nvme", "nvme"))
    if (const auto node = find_count(machine, "/sys/class/nvme/" + name + "/numa_node"))
      nodes.insert(*node);
  return nodes;
}

}  // namespace

Findings check_numa(Machine& machine) {
  const std::string subject = "NUMA";
  const std::size_t node_count = find_numbered(machine, "/sys/devices/system/node", "node").size();
  if (node_count <= 1) return {{.subject = subject, .seen = "one memory node"}};

  Findings findings;
  if (find_count(machine, "/proc/sys/vm/zone_reclaim_mode").value_or(0) != 0)
    findings.push_back(
        {.severity = Severity::warning,
         .subject = subject,
         .seen = fmt::format("{} memory nodes, zone_reclaim_mode is on", node_count),
         .why = "A node drops the dataset's pages while the others have free memory.",
         .fix = "sysctl -w vm.zone_reclaim_mode=0 && echo vm.zone_reclaim_mode=0 > "
                "/etc/sysctl.d/92-stoker.conf"});

  const std::set<std::uint64_t> drives = nvme_nodes(machine);
  for (const Gpu& gpu : find_gpus(machine)) {
    if (drives.empty() || !gpu.numa_node || drives.contains(*gpu.numa_node)) continue;
    findings.push_back(
        {.severity = Severity::note,
         .subject = fmt::format("NUMA: GPU {}", gpu.address),
         .seen =
             fmt::format("attached to node {}; all NVMe drives are on other nodes", *gpu.numa_node),
         .why = "Each byte on its way to this GPU crosses the link between the sockets.",
         .fix = fmt::format("numactl --cpunodebind={0} --preferred={0} COMMAND   # for its process",
                            *gpu.numa_node)});
  }
  if (findings.empty())
    findings.push_back({.subject = subject, .seen = fmt::format("{} memory nodes", node_count)});
  return findings;
}

}  // namespace stoker
