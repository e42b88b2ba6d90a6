#include "observe/gpu.h"

#include <fmt/format.h>

#include "base/shell_quote.h"
#include "observe/checks.h"
#include "observe/text_fields.h"

namespace stoker {
namespace {

constexpr std::size_t kGpusMax = 64;
constexpr std::uint64_t kDriverMin = 565;  // the first open modules with PCI P2PDMA
constexpr double kKernelMin = 6.02;        // 6.2, written so that 6.10 compares greater

/// "6.8.0-45-generic" gives 6.08.
double kernel_version(Machine& machine) {
  const std::string release = find_word(machine, "/proc/sys/kernel/osrelease").value_or("");
  const std::vector<std::string_view> parts = split(release, '.');
  if (parts.size() < 2) return 0;
  const std::string_view digits = parts[1].substr(0, parts[1].find_first_not_of("0123456789"));
  return static_cast<double>(parse_count(parts[0]).value_or(0)) +
         static_cast<double>(parse_count(digits).value_or(0)) / 100;
}

/// Returns 570 for "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15 ...".
std::uint64_t driver_version(std::string_view text) {
  for (const std::string_view word : split_words(text))
    if (const std::size_t dot = word.find('.'); dot == 3)
      if (const auto major = parse_count(word.substr(0, dot))) return *major;
  return 0;
}

bool has_iommu_groups(Machine& machine) {
  const auto groups = machine.list("/sys/kernel/iommu_groups", 1);
  return groups.ok() && !groups->empty();
}

}  // namespace

std::vector<Gpu> find_gpus(Machine& machine) {
  std::vector<Gpu> gpus;
  const auto entries = machine.list("/proc/driver/nvidia/gpus", kGpusMax);
  if (!entries.ok()) return gpus;
  for (const DirectoryEntry& entry : *entries) {
    const Result<std::string> text =
        machine.read_text("/proc/driver/nvidia/gpus/" + entry.name + "/information");
    gpus.push_back(
        {.address = entry.name,
         .model = std::string(text.ok() ? find_field(*text, "Model:").value_or("") : ""),
         .numa_node = find_count(machine, "/sys/bus/pci/devices/" + entry.name + "/numa_node")});
    if (gpus.back().model.empty()) gpus.back().model = "unknown model";
  }
  return gpus;
}

std::optional<Finding> check_pcie_width(Machine& machine, const std::string& subject,
                                        const std::string& address) {
  if (!is_plain_name(address)) return std::nullopt;
  const std::string directory = "/sys/bus/pci/devices/" + address;
  const auto width = find_count(machine, directory + "/current_link_width");
  const auto width_max = find_count(machine, directory + "/max_link_width");
  if (!width || !width_max || *width == 0 || *width >= *width_max) return std::nullopt;
  return Finding{
      .severity = Severity::warning,
      .subject = subject,
      .seen = fmt::format("PCIe link of {} lanes where the device has {}", *width, *width_max),
      .why = fmt::format("Its bandwidth is cut to {:.0f} %.",
                         100 * static_cast<double>(*width) / static_cast<double>(*width_max)),
      .fix = fmt::format("lspci -vvs {} | grep -E 'LnkCap|LnkSta'   # then reseat it, or "
                         "set the slot's bifurcation in the firmware",
                         shell_quote(address))};
}

PeerToPeerState find_peer_to_peer(Machine& machine) {
  PeerToPeerState state;
  if (const auto version = find_word(machine, "/proc/driver/nvidia-fs/version")) {
    state.nvidia_fs = true;
    state.nvidia_fs_version = *version;
  }
  const auto block = [&](std::string_view what, std::string_view fix) {
    if (state.blockers.empty()) state.fix = fix;
    state.blockers.emplace_back(what);
  };
  const std::string driver = find_word(machine, "/proc/driver/nvidia/version").value_or("");
  if (driver.find("Open Kernel Module") == std::string::npos || driver_version(driver) < kDriverMin)
    block("not the open kernel modules of driver 565 or newer", "apt-get install nvidia-open");
  if (kernel_version(machine) < kKernelMin) block("a kernel before 6.2", "uname -r   # upgrade it");
  const std::string release = find_word(machine, "/proc/sys/kernel/osrelease").value_or("");
  if (const Result<std::string> config = machine.read_text("/boot/config-" + release);
      config.ok() && find_field(*config, "CONFIG_PCI_P2PDMA=") != "y")
    block("a kernel without CONFIG_PCI_P2PDMA", "grep PCI_P2PDMA /boot/config-$(uname -r)");
  const Result<std::string> parameters = machine.read_text("/proc/driver/nvidia/params");
  if (!parameters.ok() || parameters->find("RMForceStaticBar1=1") == std::string::npos)
    block("the driver does not map its memory for peers",
          "echo 'options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;"
          "RmForceDisableIomapWC=1;\"' > /etc/modprobe.d/stoker-p2p.conf   # then reboot");
  if (find_word(machine, "/sys/module/nvme_core/parameters/multipath") == "Y")
    block(
        "NVMe multipath is on",
        "echo 'options nvme_core multipath=N' > /etc/modprobe.d/stoker-nvme.conf   # then reboot");
  if (has_iommu_groups(machine))
    block("the IOMMU is on",
          "grubby --update-kernel=ALL --args=iommu=pt   # or intel_iommu=off / amd_iommu=off");
  return state;
}

Findings check_gpus(Machine& machine) {
  const std::vector<Gpu> gpus = find_gpus(machine);
  if (gpus.empty()) {
    if (find_word(machine, "/proc/driver/nvidia/version"))
      return {{.severity = Severity::warning,
               .subject = "GPU",
               .seen = "the NVIDIA driver is loaded and shows no GPU",
               .why = "Training would run on the processors.",
               .fix = "nvidia-smi; dmesg | grep -i nvrm   # container: docker run --gpus all"}};
    return {{.subject = "GPU", .seen = "no NVIDIA driver: batches stay in host memory"}};
  }
  Findings findings;
  for (const Gpu& gpu : gpus) {
    const std::string subject = "GPU " + gpu.address;
    if (auto finding = check_pcie_width(machine, subject, gpu.address))
      findings.push_back(*std::move(finding));
    else
      findings.push_back({.subject = subject, .seen = gpu.model});
  }
  return findings;
}

Findings check_peer_to_peer(Machine& machine) {
  const std::string subject = "GPUDirect Storage";
  if (find_gpus(machine).empty()) return {{.subject = subject, .seen = "not needed without a GPU"}};
  const PeerToPeerState state = find_peer_to_peer(machine);
  if (state.nvidia_fs)
    return {{.subject = subject, .seen = "nvidia-fs is loaded: " + state.nvidia_fs_version}};
  if (state.blockers.empty())
    return {{.subject = subject,
             .seen = "no nvidia-fs, but no setting prevents PCI peer-to-peer; only a probe read "
                     "proves it (gdscheck -p)"}};
  std::string seen = "no nvidia-fs, and no PCI peer-to-peer: ";
  for (std::size_t i = 0; i < state.blockers.size(); ++i)
    seen += (i == 0 ? "" : ", ") + state.blockers[i];
  return {{.severity = Severity::note,
           .subject = subject,
           .seen = seen,
           .why = "Reads go through pinned host memory, which keeps up with one drive per GPU but "
                  "costs memory bandwidth and processor time with many.",
           .fix = state.fix}};
}

}  // namespace stoker
