#include "plan/quantity_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "base/unit_tables.h"

namespace stoker::plan {
namespace {

struct UnitText {
  std::string_view symbol;   ///< In JSON.
  std::string_view name;     ///< In help texts.
  std::string_view article;  ///< "a rate"
  std::string_view example;
};

/// By Unit.
constexpr std::array kUnitTexts = {
    UnitText{"", "NUMBER", "a number", "8, 0.5, 70e9 or 2M"},
    UnitText{"1", "SHARE", "a share", "95%"},
    UnitText{"B", "SIZE", "a size", "130KB or 4MiB"},
    UnitText{"B/s", "RATE", "a rate of bytes", "6.5GB/s"},
    UnitText{"s", "TIME", "a time", "200ms, 60s or 2h"},
    UnitText{"1/s", "FREQUENCY", "how often", "48/d or 3500/s"},
    UnitText{"USD", "MONEY", "an amount of money", "25USD"},
    UnitText{"USD/s", "MONEY/TIME", "a price of time", "3USD/h"},
    UnitText{"FLOP/s", "FLOP/TIME", "a rate of computing", "989TFLOP/s"},
    UnitText{"USD/B", "MONEY/SIZE", "a price of bytes", "0.023USD/GiB"},
    UnitText{"", "TEXT", "a word", "bf16"},
};

const UnitText& text_of(Unit unit) {
  return kUnitTexts[static_cast<std::size_t>(unit)];
}

struct Prefix {
  std::string_view name;
  double factor;
};
constexpr std::array kPrefixes = {Prefix{"", 1},    Prefix{"k", 1e3},  Prefix{"M", 1e6},
                                  Prefix{"G", 1e9}, Prefix{"T", 1e12}, Prefix{"P", 1e15},
                                  Prefix{"E", 1e18}};
constexpr std::array kPeriods = {Prefix{"s", 1}, Prefix{"min", 60}, Prefix{"h", 3600},
                                 Prefix{"d", 86400}};
constexpr std::array kTimes = {Prefix{"ns", 1e-9}, Prefix{"us", 1e-6}, Prefix{"ms", 1e-3},
                               Prefix{"s", 1},     Prefix{"min", 60},  Prefix{"h", 3600},
                               Prefix{"d", 86400}};

const Prefix* find_prefix(std::span<const Prefix> prefixes, std::string_view name) {
  const auto found = std::ranges::find(prefixes, name, &Prefix::name);
  return found == prefixes.end() ? nullptr : &*found;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Takes digits, a fraction and an exponent. Nothing for signs, "inf", "nan" and hexadecimal.
std::optional<double> take_number(std::string_view& text) {
  if (text.empty() || !is_digit(text.front())) return std::nullopt;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  if (*(end - 1) == '.') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

void drop_space(std::string_view& text) {
  if (text.size() > 1 && text.starts_with(' ')) text.remove_prefix(1);
}

std::optional<double> read_number(std::string_view text) {
  const std::optional<double> number = take_number(text);
  const Prefix* prefix = find_prefix(kPrefixes, text);
  return number && prefix != nullptr ? std::optional(*number * prefix->factor) : std::nullopt;
}

std::optional<double> read_share(std::string_view text) {
  const std::optional<double> number = take_number(text);
  drop_space(text);
  return number && text == "%" ? std::optional(*number / 100) : std::nullopt;
}

/// The bytes of "B", "kB", "MiB", "EB".
std::optional<double> bytes_of_unit(std::string_view name) {
  if (!name.ends_with('B')) return std::nullopt;
  name.remove_suffix(1);
  if (name == "K") name = "k";
  if (const Prefix* prefix = find_prefix(kPrefixes, name)) return prefix->factor;
  constexpr std::string_view kPowers = "KMGTPE";
  const std::size_t power =
      name.size() == 2 && name[1] == 'i' ? kPowers.find(name[0]) : kPowers.size();
  if (power >= kPowers.size()) return std::nullopt;
  return std::pow(1024.0, static_cast<double>(power + 1));
}

/// Sizes have a unit: "130" might be KB.
std::optional<double> read_bytes(std::string_view text) {
  const std::optional<double> number = take_number(text);
  drop_space(text);
  const std::optional<double> unit = bytes_of_unit(text);
  return number && unit ? std::optional(*number * *unit) : std::nullopt;
}

std::optional<double> read_rate(std::string_view text) {
  constexpr std::string_view kPerSecond = "/s";
  if (!text.ends_with(kPerSecond)) return std::nullopt;
  return read_bytes(text.substr(0, text.size() - kPerSecond.size()));
}

std::optional<double> read_time(std::string_view text) {
  const std::optional<double> number = take_number(text);
  drop_space(text);
  const Prefix* unit = find_prefix(kTimes, text);
  if (!number || unit == nullptr) return std::nullopt;
  // A quotient of whole numbers is rounded once: 200ms is 0.2 s, and not a little more.
  return unit->factor < 1 ? *number / std::round(1 / unit->factor) : *number * unit->factor;
}

std::optional<double> read_often(std::string_view text) {
  const std::optional<double> number = take_number(text);
  if (!number || !text.starts_with('/')) return std::nullopt;
  const Prefix* period = find_prefix(kPeriods, text.substr(1));
  return period == nullptr ? std::nullopt : std::optional(*number / period->factor);
}

std::optional<double> read_money(std::string_view text) {
  const bool has_sign = text.starts_with('$');
  if (has_sign) text.remove_prefix(1);
  const std::optional<double> number = take_number(text);
  if (has_sign) return number && text.empty() ? number : std::nullopt;
  drop_space(text);
  return number && (text == "USD" || text == "$") ? number : std::nullopt;
}

std::optional<double> read_price(std::string_view text) {
  const std::size_t slash = text.rfind('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::optional<double> money = read_money(text.substr(0, slash));
  const Prefix* period = find_prefix(kPeriods, text.substr(slash + 1));
  return money && period != nullptr ? std::optional(*money / period->factor) : std::nullopt;
}

/// Of bytes: "0.023USD/GiB".
std::optional<double> read_byte_price(std::string_view text) {
  const std::size_t slash = text.rfind('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::optional<double> money = read_money(text.substr(0, slash));
  const std::optional<double> unit = bytes_of_unit(text.substr(slash + 1));
  return money && unit ? std::optional(*money / *unit) : std::nullopt;
}

std::optional<double> read_flops(std::string_view text) {
  constexpr std::string_view kSymbol = "FLOP/s";
  const std::optional<double> number = take_number(text);
  drop_space(text);
  if (!number || !text.ends_with(kSymbol)) return std::nullopt;
  const Prefix* prefix = find_prefix(kPrefixes, text.substr(0, text.size() - kSymbol.size()));
  return prefix == nullptr ? std::nullopt : std::optional(*number * prefix->factor);
}

using Read = std::optional<double> (*)(std::string_view);
/// By Unit.
constexpr std::array kReaders =
    std::to_array<Read>({read_number, read_share, read_bytes, read_rate, read_time, read_often,
                         read_money, read_price, read_flops, read_byte_price});

/// Two units of bytes that are easily meant, and are none.
std::string why_no_bytes(std::string_view text) {
  if (!take_number(text)) return "cannot be read";
  drop_space(text);
  const std::string_view unit = text.substr(0, text.find('/'));
  if (unit.ends_with('b') || unit.ends_with("bit") || unit.ends_with("bps"))
    return "counts bits: a byte has 8";
  constexpr std::string_view kLetters = "KMGTPEkmgtpe";
  const std::size_t letter = unit.size() == 1 ? kLetters.find(unit[0]) : kLetters.size();
  if (letter >= kLetters.size()) return "cannot be read";
  return fmt::format("may mean {0}iB (powers of 1024) or {0}B (of 1000)", kLetters[letter % 6]);
}

/// Says what the text is, if it is a quantity of another kind.
std::string why_not(std::string_view text, Unit wanted) {
  if (text.starts_with('-')) return "is negative";
  const bool is_of_bytes = wanted == Unit::bytes || wanted == Unit::bytes_per_second;
  if (wanted != Unit::number && read_number(text) && (!is_of_bytes || is_digit(text.back())))
    return "has no unit";
  for (std::size_t i = 1; i < kReaders.size(); ++i) {
    if (static_cast<Unit>(i) != wanted && kReaders[i](text))
      return fmt::format("is {}", kUnitTexts[i].article);
  }
  return is_of_bytes ? why_no_bytes(text) : "cannot be read";
}

/// "10,240" for whole numbers below 10^15, otherwise `digits` significant digits.
std::string grouped(double number, int digits) {
  const double size = std::abs(number);
  const bool is_whole = number == std::floor(number) || size >= std::pow(10, digits - 1);
  std::string text = is_whole && size < 1e15 ? fmt::format("{:.0f}", number)
                                             : fmt::format("{:.{}g}", number, digits);
  if (text.find_first_of("en") != std::string::npos) return text;  // an exponent, inf, nan
  const std::size_t end = std::min(text.find('.'), text.size());
  const std::size_t begin = text.starts_with('-') ? 1 : 0;
  for (std::size_t at = end; at > begin + 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

/// The number in the largest unit that leaves at least 1 before the point.
std::string scaled(double count, std::span<const stoker::Unit> units, std::string_view suffix) {
  std::size_t i = units.size() - 1;
  while (i > 0 && std::abs(count) < static_cast<double>(units[i].size)) --i;
  const double number = count / static_cast<double>(units[i].size);
  return fmt::format("{} {}{}", grouped(number, 5), units[i].name, suffix);
}

std::string both(double count, std::string_view suffix, bool is_short) {
  std::string text = scaled(count, kDecimalUnits, suffix);
  if (!is_short && std::abs(count) >= 1024)
    text += fmt::format(" ({})", scaled(count, kBinaryUnits, suffix));
  return text;
}

std::string time_text(double seconds, bool is_short) {
  const double size = std::abs(seconds);
  if (size == 0) return "0 s";
  if (size < 1e-3) return grouped(seconds * 1e6, 5) + " us";
  if (size < 0.99999) return grouped(seconds * 1e3, 5) + " ms";  // not "1,000 ms"
  const std::string plain = grouped(seconds, 7) + " s";
  if (size < 120 || is_short) return plain;
  if (size < 7200) return fmt::format("{} ({} min)", plain, grouped(seconds / 60, 5));
  if (size < 2 * 86400) return fmt::format("{} ({} h)", plain, grouped(seconds / 3600, 5));
  const double days = seconds / 86400;
  const std::string years = days < 730 ? "" : fmt::format(", {} years", grouped(days / 365, 5));
  return fmt::format("{} ({} d{})", plain, grouped(days, 5), years);
}

std::string money_text(double dollars) {
  const std::string_view sign = dollars < 0 ? "-" : "";
  const double size = std::abs(dollars);
  if (size >= 1e15) return fmt::format("{}${:.5g}", sign, size);
  if (size != 0 && size < 0.1) return fmt::format("{}${:.4g}", sign, size);
  const double cents = std::round(size * 100);
  const double whole = std::floor(cents / 100);
  if (cents == whole * 100) return fmt::format("{}${}", sign, grouped(whole, 5));
  return fmt::format("{}${}.{:02.0f}", sign, grouped(whole, 5), cents - whole * 100);
}

std::string often_text(double per_second) {
  if (per_second >= 1 || per_second == 0) return grouped(per_second, 5) + "/s";
  const Prefix& period = per_second * 3600 >= 1 ? kPeriods[2] : kPeriods[3];
  return fmt::format("{}/{}", grouped(per_second * period.factor, 5), period.name);
}

std::string flops_text(double flops) {
  std::size_t i = kPrefixes.size() - 1;
  while (i > 0 && flops < kPrefixes[i].factor) --i;
  if (kPrefixes[i].name == "P" && flops < 1e17) --i;  // people compare TFLOP/s
  return fmt::format("{} {}FLOP/s", grouped(flops / kPrefixes[i].factor, 5), kPrefixes[i].name);
}

std::string format(double count, Unit unit, bool is_short) {
  switch (unit) {
    case Unit::number: return grouped(count, 5);
    case Unit::share: return fmt::format("{:.5g} %", count * 100);
    case Unit::bytes: return both(count, "", is_short);
    case Unit::bytes_per_second: return both(count, "/s", is_short);
    case Unit::seconds: return time_text(count, is_short);
    case Unit::per_second: return often_text(count);
    case Unit::money: return money_text(count);
    case Unit::money_per_second: return money_text(count * 3600) + "/h";
    case Unit::flop_per_second: return flops_text(count);
    case Unit::money_per_byte: return money_text(count * 1e9) + "/GB";
    case Unit::text: break;
  }
  return "";
}

}  // namespace

std::string quotable(std::string_view text) {
  constexpr std::size_t kShownMax = 48;
  std::string shown(text.substr(0, kShownMax));
  std::ranges::replace_if(shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text.size() > kShownMax ? shown + "..." : shown;
}

Result<double> parse_quantity(std::string_view text, Unit unit) {
  const std::optional<double> count = kReaders[static_cast<std::size_t>(unit)](text);
  const bool is_finite = count && std::isfinite(*count);
  if (is_finite) return *count;
  return Status(Code::invalid_argument,
                fmt::format("\"{}\" {}; give {}", quotable(text),
                            count ? "is too large" : why_not(text, unit), unit_example(unit)));
}

std::string format_quantity(double count, Unit unit) {
  return format(count, unit, false);
}

std::string format_quantity_short(double count, Unit unit) {
  return format(count, unit, true);
}

std::string_view unit_symbol(Unit unit) noexcept {
  return text_of(unit).symbol;
}

std::string_view unit_name(Unit unit) noexcept {
  return text_of(unit).name;
}

std::string_view unit_examples(Unit unit) noexcept {
  return text_of(unit).example;
}

std::string unit_example(Unit unit) {
  return fmt::format("{}, like {}", text_of(unit).article, text_of(unit).example);
}

}  // namespace stoker::plan
