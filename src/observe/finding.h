#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stoker {

/// In ascending order.
enum class Severity : std::uint8_t {
  ok,       ///< Checked; nothing to do.
  note,     ///< Could be better; not urgent.
  warning,  ///< Costs training time, or may lose data under the conditions that `why` names.
  problem,  ///< Endangers data or stops work.
};

/// The result of one check. The field names are those of `stoker doctor --json`.
struct Finding {
  Severity severity = Severity::ok;
  std::string subject;   ///< "io_uring", or "/data: mount options" for a finding about a path.
  std::string seen;      ///< What was found, with numbers.
  std::string why = {};  ///< The effect on training; empty when ok.
  std::string fix = {};  ///< A command that fixes it or shows more; empty when ok.
};

using Findings = std::vector<Finding>;

}  // namespace stoker
