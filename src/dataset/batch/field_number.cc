#include "dataset/batch/field_number.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "formats/json/strict_json.h"
#include "formats/utf8.h"

namespace stoker::internal {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/// Removes surrounding white space and a leading plus sign.
std::string_view digits_of(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

template <typename T>
std::errc parse_as(std::string_view digits, T& value) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc{} && end != digits.data() + digits.size())
    return std::errc::invalid_argument;
  return error;
}

/// What to ask for instead of a number.
std::string_view other_kind(std::span<const std::byte> text) {
  double real = 0;
  if (parse_as(digits_of(text_of(text)), real) == std::errc{}) return "ask for float";
  return is_utf8(text) ? "ask for str, or for bytes and decode them in map="
                       : "if it is an encoded file, such as an image, ask for bytes and decode "
                         "them in map=";
}

Status refuse(std::span<const std::byte> text, std::string_view why, std::string_view advice) {
  return Status(Code::invalid_argument,
                fmt::format("{} {}; {}", quote_for_message(text_of(text)), why, advice));
}

Number integer_number(WideInteger value) {
  return {.integer = value, .real = static_cast<double>(value)};
}
Number real_number(double value) {
  return {.is_integer = false, .real = value};
}

/// Converts IEEE half precision.
double half_to_double(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double fraction = (bits & 1023) / 1024.0;
  double value = 0;
  if (exponent == 31) {
    value = (bits & 1023) != 0 ? std::numeric_limits<double>::quiet_NaN()
                               : std::numeric_limits<double>::infinity();
  } else {
    const double scale =
        exponent == 0 ? 0x1p-14 : std::bit_cast<double>(std::uint64_t(exponent - 15 + 1023) << 52);
    value = scale * (exponent == 0 ? fraction : 1 + fraction);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

template <typename T>
T load(std::span<const std::byte> bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string integer_text(WideInteger value) {
  if (value < 0) return fmt::format("{}", static_cast<std::int64_t>(value));
  return fmt::format("{}", static_cast<std::uint64_t>(value));
}

/// Whether a float with that many mantissa bits represents `value` exactly. Fast for small numbers,
/// which most are.
bool is_exact(WideInteger value, int mantissa_bits) {
  WideInteger rest = value < 0 ? -value : value;
  if (rest >> mantissa_bits == 0) return true;
  while ((rest & 1) == 0) rest >>= 1;
  return rest >> mantissa_bits == 0;
}

/// Real numbers are rounded to the nearest; integers are not, because most are identifiers, and a
/// rounded identifier is wrong.
template <typename T>
Status check_exact(const Number& number, Dtype dtype) {
  if (!number.is_integer || is_exact(number.integer, std::numeric_limits<T>::digits)) return {};
  return Status(Code::invalid_argument,
                fmt::format("{} is an integer that {} would round: ask for an integer dtype{}",
                            integer_text(number.integer), dtype_name(dtype),
                            dtype == Dtype::float32 ? " or float64" : ""));
}

template <typename T>
Status store_integer(const Number& number, Dtype dtype, std::span<std::byte> out) {
  if (!number.is_integer)
    return Status(Code::invalid_argument,
                  fmt::format("it is a real number, but {} was requested", dtype_name(dtype)));
  const WideInteger most = dtype == Dtype::boolean ? 1 : std::numeric_limits<T>::max();
  if (number.integer < WideInteger{std::numeric_limits<T>::min()} || number.integer > most)
    return Status(
        Code::invalid_argument,
        fmt::format("{} is out of range for {}", integer_text(number.integer), dtype_name(dtype)));
  const T value = static_cast<T>(number.integer);
  std::memcpy(out.data(), &value, sizeof value);
  return {};
}

}  // namespace

Result<Number> parse_integer(std::span<const std::byte> text) {
  const std::string_view digits = digits_of(text_of(text));
  std::int64_t value = 0;
  std::errc error = parse_as(digits, value);
  if (error == std::errc{}) return integer_number(value);
  std::uint64_t large = 0;
  if (error == std::errc::result_out_of_range && parse_as(digits, large) == std::errc{})
    return integer_number(large);
  if (error == std::errc::result_out_of_range)
    return refuse(text, "does not fit in 64 bits", "ask for str");
  return refuse(text, "is not an integer", other_kind(text));
}

Result<Number> parse_real(std::span<const std::byte> text) {
  const std::string_view digits = digits_of(text_of(text));
  double value = 0;
  const std::errc error = parse_as(digits, value);
  // Below 2^24, every integer is exact in a float32.
  if (error == std::errc{} && std::fabs(value) < 0x1p24) return real_number(value);
  std::int64_t integer = 0;
  std::uint64_t large = 0;
  if (parse_as(digits, integer) == std::errc{}) return integer_number(integer);
  if (parse_as(digits, large) == std::errc{}) return integer_number(large);
  if (error == std::errc{}) return real_number(value);
  if (error == std::errc::result_out_of_range)
    return refuse(text, "does not fit in a double", "ask for str");
  return refuse(text, "is not a number", other_kind(text));
}

Result<Number> parse_number_for(Dtype dtype, std::span<const std::byte> text) {
  const bool is_real = dtype == Dtype::float16 || dtype == Dtype::bfloat16 ||
                       dtype == Dtype::float32 || dtype == Dtype::float64;
  return is_real ? parse_real(text) : parse_integer(text);
}

Number load_number(Dtype dtype, std::span<const std::byte> bytes) noexcept {
  switch (dtype) {
    case Dtype::uint8:
    case Dtype::boolean: return integer_number(load<std::uint8_t>(bytes));
    case Dtype::int8: return integer_number(load<std::int8_t>(bytes));
    case Dtype::uint16: return integer_number(load<std::uint16_t>(bytes));
    case Dtype::int16: return integer_number(load<std::int16_t>(bytes));
    case Dtype::uint32: return integer_number(load<std::uint32_t>(bytes));
    case Dtype::int32: return integer_number(load<std::int32_t>(bytes));
    case Dtype::uint64: return integer_number(load<std::uint64_t>(bytes));
    case Dtype::int64: return integer_number(load<std::int64_t>(bytes));
    case Dtype::float16: return real_number(half_to_double(load<std::uint16_t>(bytes)));
    case Dtype::bfloat16:
      return real_number(std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(bytes)} << 16));
    case Dtype::float32: return real_number(load<float>(bytes));
    case Dtype::float64: break;
  }
  return real_number(load<double>(bytes));
}

