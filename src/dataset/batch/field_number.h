/// \file
/// Converts single numbers: from text or an element of any dtype to an element of another dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stoker/dtype.h"
#include "stoker/status.h"

namespace stoker::internal {

/// Wide enough for every integer dtype.
__extension__ using WideInteger = __int128;

struct Number {
  bool is_integer = true;
  WideInteger integer = 0;  ///< If `is_integer`.
  double real = 0;          ///< Always set; rounded to a double.
};

// All failures are `invalid_argument`: a number of another kind than requested is not corruption.

/// Parses an integer of up to 64 bits, with optional sign and surrounding white space.
Result<Number> parse_integer(std::span<const std::byte> text);
/// The same for real numbers and integers. An integer of up to 64 bits that a float32 may not
/// represent is returned as an integer.
Result<Number> parse_real(std::span<const std::byte> text);
/// parse_real() for float dtypes, otherwise parse_integer().
Result<Number> parse_number_for(Dtype dtype, std::span<const std::byte> text);

/// Reads the element of `dtype` at the start of `bytes`.
Number load_number(Dtype dtype, std::span<const std::byte> bytes) noexcept;

/// Writes an element of `dtype` to the start of `out`. Integers must be exactly representable. Real
/// numbers are rounded, need a float dtype, and must not overflow. float16 and bfloat16 are
/// refused.
Status store_number(const Number& number, Dtype dtype, std::span<std::byte> out);

/// Fails for a real number or one that does not fit; the message then names a dtype that does.
Result<std::int64_t> to_int64(const Number& number);
/// Fails for an integer that a double cannot represent exactly.
Result<double> to_float64(const Number& number);

}  // namespace stoker::internal
