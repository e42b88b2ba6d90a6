/// \file
/// Numbers with a dimension, for plans: bytes, seconds, money, floating-point operations, and what
/// products and quotients of them are. Adding bytes to seconds, or passing a rate where a size is
/// wanted, does not compile.
///
///     plan::BytesPerSecond rate = plan::Bytes{130e3} / plan::Seconds{0.2};
///
/// Thread safety: values.
#pragma once

#include <compare>
#include <cstdint>
#include <type_traits>

namespace stoker::plan {

template <int BytesPower, int SecondsPower, int MoneyPower, int FlopPower>
class Quantity;

/// What a product or quotient is: a double if no dimension is left.
template <int B, int S, int M, int F>
using QuantityOrNumber =
    std::conditional_t<B == 0 && S == 0 && M == 0 && F == 0, double, Quantity<B, S, M, F>>;

/// A number of bytes, seconds, dollars and operations, each raised to a power.
template <int B, int S, int M, int F>
class Quantity {
 public:
  constexpr explicit Quantity(double count) noexcept : count_(count) {}
  /// In bytes, seconds, dollars and floating-point operations.
  constexpr double count() const noexcept { return count_; }

  friend constexpr Quantity operator+(Quantity a, Quantity b) noexcept {
    return Quantity(a.count_ + b.count_);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) noexcept {
    return Quantity(a.count_ - b.count_);
  }
  friend constexpr Quantity operator*(Quantity a, double b) noexcept {
    return Quantity(a.count_ * b);
  }
  friend constexpr Quantity operator*(double a, Quantity b) noexcept {
    return Quantity(a * b.count_);
  }
  friend constexpr Quantity operator/(Quantity a, double b) noexcept {
    return Quantity(a.count_ / b);
  }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  double count_;
};

template <int B1, int S1, int M1, int F1, int B2, int S2, int M2, int F2>
constexpr auto operator*(Quantity<B1, S1, M1, F1> a, Quantity<B2, S2, M2, F2> b) noexcept {
  return QuantityOrNumber<B1 + B2, S1 + S2, M1 + M2, F1 + F2>(a.count() * b.count());
}
template <int B1, int S1, int M1, int F1, int B2, int S2, int M2, int F2>
constexpr auto operator/(Quantity<B1, S1, M1, F1> a, Quantity<B2, S2, M2, F2> b) noexcept {
  return QuantityOrNumber<B1 - B2, S1 - S2, M1 - M2, F1 - F2>(a.count() / b.count());
}
template <int B, int S, int M, int F>
constexpr auto operator/(double a, Quantity<B, S, M, F> b) noexcept {
  return Quantity<-B, -S, -M, -F>(a / b.count());
}

using Bytes = Quantity<1, 0, 0, 0>;
using Seconds = Quantity<0, 1, 0, 0>;
using BytesPerSecond = Quantity<1, -1, 0, 0>;
using PerSecond = Quantity<0, -1, 0, 0>;
using Money = Quantity<0, 0, 1, 0>;  ///< In dollars of the United States.
using MoneyPerSecond = Quantity<0, -1, 1, 0>;
using MoneyPerByte = Quantity<-1, 0, 1, 0>;
using FlopPerSecond = Quantity<0, -1, 0, 1>;  ///< Floating-point operations per second.
using BytesPerFlop = Quantity<1, 0, 0, -1>;

/// A part of a whole: Share{0.95} is 95 %.
struct Share {
  double of_one;
  friend constexpr auto operator<=>(Share, Share) = default;
};

inline constexpr Seconds kHour{3600};
inline constexpr Seconds kDay{86400};
inline constexpr Seconds kMonth{30 * 86400.0};  ///< 30 days, as prices by the month assume.

/// What a number in an answer counts. The numbers are part of no format: JSON has their symbols.
enum class Unit : std::uint8_t {
  number,
  share,  ///< From 0 to 1; printed as percent.
  bytes,
  bytes_per_second,
  seconds,
  per_second,
  money,
  money_per_second,
  flop_per_second,
  money_per_byte,
  text,
};

/// The Unit of a type, at compile time.
template <typename T>
inline constexpr Unit kUnitOf = Unit::text;
template <>
inline constexpr Unit kUnitOf<double> = Unit::number;
template <>
inline constexpr Unit kUnitOf<Share> = Unit::share;
template <>
inline constexpr Unit kUnitOf<Bytes> = Unit::bytes;
template <>
inline constexpr Unit kUnitOf<BytesPerSecond> = Unit::bytes_per_second;
template <>
inline constexpr Unit kUnitOf<Seconds> = Unit::seconds;
template <>
inline constexpr Unit kUnitOf<PerSecond> = Unit::per_second;
template <>
inline constexpr Unit kUnitOf<Money> = Unit::money;
template <>
inline constexpr Unit kUnitOf<MoneyPerSecond> = Unit::money_per_second;
template <>
inline constexpr Unit kUnitOf<FlopPerSecond> = Unit::flop_per_second;
template <>
inline constexpr Unit kUnitOf<MoneyPerByte> = Unit::money_per_byte;

constexpr double count_of(double number) noexcept {
  return number;
}
constexpr double count_of(Share share) noexcept {
  return share.of_one;
}
template <int B, int S, int M, int F>
constexpr double count_of(Quantity<B, S, M, F> quantity) noexcept {
  return quantity.count();
}

}  // namespace stoker::plan
