/// \file
/// What the holder of a checkpoint directory says about itself in `.lock-<epoch>`. Pure, but for
/// the function that asks the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/store/lock_options.h"

namespace stoker {

/// The one this process runs on.
Machine this_machine();
/// Its name alone, for which no file is read.
std::string this_host();

struct LockRecord {
  std::string token = {};
  Machine machine = {};
  /// Of the filesystem, as that machine counts: where it is the same, a flock is seen.
  std::uint64_t device = 0;
  std::int64_t pid = 0;
  std::string job = {};    ///< For people; may be empty.
  std::uint64_t beat = 0;  ///< Counted up with every sign of life.
  bool is_released = false;

  /// "pid 123 on node7 (job 42)"
  std::string who() const;

  friend bool operator==(const LockRecord&, const LockRecord&) = default;
};

/// What anybody has written, fit for a line of a message: without control characters.
std::string text_for_people(std::string text);

/// Always of one length, so that a record written over another leaves nothing of it.
std::string format_lock_record(const LockRecord& record);
/// Nothing if the text is no record.
std::optional<LockRecord> parse_lock_record(std::string_view text);

/// What version 0.1 wrote into `.lock` itself.
struct OldLockRecord {
  std::string host = {};  ///< Name and a part of the boot id: "node7/1234abcd".
  std::int64_t pid = 0;
  double time_s = 0;  ///< Of the last sign of life; since 1970.
  std::uint64_t beat = 0;

  std::string who() const;

  friend bool operator==(const OldLockRecord&, const OldLockRecord&) = default;
};
/// Nothing if nobody holds it, or the text is no record.
std::optional<OldLockRecord> parse_old_lock_record(std::string_view text);
/// What `host` of such a record is on this machine.
std::string old_host_name(const Machine& machine);

inline constexpr std::size_t kLockRecordBytes = 1024;

}  // namespace stoker
