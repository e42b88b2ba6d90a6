/// \file
/// Messages between ranks as JSON and back. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/json/json.h"
#include "stoker/status.h"

namespace stoker {

/// One line.
std::string message_text(const Json& message);

/// What a message says of a Status; MessageMembers::failure() reads it.
Json failure_json(const Status& status);

/// Reads the members of one message; the first that is missing or of another type is remembered.
///
/// Thread safety: none.
class MessageMembers {
 public:
  explicit MessageMembers(std::string_view text);

  bool has(const char* key) const noexcept { return json_.find(key) != nullptr; }
  std::uint64_t number(const char* key);
  std::string text(const char* key);
  Status failure(const char* key = "failure");
  /// Of an array of pairs of texts.
  std::vector<std::pair<std::string, std::string>> pairs(const char* key);

  /// OK if all that was asked for was there, and it `is_sound`; else `corrupt`.
  Status check(bool is_sound = true) const;

 private:
  Json json_;
  bool is_good_ = false;
};

}  // namespace stoker
