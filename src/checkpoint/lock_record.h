/// \file
/// What the holder of a checkpoint directory says about itself in `.lock`. Pure, but for the two
/// functions that ask the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stoker {

struct LockRecord {
  std::string token = {};
  std::string host = {};
  std::int64_t pid = 0;
  double time_s = 0;       ///< Of the last sign of life; since 1970.
  std::uint64_t beat = 0;  ///< Counted up with every sign of life.

  /// "pid 123 on node7"
  std::string who() const;

  friend bool operator==(const LockRecord&, const LockRecord&) = default;
};

/// Always of one length, so that a record written over another leaves nothing of it.
std::string format_lock_record(const LockRecord& record);
/// Nothing if nobody holds it, or the text is no record.
std::optional<LockRecord> parse_lock_record(std::string_view text);

/// This machine, and this start of it: locks do not survive a reboot.
std::string host_name();
/// 32 digits that nobody else has.
std::string make_token();

}  // namespace stoker
