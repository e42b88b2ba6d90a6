#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "stoker/status.h"

namespace stoker {

/// Where the ranks of one session leave messages for each other: texts by name. A coordinator polls
/// it. tests/conformance/coordinator_suite.h is the contract of both together.
///
/// Thread safety: every method may be called from any thread.
class MessagePlace {
 public:
  virtual ~MessagePlace() = default;

  /// Makes a text visible to the other ranks, never in part. Replaces the earlier one of that name.
  virtual Status publish(const std::string& name, const std::string& text, Deadline deadline) = 0;
  /// Returns the texts of leading names, in order; none if the first name has no text. May return
  /// fewer than there are. `unavailable` if the place is lost.
  virtual Result<std::vector<std::string>> find(std::span<const std::string> names,
                                                Deadline deadline) = 0;
  /// Like find(), and removes what it returns. For messages that only this rank reads.
  virtual Result<std::vector<std::string>> take(std::span<const std::string> names,
                                                Deadline deadline) = 0;
  /// Takes back what this rank has published, unless it was taken. The name may be used again.
  virtual void withdraw(const std::string& name) = 0;
  /// Removes what this rank has published, once every rank has read it.
  virtual void remove(const std::string& name) = 0;
  /// Returns for each name whether it has a text. For messages to people.
  virtual std::vector<bool> are_there(std::span<const std::string> names) = 0;

  /// Returns why rank `from` could not publish `name`, if it has left word of that.
  virtual Status find_failure(const std::string& /*name*/, std::uint32_t /*from*/) { return {}; }
  /// Forgets such a word of an earlier call.
  virtual void forget_failure(const std::string& /*name*/) {}
};

}  // namespace stoker
