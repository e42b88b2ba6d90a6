/// \file
/// What the holder of a checkpoint directory records about itself in `.lock-<epoch>`. Pure, except
/// for this_machine() and this_host().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/store/lock_options.h"

namespace stoker {

/// The machine this process runs on.
Machine this_machine();
/// The host name alone; reads no file.
std::string this_host();

struct LockRecord {
  std::string token = {};
  Machine machine = {};
  /// Device number of the filesystem on that machine: two holders with the same one see each
  /// other's flock.
  std::uint64_t device = 0;
  std::int64_t pid = 0;
  std::string job = {};    ///< For messages; may be empty.
  std::uint64_t beat = 0;  ///< Incremented with every heartbeat.
  bool is_released = false;

  /// "pid 123 on node7 (job 42)"
  std::string who() const;

  friend bool operator==(const LockRecord&, const LockRecord&) = default;
};

/// Replaces control characters in untrusted text, so that it fits on one line of a message.
std::string text_for_people(std::string text);

/// Returns kLockRecordBytes bytes, so that a record completely overwrites the previous one.
std::string format_lock_record(const LockRecord& record);
/// Returns nothing if the text is not a record.
std::optional<LockRecord> parse_lock_record(std::string_view text);

/// What version 0.1 wrote into `.lock` itself.
struct OldLockRecord {
  std::string host = {};  ///< Host name and the start of the boot id: "node7/1234abcd".
  std::int64_t pid = 0;
  double time_s = 0;  ///< Time of the last heartbeat, in seconds since 1970.
  std::uint64_t beat = 0;

  std::string who() const;

  friend bool operator==(const OldLockRecord&, const OldLockRecord&) = default;
};
/// Returns nothing if the text is not a record, as after a release.
std::optional<OldLockRecord> parse_old_lock_record(std::string_view text);
/// Returns the `host` that version 0.1 would write on `machine`.
std::string old_host_name(const Machine& machine);

inline constexpr std::size_t kLockRecordBytes = 1024;

}  // namespace stoker
