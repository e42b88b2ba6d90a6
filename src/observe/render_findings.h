#pragma once

#include <array>
#include <string>
#include <string_view>

#include "observe/finding.h"

namespace stoker {

/// "ok", "note", "warning", "problem".
std::string_view severity_name(Severity severity) noexcept;

/// Returns the number of findings of each severity, indexed by severity.
std::array<std::size_t, 4> count_by_severity(const Findings& findings);

struct RenderOptions {
  bool color = false;
  std::size_t width = 100;  ///< Columns; commands are never wrapped, so that they can be copied.
};

/// Renders for people: the worst first, one line for each `ok`, a summary at the end. Control
/// characters are shown as '?'.
std::string render_text(const Findings& findings, const RenderOptions& options);

/// Renders JSON: {"findings": [{"severity", "subject", "seen", "why", "fix"}]}, in the order given.
/// The result is always valid: bytes that are not UTF-8 become U+FFFD.
std::string render_json(const Findings& findings);

}  // namespace stoker
