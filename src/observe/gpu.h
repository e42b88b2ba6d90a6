#pragma once

#include <optional>
#include <string>
#include <vector>

#include "observe/finding.h"
#include "observe/machine.h"

namespace stoker {

/// One GPU as the NVIDIA driver shows it in /proc.
struct Gpu {
  std::string address;  ///< On the PCI bus: "0000:1b:00.0".
  std::string model;
  std::optional<std::uint64_t> numa_node;
};

std::vector<Gpu> find_gpus(Machine& machine);

/// What keeps drives and GPUs of this machine from exchanging data without the CPU's memory, as
/// far as settings show. Only a probe read proves that it works; this can only disprove.
struct PeerToPeerState {
  bool nvidia_fs = false;             ///< The nvidia-fs module is loaded.
  std::string nvidia_fs_version;      ///< Of it.
  std::vector<std::string> blockers;  ///< Of the in-kernel way (PCI P2PDMA), one phrase each.
  std::string fix;                    ///< For the first blocker.
};

PeerToPeerState find_peer_to_peer(Machine& machine);

/// A warning if a PCIe device has fewer lanes than it could, which a bad seat or a riser causes.
std::optional<Finding> check_pcie_width(Machine& machine, const std::string& subject,
                                        const std::string& address);

}  // namespace stoker
