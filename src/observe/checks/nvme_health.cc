#include <fmt/format.h>

#include "formats/json/strict_json.h"
#include "observe/checks.h"
#include "observe/gpu.h"
#include "observe/text_fields.h"

namespace stoker {
namespace {

constexpr std::uint64_t kUsedWarnPercent = 80;
constexpr std::uint64_t kUsedUpPercent = 100;
constexpr std::uint64_t kHotKelvin = 273 + 70;  // where most data-center drives start to throttle

/// The fields of the SMART log (page 02h) that are checked.
struct SmartLog {
  std::uint64_t critical_warning = 0;
  std::uint64_t spare_percent = 100;
  std::uint64_t spare_min_percent = 0;
  std::uint64_t used_percent = 0;
  std::uint64_t media_errors = 0;
  std::uint64_t temperature_kelvin = 0;
};

/// Versions of nvme-cli write a field as a number, a string (128-bit fields) or {"value": ...}.
std::uint64_t count_of(const Json& log, std::string_view key, std::uint64_t missing) {
  const Json* field = log.find(key);
  if (field == nullptr) return missing;
  if (const Json* const value = field->find("value")) field = value;
  if (field->is_number_unsigned()) return field->get_uint64();
  if (field->is_string()) return parse_count(field->get_string()).value_or(missing);
  return missing;
}

std::optional<SmartLog> parse_smart_log(std::string_view text) {
  const Result<Json> parsed = parse_strict_json(text, "smart-log");
  if (!parsed.ok() || !parsed->contains("critical_warning")) return std::nullopt;
  const Json& log = *parsed;
  const std::uint64_t used = count_of(log, "percent_used", 0);
  return SmartLog{.critical_warning = count_of(log, "critical_warning", 0),
                  .spare_percent = count_of(log, "avail_spare", 100),
                  .spare_min_percent = count_of(log, "spare_thresh", 0),
                  .used_percent = count_of(log, "percentage_used", used),
                  .media_errors = count_of(log, "media_errors", 0),
                  .temperature_kelvin = count_of(log, "temperature", 0)};
}

std::string replace_drive(const std::string& device) {
  return fmt::format("nvme smart-log -H {}   # copy its checkpoints elsewhere, then replace it",
                     device);
}

/// Returns one finding for each problem of a drive.
Findings judge(const SmartLog& log, const std::string& subject, const std::string& device) {
  Findings findings;
  const auto add = [&](Severity severity, std::string seen, std::string why) {
    findings.push_back({severity, subject, std::move(seen), std::move(why), replace_drive(device)});
  };
  if (log.critical_warning != 0)
    add(Severity::problem, fmt::format("critical warning 0x{:x}", log.critical_warning),
        "The drive itself reports that it is failing; it may turn read-only in the middle of a "
        "checkpoint.");
  if (log.spare_percent < log.spare_min_percent)
    add(Severity::problem,
        fmt::format("{} % of the spare blocks left, below its own limit of {} %", log.spare_percent,
                    log.spare_min_percent),
        "The next bad block may cost data.");
  if (log.media_errors != 0)
    add(Severity::problem, fmt::format("{} unrecovered media errors", log.media_errors),
        "The drive has lost data before: shards and checkpoints on it must be verified.");
  if (log.used_percent >= kUsedUpPercent)
    add(Severity::problem, fmt::format("{} % of the rated endurance is used", log.used_percent),
        "The drive has written more than it is rated for; it may lose data sooner when powered "
        "off.");
  else if (log.used_percent >= kUsedWarnPercent)
    add(Severity::warning, fmt::format("{} % of the rated endurance is used", log.used_percent),
        "Frequent checkpoints will use up the rest; plan the replacement.");
  if (log.temperature_kelvin >= kHotKelvin)
    findings.push_back(
        {.severity = Severity::warning,
         .subject = subject,
         .seen = fmt::format("{} °C", log.temperature_kelvin - 273),
         .why = "The drive throttles itself, so long reads and checkpoints slow down.",
         .fix = fmt::format("nvme smart-log {}   # then better airflow or a heat sink", device)});
  return findings;
}

Finding unreadable(Machine& machine, const std::string& subject, const std::string& device) {
  const Result<CommandResult> version = machine.run({"nvme", "version"}, kCommandTimeout);
  const bool installed = version.ok();
  const std::string fix = !installed          ? "apt-get install nvme-cli   # then run this again"
                          : machine.is_root() ? "nvme smart-log " + device
                                              : "sudo stoker doctor";
  return {.severity = Severity::note,
          .subject = subject,
          .seen = installed ? "its SMART log cannot be read" : "its SMART log needs nvme-cli",
          .why = "A worn-out drive is noticed only when a checkpoint fails.",
          .fix = fix};
}

Findings check_drive(Machine& machine, const std::string& name) {
  const std::string directory = "/sys/class/nvme/" + name;
  const std::string device = "/dev/" + name;
  const std::string subject = "NVMe " + name;
  Findings findings;
  if (const auto state = find_word(machine, directory + "/state"); state && *state != "live")
    findings.push_back({.severity = Severity::problem,
                        .subject = subject,
                        .seen = fmt::format("the controller's state is \"{}\"", *state),
                        .why = "Its reads and writes hang or fail until it is live again.",
                        .fix = fmt::format("nvme reset {}; dmesg | grep {}", device, name)});
  if (auto finding = check_pcie_width(machine, subject,
                                      find_word(machine, directory + "/address").value_or("")))
    findings.push_back(*std::move(finding));

  const auto text = find_output(machine, {"nvme", "smart-log", device, "--output-format=json"});
  const auto log = text ? parse_smart_log(*text) : std::nullopt;
  if (!log) {
    findings.push_back(unreadable(machine, subject, device));
    return findings;
  }
  for (Finding& finding : judge(*log, subject, device)) findings.push_back(std::move(finding));
  if (findings.empty())
    findings.push_back(
        {.subject = subject,
         .seen = fmt::format("{}: {} % of its endurance used, {} % spare, no errors",
                             find_word(machine, directory + "/model").value_or("drive"),
                             log->used_percent, log->spare_percent)});
  return findings;
}

}  // namespace

Findings check_nvme_health(Machine& machine) {
  Findings findings;
  for (const std::string& name : find_numbered(machine, "/sys/class/nvme", "nvme")) {
    const auto transport = find_word(machine, "/sys/class/nvme/" + name + "/transport");
    if (transport && *transport != "pcie") continue;  // handled by check_nvme_fabrics
    for (Finding& finding : check_drive(machine, name)) findings.push_back(std::move(finding));
  }
  if (findings.empty()) findings.push_back({.subject = "NVMe", .seen = "no local NVMe drive"});
  return findings;
}

}  // namespace stoker
