/// \file
/// One number: read from text or from an element of any dtype, written as an element of another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/dtype.h"
#include "stoker/status.h"

namespace stoker::internal {

/// Wide enough for every element.
__extension__ using WideInteger = __int128;

struct Number {
  bool is_integer = true;
  WideInteger integer = 0;  ///< If `is_integer`.
  double real = 0;          ///< Always: rounded to what a double holds.
};

// All failures are `invalid_argument`: a number of another kind than asked for is no damage.

/// Digits with a sign and white space around them, up to 64 bits.
Result<Number> parse_integer(std::span<const std::byte> text);
/// The same for real numbers; integers too, and one of 64 bits that a float32 may not hold is
/// returned as an integer.
Result<Number> parse_real(std::span<const std::byte> text);
/// The one that `dtype` wants: an integer, or for float dtypes a real.
Result<Number> parse_number_for(Dtype dtype, std::span<const std::byte> text);

/// The element of `dtype` that `bytes` begin with.
Number load_number(Dtype dtype, std::span<const std::byte> bytes) noexcept;

/// Writes an element of `dtype` to the begin of `out`. Integers must fit exactly; real numbers are
/// rounded, go to real elements alone, and must not become infinite.
Status store_number(const Number& number, Dtype dtype, std::span<std::byte> out);

/// Whether an int64 holds it; the failure says which dtype does.
Result<std::int64_t> to_int64(const Number& number);
/// Real numbers as they are; an integer must be one that a double holds.
Result<double> to_float64(const Number& number);

}  // namespace stoker::internal
