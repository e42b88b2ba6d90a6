#include "observe/render_findings.h"

#include <fmt/format.h>

#include <vector>

#include "formats/json/json.h"
#include "observe/text_fields.h"

namespace stoker {
namespace {

constexpr std::array kWorstFirst{Severity::problem, Severity::warning, Severity::note,
                                 Severity::ok};
constexpr std::size_t kLabelWidth = 9;  // "problem" and "warning", and two blanks

std::string_view color_of(Severity severity) {
  switch (severity) {
    case Severity::problem: return "\x1b[1;31m";
    case Severity::warning: return "\x1b[1;33m";
    case Severity::note: return "\x1b[1;36m";
    case Severity::ok: return "\x1b[32m";
  }
  return "";
}

/// Names of mounts and devices may contain any bytes; a terminal must not interpret them.
std::string printable(std::string_view text) {
  std::string safe(text);
  for (char& c : safe)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return safe;
}

/// Wraps `text` in lines of at most `width` columns, all but the first indented. A longer word gets
/// its own line.
std::string wrap(std::string_view text, std::size_t indent, std::size_t width) {
  std::string lines;
  std::size_t column = indent;
  for (const std::string_view word : split_words(text)) {
    if (column > indent && column + 1 + word.size() > width) {
      lines += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
  }
  return lines;
}

std::string label(Severity severity, bool color) {
  const std::string padded = fmt::format("{:<{}}", severity_name(severity), kLabelWidth);
  return color ? fmt::format("{}{}\x1b[0m", color_of(severity), padded) : padded;
}

std::string render_one(const Finding& finding, const RenderOptions& options) {
  const std::string head = label(finding.severity, options.color);
  const std::string subject = printable(finding.subject);
  const std::string seen = printable(finding.seen);
  if (finding.severity == Severity::ok) return fmt::format("{}{}: {}\n", head, subject, seen);
  constexpr std::size_t kIndent = kLabelWidth + 6;
  const std::string margin(kLabelWidth, ' ');
  std::string text = fmt::format("{}{}\n", head, subject);
  text += fmt::format("{}seen  {}\n", margin, wrap(seen, kIndent, options.width));
  if (!finding.why.empty())
    text +=
        fmt::format("{}why   {}\n", margin, wrap(printable(finding.why), kIndent, options.width));
  if (!finding.fix.empty()) text += fmt::format("{}fix   {}\n", margin, printable(finding.fix));
  return text + '\n';
}

std::string count_text(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

std::string_view severity_name(Severity severity) noexcept {
  switch (severity) {
    case Severity::ok: return "ok";
    case Severity::note: return "note";
    case Severity::warning: return "warning";
    case Severity::problem: return "problem";
  }
  return "unknown";
}

std::array<std::size_t, 4> count_by_severity(const Findings& findings) {
  std::array<std::size_t, 4> counts{};
  for (const Finding& finding : findings) ++counts[static_cast<std::size_t>(finding.severity) % 4];
  return counts;
}

std::string render_text(const Findings& findings, const RenderOptions& options) {
  std::string text;
  for (const Severity severity : kWorstFirst)
    for (const Finding& finding : findings)
      if (finding.severity == severity) text += render_one(finding, options);
  const std::array<std::size_t, 4> counts = count_by_severity(findings);
  if (counts[0] != 0) text += '\n';
  return text + fmt::format("{}, {}, {}, {} ok\n", count_text(counts[3], "problem"),
                            count_text(counts[2], "warning"), count_text(counts[1], "note"),
                            counts[0]);
}

std::string render_json(const Findings& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"severity", severity_name(finding.severity)},
                    {"subject", finding.subject},
                    {"seen", finding.seen},
                    {"why", finding.why},
                    {"fix", finding.fix}});
  }
  const Json document = {{"findings", std::move(list)}};
  return document.dump({.indent_spaces = 2}) + '\n';
}

}  // namespace stoker
