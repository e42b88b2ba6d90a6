#include <fmt/format.h>

#include "observe/checks.h"
#include "observe/text_fields.h"

namespace stoker {

Findings check_huge_pages(Machine& machine) {
  const std::string subject = "huge pages";
  const std::string directory = "/sys/kernel/mm/transparent_hugepage/";
  const std::string enabled_text = find_word(machine, directory + "enabled").value_or("");
  const std::string defrag_text = find_word(machine, directory + "defrag").value_or("");
  const std::string_view enabled = marked_choice(enabled_text);
  const std::string_view defrag = marked_choice(defrag_text);
  if (enabled.empty())
    return {{.severity = Severity::note,
             .subject = subject,
             .seen = "this kernel has no transparent huge pages",
             .why = "I/O buffers cost 512 times as many page-table entries and pinnings.",
             .fix = "zgrep TRANSPARENT_HUGEPAGE /proc/config.gz /boot/config-$(uname -r)"}};

  const std::string seen =
      fmt::format("transparent huge pages: {}, defragmentation: {}", enabled, defrag);
  if (enabled == "never")
    return {{.severity = Severity::note,
             .subject = subject,
             .seen = seen,
             .why = "I/O buffers ask for huge pages and get small ones, so pinning and registering "
                    "them takes longer.",
             .fix = fmt::format("echo madvise > {}enabled", directory)}};
  if (defrag == "always")
    return {{.severity = Severity::note,
             .subject = subject,
             .seen = seen,
             .why = "Any allocation may stop to compact memory, which shows as rare long batches.",
             .fix = fmt::format("echo defer+madvise > {}defrag", directory)}};
  return {{.subject = subject, .seen = seen}};
}

}  // namespace stoker
