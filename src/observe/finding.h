#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stoker {

/// Worse compares greater.
enum class Severity : std::uint8_t {
  ok,       ///< Looked at, and well.
  note,     ///< Could be better; nobody has to hurry.
  warning,  ///< Costs training time, or may lose data under conditions that are named.
  problem,  ///< Endangers data or stops work.
};

/// One thing the doctor looked at. The field names are those of `stoker doctor --json`.
struct Finding {
  Severity severity = Severity::ok;
  std::string subject;   ///< "io_uring", or "/data: mount options" for a finding about a path.
  std::string seen;      ///< What was read, with figures.
  std::string why = {};  ///< What it does to training; empty when ok.
  std::string fix = {};  ///< The command that fixes it; empty when ok.
};

using Findings = std::vector<Finding>;

}  // namespace stoker