Status store_number(const Number& number, Dtype dtype, std::span<std::byte> out) {
  switch (dtype) {
    case Dtype::uint8:
    case Dtype::boolean: return store_integer<std::uint8_t>(number, dtype, out);
    case Dtype::int8: return store_integer<std::int8_t>(number, dtype, out);
    case Dtype::uint16: return store_integer<std::uint16_t>(number, dtype, out);
    case Dtype::int16: return store_integer<std::int16_t>(number, dtype, out);
    case Dtype::uint32: return store_integer<std::uint32_t>(number, dtype, out);
    case Dtype::int32: return store_integer<std::int32_t>(number, dtype, out);
    case Dtype::uint64: return store_integer<std::uint64_t>(number, dtype, out);
    case Dtype::int64: return store_integer<std::int64_t>(number, dtype, out);
    case Dtype::float16:
    case Dtype::bfloat16:
      return Status(
          Code::invalid_argument,
          fmt::format("numbers are not rounded to {} here: ask for float32", dtype_name(dtype)));
    case Dtype::float32: {
      STOKER_TRY(check_exact<float>(number, dtype));
      const bool fits = !std::isfinite(number.real) ||
                        std::fabs(number.real) <= double{std::numeric_limits<float>::max()};
      if (!fits)
        return Status(Code::invalid_argument,
                      fmt::format("{} does not fit in a float32", number.real));
      const auto value = static_cast<float>(number.real);
      std::memcpy(out.data(), &value, sizeof value);
      return {};
    }
    case Dtype::float64: break;
  }
  STOKER_TRY(check_exact<double>(number, dtype));
  std::memcpy(out.data(), &number.real, sizeof number.real);
  return {};
}

Result<double> to_float64(const Number& number) {
  STOKER_TRY(check_exact<double>(number, Dtype::float64));
  return number.real;
}

Result<std::int64_t> to_int64(const Number& number) {
  if (!number.is_integer)
    return Status(Code::invalid_argument, "it is a real number, but an integer was requested");
  if (number.integer > WideInteger{std::numeric_limits<std::int64_t>::max()})
    return Status(Code::invalid_argument,
                  fmt::format("{} does not fit in an int64: ask for np.uint64",
                              integer_text(number.integer)));
  return static_cast<std::int64_t>(number.integer);
}

}  // namespace stoker::internal
