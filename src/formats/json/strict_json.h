/// \file
/// Untrusted JSON: parsed as a whole under limits, then read value by value with errors that name
/// the place. Rejects what ordinary parsers accept: duplicate keys, unlimited nesting, a byte-order
/// mark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "formats/json/json.h"
#include "stoker/status.h"

namespace stoker {

struct StrictJsonLimits {
  std::size_t text_bytes_max = std::size_t{64} << 20;
  std::size_t depth_max = 64;
  /// Each value takes up to about 100 bytes of memory, however short its text.
  std::size_t value_count_max = 8'000'000;
  /// Also read NaN, Infinity and -Infinity, which Python's json writes by default.
  bool accepts_nonfinite = false;
};

/// `corrupt` names `what` and, for an error in the text, its approximate byte offset. Never throws
/// because of the contents of the text.
Result<Json> parse_strict_json(std::string_view text, std::string_view what,
                               const StrictJsonLimits& limits = {});

/// Whether an ordinary parser would accept `text`: without limits, and with duplicate keys.
bool is_json(std::string_view text);

/// Quotes text for messages: in double quotes, printable ASCII, truncated after 64 bytes.
std::string quote_for_message(std::string_view text);

/// A value and the path to it ("index.json: shards[3].raw_data"), so that a missing value or a
/// wrong type is reported with its place. Refers to the document, which must outlive it. The path
/// to a part is found when a message needs it: most documents have no fault and many parts.
///
/// Thread safety: const methods from any thread.
class JsonView {
 public:
  JsonView(const Json& value, std::string path);

  /// Returns a member; `corrupt` if this is not an object or has no such member.
  Result<JsonView> at(std::string_view key) const;
  /// Returns a member, or null if it is missing or null; `corrupt` if this is not an object.
  Result<JsonView> at_or_null(std::string_view key) const;
  /// Returns the number of elements; `corrupt` if this is not an array.
  Result<std::size_t> array_size() const;
  /// Returns an element; `index` must be less than array_size().
  JsonView element(std::size_t index) const;

  bool is_null() const noexcept { return value_->is_null(); }
  bool is_string() const noexcept { return value_->is_string(); }
  /// Returns an integer from 0 to `value_max`; `corrupt` for any other value.
  Result<std::uint64_t> u64(std::uint64_t value_max = UINT64_MAX) const;
  Result<std::string> text() const;

  const Json& value() const noexcept { return *value_; }
  /// Slow: for messages.
  std::string path() const;
  /// Returns `corrupt` with the message "PATH: message".
  Status corrupt(std::string_view message) const;

 private:
  struct Root {
    const Json* value = nullptr;
    std::string path;
  };

  JsonView part(const Json& value) const;

  const Json* value_;
  std::shared_ptr<const Root> root_;  // the view that this one was derived from
  const Json* above_ = nullptr;       // of a member that is missing: the object
  std::string missing_ = {};          // and the name
};

}  // namespace stoker
