#include "stoker/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "base/unit_tables.h"

namespace stoker {
namespace {

/// Describes the quantity being parsed, for messages.
struct Kind {
  std::string_view noun;
  std::string_view examples;
};
constexpr Kind kSize = {"size", "\"200GiB\", \"1.5GB\" or \"4096\""};
constexpr Kind kRate = {"rate", "\"1.5GB/s\" or \"200MiB/s\""};
constexpr Kind kDuration = {"duration", "\"30s\", \"1.5ms\" or \"2h\" (ns, us, ms, s, min, h, d)"};

/// Returns the text in a form fit for a message: ASCII, because Python decodes messages as UTF-8,
/// and not longer than a line.
std::string quotable(std::string_view text) {
  constexpr std::size_t kShownMax = 48;
  std::string shown(text.substr(0, kShownMax));
  std::replace_if(shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  if (text.size() > kShownMax) shown += "...";
  return shown;
}

Status refuse(const Kind& kind, std::string_view text, std::string_view why) {
  return Status(Code::invalid_argument, fmt::format("{} \"{}\": {}; write it like {}", kind.noun,
                                                    quotable(text), why, kind.examples));
}

/// The parts of a text: digits [ "." digits ] [ " " ] unit.
struct Parts {
  std::string_view whole;
  std::string_view fraction;  ///< Empty if there is no point.
  std::string_view unit;      ///< The remaining text; not yet checked.
};

std::string_view take_digits(std::string_view& rest) {
  const std::size_t end = std::min(rest.find_first_not_of("0123456789"), rest.size());
  const std::string_view digits = rest.substr(0, end);
  rest.remove_prefix(end);
  return digits;
}

Result<Parts> take_apart(const Kind& kind, std::string_view text) {
  std::string_view rest = text;
  Parts parts;
  parts.whole = take_digits(rest);
  if (parts.whole.empty()) return refuse(kind, text, "does not start with a digit");
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    parts.fraction = take_digits(rest);
    if (parts.fraction.empty()) return refuse(kind, text, "no digit after the point");
  }
  if (rest.starts_with(' ')) {
    rest.remove_prefix(1);
    if (rest.empty()) return refuse(kind, text, "ends in a space");
  }
  parts.unit = rest;
  return parts;
}

/// Returns `parts` times `unit_size`, computed in integers and rounded down.
Result<std::uint64_t> multiply(const Kind& kind, std::string_view text, const Parts& parts,
                               std::uint64_t unit_size) {
  std::uint64_t total = 0;
  bool overflow = false;
  for (const char c : parts.whole) {
    overflow |= __builtin_mul_overflow(total, std::uint64_t{10}, &total);
    overflow |= __builtin_add_overflow(total, static_cast<std::uint64_t>(c - '0'), &total);
  }
  overflow |= __builtin_mul_overflow(total, unit_size, &total);

  if (unit_size == 1 && !parts.fraction.empty()) {
    return refuse(kind, text, "a fraction needs a larger unit");
  }
  // From the last digit to the first, dropping the remainder each time. This is exact for any
  // number of digits, because floor((n + x) / 10) == floor((n + floor(x)) / 10) for a whole n, and
  // cannot overflow: `part` stays below unit_size, and ten times the largest unit fits.
  std::uint64_t part = 0;
  bool is_zero = true;
  for (auto c = parts.fraction.rbegin(); c != parts.fraction.rend(); ++c) {
    part = (static_cast<std::uint64_t>(*c - '0') * unit_size + part) / 10;
    is_zero &= *c == '0';
  }
  overflow |= __builtin_add_overflow(total, part, &total);
  if (overflow) return refuse(kind, text, "too large");
  if (total == 0 && !is_zero) return refuse(kind, text, "rounds to zero");
  return total;
}

const Unit* find_unit(std::span<const Unit> units, std::string_view name) {
  const auto found = std::ranges::find(units, name, &Unit::name);
  return found == units.end() ? nullptr : &*found;
}

const Unit* find_size_unit(std::string_view name) {
  const Unit* unit = find_unit(kBinaryUnits, name);
  return unit != nullptr ? unit : find_unit(kDecimalUnits, name);
}

Status refuse_unit(const Kind& kind, std::string_view text, std::string_view unit) {
  if (unit.empty()) return refuse(kind, text, "no unit");
  return refuse(kind, text, fmt::format("\"{}\" is not a unit", quotable(unit)));
}

/// Refuses "4K": some tools read it as 4000, others as 4096.
Status refuse_size_unit(const Kind& kind, std::string_view text, std::string_view unit) {
  constexpr std::string_view kPrefixes = "KMGTPkmgtp";
  if (unit.size() != 1 || kPrefixes.find(unit[0]) == std::string_view::npos) {
    return refuse_unit(kind, text, unit);
  }
  const std::string_view letter = kPrefixes.substr(kPrefixes.find(unit[0]) % 5, 1);
  return refuse(
      kind, text,
      fmt::format("\"{}\" means {}iB (powers of 1024) or {}B (of 1000)", unit, letter, letter));
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text) {
  STOKER_ASSIGN(const Parts parts, take_apart(kSize, text));
  if (parts.unit.empty()) return multiply(kSize, text, parts, 1);
  const Unit* unit = find_size_unit(parts.unit);
  if (unit == nullptr) return refuse_size_unit(kSize, text, parts.unit);
  return multiply(kSize, text, parts, unit->size);
}

Result<std::uint64_t> parse_rate(std::string_view text) {
  constexpr std::string_view kPerSecond = "/s";
  if (!text.ends_with(kPerSecond)) return refuse(kRate, text, "does not end in \"/s\"");
  STOKER_ASSIGN(const Parts parts,
                take_apart(kRate, text.substr(0, text.size() - kPerSecond.size())));
  const Unit* unit = find_size_unit(parts.unit);
  if (unit == nullptr) return refuse_size_unit(kRate, text, parts.unit);
  return multiply(kRate, text, parts, unit->size);
}

Result<nanoseconds> parse_duration(std::string_view text) {
  STOKER_ASSIGN(const Parts parts, take_apart(kDuration, text));
  const Unit* unit = find_unit(kTimeUnits, parts.unit);
  if (unit == nullptr) return refuse_unit(kDuration, text, parts.unit);
  STOKER_ASSIGN(const std::uint64_t count, multiply(kDuration, text, parts, unit->size));
  if (count > static_cast<std::uint64_t>(nanoseconds::max().count())) {
    return refuse(kDuration, text, "too large");
  }
  return nanoseconds(count);
}

}  // namespace stoker
