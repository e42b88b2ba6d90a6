#include <fmt/format.h>

#include "base/shell_quote.h"
#include "observe/checks.h"
#include "observe/text_fields.h"

namespace stoker {
namespace {

constexpr std::uint64_t kRecordMin = std::uint64_t{1} << 20;

/// Returns a property from the output of `zfs get -Hp -o property,value`: "sync<tab>standard".
std::string_view find_property(std::string_view text, std::string_view name) {
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> words = split_words(line);
    if (words.size() == 2 && words[0] == name) return words[1];
  }
  return {};
}

}  // namespace

Findings check_zfs(Machine& machine, const Target& target) {
  if (target.kind != FilesystemType::zfs) return {};
  const std::string subject = target.subject("ZFS");
  const std::string dataset = shell_quote(target.mount.source);
  const auto text = find_output(machine, {"zfs", "get", "-Hp", "-o", "property,value",
                                          "sync,recordsize,atime", target.mount.source});
  if (!text)
    return {{.severity = Severity::note,
             .subject = subject,
             .seen = "the zfs command does not answer",
             .why = "With sync=disabled a crash loses committed checkpoints; this could not be "
                    "checked.",
             .fix = fmt::format("zfs get sync,recordsize,atime {}", dataset)}};

  Findings findings;
  if (find_property(*text, "sync") == "disabled")
    findings.push_back({.severity = Severity::problem,
                        .subject = subject,
                        .seen = "sync=disabled",
                        .why = "fsync returns before anything is on disk: a crash loses the last "
                               "seconds, including committed checkpoints.",
                        .fix = fmt::format("zfs set sync=standard {}", dataset)});
  if (const auto record = parse_count(find_property(*text, "recordsize"));
      record && *record < kRecordMin)
    findings.push_back(
        {.severity = Severity::note,
         .subject = subject,
         .seen = fmt::format("recordsize={}", *record),
         .why = "Large shards and checkpoints are cut into small records, each with "
                "its own checksum and seek.",
         .fix =
             fmt::format("zfs set recordsize=1M {}   # for files written from now on", dataset)});
  if (find_property(*text, "atime") == "on")
    findings.push_back({.severity = Severity::note,
                        .subject = subject,
                        .seen = "atime=on",
                        .why = "Each read of a shard writes metadata.",
                        .fix = fmt::format("zfs set atime=off {}", dataset)});
  if (findings.empty())
    findings.push_back({.subject = subject,
                        .seen = fmt::format("sync={}, recordsize={}", find_property(*text, "sync"),
                                            find_property(*text, "recordsize"))});
  return findings;
}

}  // namespace stoker
