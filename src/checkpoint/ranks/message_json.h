/// \file
/// JSON messages between ranks: formatting and parsing. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/json/json.h"
#include "stoker/status.h"

namespace stoker {

/// Returns the message as one line.
std::string message_text(const Json& message);

/// Returns a Status as JSON; MessageMembers::failure() parses it.
Json failure_json(const Status& status);

/// Reads the members of one message; check() fails if one was missing or of the wrong type.
///
/// Thread safety: none.
class MessageMembers {
 public:
  explicit MessageMembers(std::string_view text);

  bool has(const char* key) const noexcept { return json_.find(key) != nullptr; }
  std::uint64_t number(const char* key);
  std::string text(const char* key);
  Status failure(const char* key = "failure");
  /// Reads an array of numbers.
  std::vector<std::uint64_t> numbers(const char* key);
  /// Reads an array of texts.
  std::vector<std::string> texts(const char* key);
  /// Reads an array of pairs of texts.
  std::vector<std::pair<std::string, std::string>> pairs(const char* key);

  /// OK if all members read so far were valid and `is_sound`; otherwise `corrupt`.
  Status check(bool is_sound = true) const;

 private:
  Json json_;
  bool is_good_ = false;
};

}  // namespace stoker
