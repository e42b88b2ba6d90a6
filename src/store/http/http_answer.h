/// \file
/// Takes in the answer to one attempt, as it arrives. Pure: bytes to a response, under limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "store/http/http_call.h"

namespace stoker {

/// An answer that is arriving. The body of an answer to a ranged read goes to its memory, but only
/// after its head has been checked; any other body is kept as text. A method that returns false
/// has set refused(): the rest of the answer need not be read.
///
/// Thread safety: none.
class HttpAnswer {
 public:
  /// `range` is what was asked for, or null. It outlives the answer.
  explicit HttpAnswer(const WantedRange* range = nullptr) : range_(range) {}

  /// Takes a line of the head, with or without its end. A status line begins another head: that of
  /// the answer proper after one of a proxy, or after "100 Continue".
  bool take_head_line(std::string_view line);
  bool take_body(std::span<const std::byte> bytes);

  /// To be called at the end: OK if all of the head and all bytes of the range have arrived,
  /// `unavailable` if fewer have, and what refused() says.
  Status check_end();

  const HttpResponse& response() const noexcept { return response_; }
  HttpResponse take_response() { return std::move(response_); }
  const Status& refused() const noexcept { return refused_; }
  bool is_success() const noexcept { return response_.status / 100 == 2; }
  std::uint64_t body_bytes() const noexcept { return body_bytes_; }

 private:
  bool check_head();
  bool fill(std::span<const std::byte> bytes);

  const WantedRange* range_;
  HttpResponse response_;
  Status refused_;
  std::size_t head_bytes_ = 0;
  std::uint64_t body_bytes_ = 0;
  bool is_head_complete_ = false;
  bool is_checked_ = false;
};

}  // namespace stoker
