#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stoker {

/// A PCI Express link, as the kernel tells it.
struct PcieLink {
  double gigatransfers_per_s = 0;  ///< Per lane: 32 for generation 5.
  unsigned width = 0;              ///< Lanes.

  /// Generation; 0 if the rate is that of none.
  unsigned generation() const noexcept;
  /// What the link carries after its line code, before packet headers, which take some percent.
  double bytes_per_s() const noexcept;
};

struct PcieLinks {
  std::optional<PcieLink> now;   ///< An idle device may have lowered it.
  std::optional<PcieLink> most;  ///< What the device could do.
};

/// Reads the files of a device, "/sys/bus/pci/devices/0000:1b:00.0". What cannot be read, or is
/// "Unknown", as in many virtual machines, is missing.
PcieLinks read_pcie_links(const std::string& directory);

/// Parses "32.0 GT/s PCIe" and "16".
std::optional<PcieLink> parse_pcie_link(std::string_view speed, std::string_view width);

}  // namespace stoker
