/// \file
/// What ranks tell each other in the course of a save, as text and back. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/save/pending.h"
#include "stoker/status.h"

namespace stoker {

/// Before the copy, from each rank.
struct BeginMessage {
  std::uint64_t step = 0;
  std::uint64_t size_bytes = 0;      ///< To be written, links not counted.
  bool is_late = false;              ///< No room for one more in flight.
  std::uint64_t waiting_number = 0;  ///< Of the save that could be replaced; 0 if there is none.
  std::uint64_t failed_number = 0;   ///< Of the save whose error nobody has been told; 0 if none.
  Status failure = {};               ///< That error, or what is wrong with this save.
};

enum class SaveAction : std::uint8_t { go, skip, fail };

/// Rank 0's answer, the same for all.
struct Verdict {
  SaveAction action = SaveAction::go;
  std::uint64_t replaced_number = 0;  ///< Of the save to be dropped; 0 if none.
  std::uint64_t raised_number = 0;    ///< Of the save whose error this is; 0 if it is a new one.
  std::string staging = {};           ///< Path of the staging directory.
  Status failure = {};
};

/// After a rank's files are durable, or not.
struct PartMessage {
  Status failure = {};
};

/// Rank 0's last word.
struct EndMessage {
  SaveOutcome outcome = SaveOutcome::failed;
  std::uint64_t generation = 0;
  std::string line = {};
  Status failure = {};
};

std::string format_message(const BeginMessage& message);
std::string format_message(const Verdict& message);
std::string format_message(const PartMessage& message);
std::string format_message(const EndMessage& message);

/// `corrupt` if it is not what the functions above write.
Result<BeginMessage> parse_begin_message(std::string_view text);
Result<Verdict> parse_verdict(std::string_view text);
Result<PartMessage> parse_part_message(std::string_view text);
Result<EndMessage> parse_end_message(std::string_view text);

}  // namespace stoker
