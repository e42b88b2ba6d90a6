#include "store/http/http_call.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>

namespace stoker {
namespace {

/// Returns the time of a Retry-After header in seconds, limited to a minute; 0 without one. Dates
/// are not read: no object store sends one.
nanoseconds retry_after(const HttpResponse& response) {
  constexpr unsigned kSecondsMax = 60;
  const std::string_view text = response.header("retry-after");
  unsigned seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return std::chrono::seconds(std::min(seconds, kSecondsMax));
}

Status failure(Code code, int os_error, int status, std::string_view what,
               std::string_view detail) {
  std::string message = "the server answered " + std::to_string(status);
  if (!what.empty()) message.append(" (").append(what).append(")");
  if (!detail.empty()) message.append(": ").append(detail);
  return {code, std::move(message), os_error};
}

}  // namespace

std::string_view HttpResponse::header(std::string_view name) const noexcept {
  const auto found = std::ranges::find(headers, name, &NameValue::first);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

Verdict judge_status(const HttpResponse& response, std::string_view detail) {
  const int status = response.status;
  if (status >= 200 && status < 300) return {};
  const auto done = [&](Code code, int os_error, std::string_view what) {
    return Verdict{.status = failure(code, os_error, status, what, detail)};
  };
  switch (status) {
    case 400: return done(Code::invalid_argument, EINVAL, "bad request");
    case 401: return done(Code::denied, EACCES, "not authenticated");
    case 403: return done(Code::denied, EACCES, "access denied");
    case 404:
    case 410: return done(Code::not_found, ENOENT, "not found");
    case 405:
    case 501: return done(Code::unsupported, EOPNOTSUPP, "not supported");
    case 412: return done(Code::unavailable, ESTALE, "the object is not the one that was opened");
    case 416:
      return done(Code::unavailable, ESTALE, "the object is shorter than when it was opened");
    case 408:
    case 409:
    case 425:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      return {.next = Verdict::Next::retry,
              .status = failure(Code::unavailable, ETIMEDOUT, status, "", detail),
              .is_throttled = status == 429 || status == 503,
              .wait = retry_after(response)};
    default: return done(Code::io_error, EIO, "");
  }
}

Status check_range_answer(const WantedRange& range, const HttpResponse& response) {
  if (response.status == 200)
    return {Code::unsupported, "the server ignores ranges: it answered with the whole object", EIO};
  const std::string wanted = "bytes " + std::to_string(range.offset_bytes) + "-" +
                             std::to_string(range.offset_bytes + range.size_bytes - 1) + "/" +
                             std::to_string(range.object_bytes);
  const std::string_view etag = response.header("etag");
  if (!range.etag.empty() && !etag.empty() && etag != range.etag)
    return {Code::unavailable, "the object was replaced since it was opened", ESTALE};
  if (response.header("content-range") != wanted)
    return {Code::io_error,
            "the server answered with another range than the one asked for, \"" + wanted + "\"",
            EIO};
  const std::string_view encoding = response.header("content-encoding");
  if (!encoding.empty() && encoding != "identity" && encoding != "aws-chunked")
    return {Code::unsupported, "the server compresses its answers, so that ranges mean nothing",
            EIO};
  return {};
}

}  // namespace stoker
