// Any text for the parsers of sizes, rates, durations and digests: none may crash, a value must
// survive an exact round trip, and the message of a refusal must be printable ASCII.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/checksum.h"
#include "base/hex.h"
#include "stoker/units.h"

namespace stoker {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void require_readable(const Status& status) {
  require(status.code() == Code::invalid_argument && !status.message().empty());
  require(std::ranges::all_of(status.message(), [](char c) { return c >= ' ' && c <= '~'; }));
}

template <typename Value>
void round_trip(std::string_view text, Result<Value> (*parse)(std::string_view),
                std::string (*format_exact)(Value), std::string (*format)(Value)) {
  const Result<Value> value = parse(text);
  if (!value.ok()) return require_readable(value.status());
  const Result<Value> again = parse(format_exact(*value));
  require(again.ok() && *again == *value);
  require(!format(*value).empty());
}

void read_digests(std::string_view text) {
  if (const Result<Digest128> digest = Digest128::from_hex(text); digest.ok()) {
    require(digest->hex() == text);
  } else {
    require_readable(digest.status());
  }
  if (const Result<Sha256Digest> digest = parse_sha256(text); digest.ok()) {
    require(format_hex(*digest) == text);
  } else {
    require_readable(digest.status());
  }
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  stoker::round_trip(text, stoker::parse_bytes, stoker::format_bytes_exact, stoker::format_bytes);
  stoker::round_trip(text, stoker::parse_rate, stoker::format_rate_exact, stoker::format_rate);
  stoker::round_trip(text, stoker::parse_duration, stoker::format_duration_exact,
                     stoker::format_duration);
  stoker::read_digests(text);
  return 0;
}
