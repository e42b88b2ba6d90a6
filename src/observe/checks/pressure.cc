#include <fmt/format.h>

#include <array>

#include "observe/checks.h"
#include "observe/text_fields.h"

namespace stoker {
namespace {

struct PressureRule {
  std::string_view resource;
  std::string_view line;  ///< "some": at least one task waits; "full": all of them do.
  double percent_max;     ///< Average over the last minute.
  Severity severity;
  std::string_view why;
  std::string_view fix;
};

constexpr std::array kRules{
    PressureRule{
        "io", "full", 10, Severity::warning,
        "All tasks on this machine waited for storage: batches are late whatever the loader "
        "does.",
        "pidstat -d 5 3   # who reads and writes"},
    PressureRule{
        "memory", "some", 5, Severity::warning,
        "Memory is being reclaimed all the time, so pages of the dataset are dropped before "
        "they are used again.",
        "ps -eo pid,rss,comm --sort=-rss | head   # who uses it"},
    PressureRule{"cpu", "some", 50, Severity::note,
                 "Decoding threads wait for a processor, which looks like slow storage.",
                 "pidstat -u 5 3   # who runs"}};

/// Returns avg60 of the "some" or "full" line of a file of /proc/pressure.
std::optional<double> find_average(std::string_view text, std::string_view line) {
  for (const std::string_view word : split_words(find_field(text, line).value_or("")))
    if (word.starts_with("avg60=")) return parse_decimal(word.substr(6));
  return std::nullopt;
}

}  // namespace

Findings check_pressure(Machine& machine) {
  Findings findings;
  std::string calm;
  for (const PressureRule& rule : kRules) {
    const Result<std::string> text =
        machine.read_text(fmt::format("/proc/pressure/{}", rule.resource));
    const std::optional<double> percent = text.ok() ? find_average(*text, rule.line) : std::nullopt;
    if (!percent) continue;
    const std::string seen = fmt::format("{} {} {:.1f} %", rule.resource, rule.line, *percent);
    if (*percent > rule.percent_max)
      findings.push_back({.severity = rule.severity,
                          .subject = fmt::format("{} pressure", rule.resource),
                          .seen = seen + " of the last minute",
                          .why = std::string(rule.why),
                          .fix = std::string(rule.fix)});
    else
      calm += (calm.empty() ? "" : ", ") + seen;
  }
  if (!calm.empty())
    findings.push_back({.subject = "pressure", .seen = "in the last minute: " + calm});
  if (findings.empty())
    findings.push_back(
        {.severity = Severity::note,
         .subject = "pressure",
         .seen = "/proc/pressure does not exist",
         .why = "Without pressure-stall figures a busy disk cannot be told from a lack of memory.",
         .fix = "grubby --update-kernel=ALL --args=psi=1   # Debian: psi=1 in GRUB_CMDLINE_LINUX, "
                "then update-grub"});
  return findings;
}

}  // namespace stoker
