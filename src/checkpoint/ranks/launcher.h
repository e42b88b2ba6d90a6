/// \file
/// The process that has started this one as a rank, and the others it has started. What launchers
/// say in variables may be the same in two jobs at once; a process is one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stoker {

/// A process, told from every other one.
struct ProcessIdentity {
  /// The machine since its start, and the namespace in which processes are numbered; empty if the
  /// process is not known.
  std::string space = {};
  std::int64_t pid = 0;
  std::string started = {};  ///< Ticks since the start of the machine.

  bool is_known() const noexcept { return !space.empty(); }
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

ProcessIdentity this_process();

/// Whether the process is known to have ended. False for one of another machine or container: there
/// is no telling.
bool has_ended(const ProcessIdentity& process);

/// The nearest ancestor that does not have this process' value of the environment variable
/// `rank_variable`: a script around a rank inherits it. An empty name: the parent. Not known if
/// there is no telling: the ancestor has ended, so that this process was given to another one, or
/// lives outside of this container.
ProcessIdentity find_launcher(const std::string& rank_variable);

/// Other processes that this launcher has started in the way it has started this one, and that may
/// be ranks, too: the same program, and the variable in their environment.
std::vector<std::int64_t> find_siblings(const std::string& rank_variable);

}  // namespace stoker
