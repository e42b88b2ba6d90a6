#include <fmt/format.h>

#include <algorithm>

#include "base/shell_quote.h"
#include "observe/checks.h"
#include "observe/checks/lustre.h"
#include "observe/text_fields.h"
#include "stoker/units.h"

namespace stoker {
namespace {

constexpr std::uint64_t kTargetFullPercent = 90;
constexpr std::uint64_t kMetadataSlowMicroseconds = 5000;
constexpr std::uint64_t kRequestsMin = 1000;  // fewer are not significant
constexpr std::uint64_t kPagesMin = 1024;     // 4 MiB in pages of 4 KiB
constexpr std::uint64_t kRpcsInFlightMin = 16;

/// The samples and their sum, over all lines with one name: "req_waittime  5134 samples [usec] 45
/// 98765 1234567 9876543210".
struct StatLine {
  std::uint64_t samples = 0;
  std::uint64_t sum = 0;
};

StatLine add_up(std::string_view text, std::string_view name) {
  StatLine total;
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> words = split_words(line);
    if (words.size() < 2 || words[0] != name) continue;
    total.samples += parse_count(words[1]).value_or(0);
    if (words.size() > 6) total.sum += parse_count(words[6]).value_or(0);
  }
  return total;
}

std::string get_parameter(Machine& machine, const std::string& name) {
  return find_output(machine, {"lctl", "get_param", "-n", name}).value_or("");
}

/// Returns the smallest number in a parameter that has one line per target.
std::optional<std::uint64_t> least(std::string_view text) {
  std::optional<std::uint64_t> result;
  for (const std::string_view word : split_words(text))
    if (const auto value = parse_count(word)) result = std::min(result.value_or(*value), *value);
  return result;
}

void check_fill(Machine& machine, const Target& target, Findings& findings) {
  const auto text = find_output(machine, {"lfs", "df", target.directory});
  if (!text) return;
  for (const LustreTarget& storage : parse_lustre_targets(*text)) {
    if (storage.used_percent < kTargetFullPercent) continue;
    const std::string directory = shell_quote(target.directory);
    findings.push_back(
        {.severity = Severity::warning,
         .subject = target.subject("Lustre targets"),
         .seen = fmt::format("{} {} is {} % full", storage.is_metadata ? "MDT" : "OST",
                             storage.index, storage.used_percent),
         .why = storage.is_metadata
                    ? "When it is full, no file can be created, even if the others have room."
                    : "Writes to a file with a stripe there fail with ENOSPC, even if others have "
                      "room.",
         .fix = storage.is_metadata
                    ? fmt::format("stoker pack {0} {0}-shards", directory)
                    : fmt::format("lfs find {} --ost {} --type f --size +1G -0 | xargs -0 -n 1 lfs "
                                  "migrate -c 1",
                                  directory, storage.index)});
  }
}

void check_metadata_load(Machine& machine, const Target& target, Findings& findings) {
  const StatLine waits = add_up(get_parameter(machine, "mdc.*.stats"), "req_waittime");
  if (waits.samples < kRequestsMin) return;
  const std::uint64_t average = waits.sum / waits.samples;
  if (average < kMetadataSlowMicroseconds) return;
  const std::string directory = shell_quote(target.directory);
  findings.push_back(
      {.severity = Severity::warning,
       .subject = target.subject("Lustre MDT load"),
       .seen = fmt::format("a metadata request takes {:.1f} ms on average",
                           static_cast<double>(average) / 1000),
       .why =
           "The metadata server is the bottleneck: opening and listing small files takes the time.",
       .fix = target.for_datasets()
                  ? fmt::format("stoker pack {0} {0}-shards", directory)
                  : fmt::format("lfs setdirstripe -D -c -1 {}   # new subdirectories over all MDTs",
                                directory)});
}

void check_lock_contention(Machine& machine, const Target& target, Findings& findings) {
  const std::string osc = get_parameter(machine, "osc.*.stats");
  const std::uint64_t transfers =
      add_up(osc, "ost_read").samples + add_up(osc, "ost_write").samples;
  const std::uint64_t revoked =
      add_up(get_parameter(machine, "ldlm.services.ldlm_cbd.stats"), "ldlm_bl_callback").samples;
  if (revoked < kRequestsMin || revoked < transfers / 10) return;
  findings.push_back(
      {.severity = Severity::warning,
       .subject = target.subject("Lustre locks"),
       .seen = fmt::format("{} locks taken away by other clients during {} transfers", revoked,
                           transfers),
       .why =
           "Several nodes write one file, or one stripe of it, and pass its lock back and forth: "
           "give every rank its own file.",
       .fix = format_command({"lfs", "setstripe", "-c", "8", "-S", "16M", target.directory}) +
              "   # only for a shared file; write it in multiples of 16 MiB"});
}

void check_request_size(Machine& machine, const Target& target, Findings& findings) {
  if (const auto pages = least(get_parameter(machine, "osc.*.max_pages_per_rpc"));
      pages && *pages < kPagesMin)
    findings.push_back({.severity = Severity::note,
                        .subject = target.subject("Lustre I/O size"),
                        .seen = fmt::format("RPCs of at most {}", format_bytes(*pages * 4096)),
                        .why = "Large reads and checkpoint writes are cut into RPCs this small.",
                        .fix = "lctl set_param osc.*.max_pages_per_rpc=4M"});
  if (const auto rpcs = least(get_parameter(machine, "osc.*.max_rpcs_in_flight"));
      rpcs && *rpcs < kRpcsInFlightMin)
    findings.push_back(
        {.severity = Severity::note,
         .subject = target.subject("Lustre I/O depth"),
         .seen = fmt::format("{} RPCs in flight per storage target", *rpcs),
         .why = "A fast network idles while the client waits for answers.",
         .fix = fmt::format("lctl set_param osc.*.max_rpcs_in_flight={}", kRpcsInFlightMin)});
}

}  // namespace

Findings check_lustre_load(Machine& machine, const Target& target) {
  if (target.kind != FilesystemType::lustre) return {};
  Findings findings;
  check_fill(machine, target, findings);
  check_metadata_load(machine, target, findings);
  check_lock_contention(machine, target, findings);
  check_request_size(machine, target, findings);
  if (findings.empty())
    findings.push_back(
        {.subject = target.subject("Lustre load"),
         .seen = "no full target, slow metadata, lock contention or small RPCs seen"});
  return findings;
}

}  // namespace stoker
