/// \file
/// JSON from strangers: parsed whole under limits, then read value by value with errors that name
/// the place. What ordinary parsers let pass is refused: duplicate keys, nesting without
/// end, a byte-order mark, anything after the value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "formats/json/json.h"
#include "stoker/status.h"

namespace stoker {

struct StrictJsonLimits {
  std::size_t text_bytes_max = std::size_t{64} << 20;
  std::size_t depth_max = 64;
  /// Each value costs up to about 100 bytes of memory, however short its text.
  std::size_t value_count_max = 8'000'000;
};

/// `corrupt` names `what` and, where the text is at fault, about which byte of it. Never throws
/// for what the text holds.
Result<Json> parse_strict_json(std::string_view text, std::string_view what,
                               const StrictJsonLimits& limits = {});

/// Whether an ordinary parser would accept `text`: without limits, and with duplicate keys.
bool is_json(std::string_view text);

/// For messages: in double quotes, printable ASCII, cut after 64 bytes.
std::string quote_for_message(std::string_view text);

/// A value and the path to it ("index.json: shards[3].raw_data"), so that what is missing or of the
/// wrong type is reported where it should be. It refers to the document, which must outlive it.
///
/// Thread safety: const methods from any thread.
class JsonView {
 public:
  JsonView(const Json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  /// The member of an object; `corrupt` if this is no object or it has none of that name.
  Result<JsonView> at(std::string_view key) const;
  /// The member, or null if there is none or it is null; `corrupt` if this is no object.
  Result<JsonView> at_or_null(std::string_view key) const;
  /// The number of elements; `corrupt` if this is no array.
  Result<std::size_t> array_size() const;
  /// An element, of which there must be one.
  JsonView element(std::size_t index) const;

  bool is_null() const noexcept { return value_->is_null(); }
  bool is_string() const noexcept { return value_->is_string(); }
  /// An integer from 0 to `value_max`; `corrupt` for negative, fractional and larger ones.
  Result<std::uint64_t> u64(std::uint64_t value_max = UINT64_MAX) const;
  Result<std::string> text() const;

  const Json& value() const noexcept { return *value_; }
  const std::string& path() const noexcept { return path_; }
  /// `corrupt`: "PATH: message".
  Status corrupt(std::string_view message) const;

 private:
  const Json* value_;
  std::string path_;
};

}  // namespace stoker
