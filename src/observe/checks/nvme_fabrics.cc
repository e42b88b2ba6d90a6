#include <fmt/format.h>

#include <map>

#include "base/shell_quote.h"
#include "observe/checks.h"
#include "observe/text_fields.h"

namespace stoker {
namespace {

constexpr std::uint64_t kFastFailMaxSeconds = 60;

struct FabricController {
  std::string name;
  std::string transport;
  std::string nqn;
  std::string address;  ///< "traddr=10.0.0.1,trsvcid=4420"
};

std::vector<FabricController> find_controllers(Machine& machine) {
  std::vector<FabricController> controllers;
  for (const std::string& name : find_numbered(machine, "/sys/class/nvme", "nvme")) {
    const std::string directory = "/sys/class/nvme/" + name;
    const std::string transport = find_word(machine, directory + "/transport").value_or("pcie");
    if (transport == "pcie") continue;
    controllers.push_back({.name = name,
                           .transport = transport,
                           .nqn = find_word(machine, directory + "/subsysnqn").value_or("unknown"),
                           .address = find_word(machine, directory + "/address").value_or("")});
  }
  return controllers;
}

Findings check_controller(Machine& machine, const FabricController& controller) {
  const std::string directory = "/sys/class/nvme/" + controller.name;
  const std::string subject = "NVMe-oF " + controller.name;
  const auto state = find_word(machine, directory + "/state");
  const auto loss = find_word(machine, directory + "/ctrl_loss_tmo");
  const auto fail = find_word(machine, directory + "/fast_io_fail_tmo");
  const std::optional<std::uint64_t> fail_seconds = fail ? parse_count(*fail) : std::nullopt;
  const std::optional<std::uint64_t> loss_seconds = loss ? parse_count(*loss) : std::nullopt;

  Findings findings;
  if (state && *state != "live")
    findings.push_back({.severity = Severity::problem,
                        .subject = subject,
                        .seen = fmt::format("the connection is \"{}\" ({}, {})", *state,
                                            controller.transport, controller.address),
                        .why = "Reads and checkpoints on it hang until it is back.",
                        .fix = fmt::format("nvme list-subsys; dmesg | grep {}", controller.name)});
  if (loss && !loss_seconds)  // "off"; otherwise a number of seconds
    findings.push_back({.severity = Severity::warning,
                        .subject = subject,
                        .seen = "ctrl_loss_tmo is off",
                        .why = "I/O to a target that is gone never fails, and the job hangs.",
                        .fix = fmt::format("echo 600 > {}/ctrl_loss_tmo", directory)});
  if (fail && (!fail_seconds || *fail_seconds > kFastFailMaxSeconds))
    findings.push_back(
        {.severity = Severity::warning,
         .subject = subject,
         .seen = fmt::format("fast_io_fail_tmo is {}, ctrl_loss_tmo {}", *fail,
                             loss.value_or("unknown")),
         .why = "When the path breaks, a read hangs that long before it fails or takes another "
                "path, and every rank waits in the next barrier.",
         .fix = fmt::format("echo 5 > {}/fast_io_fail_tmo", directory)});
  if (findings.empty())
    findings.push_back({.subject = subject,
                        .seen = fmt::format("{} {}: fast_io_fail_tmo {}, ctrl_loss_tmo {}",
                                            controller.transport, controller.address,
                                            fail.value_or("unknown"), loss.value_or("unknown"))});
  return findings;
}

/// Returns one finding per subsystem: how many paths lead to it, and whether multipath uses them.
Finding check_paths(Machine& machine, const FabricController& controller, std::size_t path_count) {
  const std::string subject = "NVMe-oF multipath";
  const bool multipath = find_word(machine, "/sys/module/nvme_core/parameters/multipath") != "N";
  const std::string seen =
      fmt::format("{} path{} to {}, multipath {}", path_count, path_count == 1 ? "" : "s",
                  controller.nqn, multipath ? "on" : "off");
  if (path_count > 1 && multipath) return {.subject = subject, .seen = seen};
  if (path_count > 1)
    return {.severity = Severity::warning,
            .subject = subject,
            .seen = seen,
            .why =
                "Every path is a separate disk: nothing fails over, and writing through two of "
                "them destroys the filesystem.",
            .fix =
                "echo 'options nvme_core multipath=Y' > /etc/modprobe.d/stoker-nvme.conf   # then "
                "reboot"};
  return {.severity = Severity::note,
          .subject = subject,
          .seen = seen,
          .why = "One broken cable or switch stops the job.",
          .fix = fmt::format("nvme connect -t {} -a SECOND_ADDRESS -n {}", controller.transport,
                             shell_quote(controller.nqn))};
}

/// Checks how requests are distributed over several paths.
Findings check_policy(Machine& machine) {
  Findings findings;
  for (const std::string& name :
       find_numbered(machine, "/sys/class/nvme-subsystem", "nvme-subsys")) {
    const std::string path = "/sys/class/nvme-subsystem/" + name + "/iopolicy";
    if (find_word(machine, path) != "numa") continue;
    findings.push_back({.severity = Severity::note,
                        .subject = "NVMe-oF " + name,
                        .seen = "iopolicy is numa",
                        .why = "All requests of a socket take one path while the others idle.",
                        .fix = fmt::format("echo round-robin > {}", path)});
  }
  return findings;
}

}  // namespace

Findings check_nvme_fabrics(Machine& machine) {
  const std::vector<FabricController> controllers = find_controllers(machine);
  if (controllers.empty()) return {{.subject = "NVMe-oF", .seen = "no drive over a network"}};
  Findings findings;
  std::map<std::string, std::vector<const FabricController*>> subsystems;
  for (const FabricController& controller : controllers) {
    for (Finding& finding : check_controller(machine, controller))
      findings.push_back(std::move(finding));
    subsystems[controller.nqn].push_back(&controller);
  }
  bool several = false;
  for (const auto& [nqn, paths] : subsystems) {
    findings.push_back(check_paths(machine, *paths.front(), paths.size()));
    several = several || paths.size() > 1;
  }
  if (several)
    for (Finding& finding : check_policy(machine)) findings.push_back(std::move(finding));
  return findings;
}

}  // namespace stoker
