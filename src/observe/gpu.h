#pragma once

#include <optional>
#include <string>
#include <vector>

#include "observe/finding.h"
#include "observe/machine.h"

namespace stoker {

/// One GPU, as the NVIDIA driver reports it in /proc.
struct Gpu {
  std::string address;  ///< PCI address, such as "0000:1b:00.0".
  std::string model;
  std::optional<std::uint64_t> numa_node;
};

std::vector<Gpu> find_gpus(Machine& machine);

/// What prevents drives and GPUs of this machine from exchanging data without host memory, as far
/// as settings show. Settings can only rule it out; a probe read is needed to prove that it works.
struct PeerToPeerState {
  bool nvidia_fs = false;             ///< The nvidia-fs module is loaded.
  std::string nvidia_fs_version;      ///< Version of that module.
  std::vector<std::string> blockers;  ///< Obstacles to in-kernel PCI P2PDMA, one phrase each.
  std::string fix;                    ///< For the first blocker.
};

PeerToPeerState find_peer_to_peer(Machine& machine);

/// Returns a warning if a PCIe device uses fewer lanes than it has, for example because it is badly
/// seated or on a riser.
std::optional<Finding> check_pcie_width(Machine& machine, const std::string& subject,
                                        const std::string& address);

}  // namespace stoker
