/// \file
/// Fast division by a constant divisor. The CPU's 64-bit division takes up to 90 cycles, and a
/// position needs several divisions.
#pragma once

#include <cassert>
#include <cstdint>

namespace stoker::internal {

/// Thread safety: immutable.
class Divider {
 public:
  struct Parts {
    std::uint64_t quotient;
    std::uint64_t remainder;
  };

  /// `divisor` is at least 1.
  explicit Divider(std::uint64_t divisor) noexcept
      : divisor_(divisor), inverse_(UINT64_MAX / divisor) {
    assert(divisor >= 1);
  }

  std::uint64_t divisor() const noexcept { return divisor_; }

  /// Exact for every number. With m = floor((2^64 - 1) / d), 2^64 - m d is from 1 to d, so n m /
  /// 2^64 is below n / d by at most n / 2^64 < 1: the estimate is exact or one too small.
  Parts operator()(std::uint64_t number) const noexcept {
    __extension__ using Wide = unsigned __int128;
    std::uint64_t quotient = static_cast<std::uint64_t>(static_cast<Wide>(number) * inverse_ >> 64);
    std::uint64_t remainder = number - quotient * divisor_;
    if (remainder >= divisor_) {
      remainder -= divisor_;
      ++quotient;
    }
    return {quotient, remainder};
  }

 private:
  std::uint64_t divisor_;
  std::uint64_t inverse_;
};

}  // namespace stoker::internal
