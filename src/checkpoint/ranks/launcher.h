/// \file
/// The process that has started this one as a rank, and its other children. The variables that
/// launchers set may be equal in two concurrent jobs; the identity of a process is unique.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stoker {

/// Identifies a process uniquely.
struct ProcessIdentity {
  /// Boot id of the machine and its PID namespace; empty if the process is not known.
  std::string space = {};
  std::int64_t pid = 0;
  std::string started = {};  ///< Start time in clock ticks since boot.

  bool is_known() const noexcept { return !space.empty(); }
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

ProcessIdentity this_process();

/// Whether the process is known to have ended. False for a process on another machine or in another
/// container, whose state is unknown.
bool has_ended(const ProcessIdentity& process);

/// Returns the nearest ancestor whose value of the environment variable `rank_variable` differs
/// from this process's: a wrapper script has the same value. With an empty name, the parent. Not
/// known if the ancestor has ended, so that this process was reparented, or is outside this
/// container.
ProcessIdentity find_launcher(const std::string& rank_variable);

/// Returns other children of the launcher that may be ranks: they run the same program and have the
/// variable in their environment.
std::vector<std::int64_t> find_siblings(const std::string& rank_variable);

}  // namespace stoker
