#pragma once

#include <array>
#include <string>
#include <string_view>

#include "observe/finding.h"

namespace stoker {

/// "ok", "note", "warning", "problem".
std::string_view severity_name(Severity severity) noexcept;

/// How many findings there are of each severity, indexed by it.
std::array<std::size_t, 4> count_by_severity(const Findings& findings);

struct RenderOptions {
  bool color = false;
  std::size_t width = 100;  ///< Columns; commands are never wrapped, so that they can be copied.
};

/// For people: the worst first, one line for what is well, a summary at the end. Control characters
/// that came from the machine are shown as '?'.
std::string render_text(const Findings& findings, const RenderOptions& options);

/// For programs: {"findings": [{"severity", "subject", "seen", "why", "fix"}]}, in the order given.
/// Always valid JSON: bytes that are no UTF-8 become U+FFFD.
std::string render_json(const Findings& findings);

}  // namespace stoker
