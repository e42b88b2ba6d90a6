#include "store/http/http_answer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace stoker {
namespace {

constexpr std::size_t kHeadBytesMax = std::size_t{64} << 10;
constexpr std::size_t kErrorBytesMax = std::size_t{64} << 10;
constexpr std::size_t kTextBytesMax = std::size_t{16} << 20;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const std::size_t first = std::min(text.find_first_not_of(kSpaces), text.size());
  return text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

int status_of(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return 0;
  int status = 0;
  for (const char c : line.substr(space + 1, 3)) {
    if (c < '0' || c > '9') return 0;
    status = status * 10 + (c - '0');
  }
  return status;
}

}  // namespace

bool HttpAnswer::take_head_line(std::string_view line) {
  head_bytes_ += line.size();
  if (head_bytes_ > kHeadBytesMax) {
    refused_ = {Code::io_error, "the head of the answer is too long", EIO};
    return false;
  }
  line = trimmed(line);
  is_head_complete_ = line.empty();
  if (line.starts_with("HTTP/")) {
    response_ = {.status = status_of(line)};
    return true;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return true;
  std::string name(trimmed(line.substr(0, colon)));
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  response_.headers.emplace_back(std::move(name), trimmed(line.substr(colon + 1)));
  return true;
}

bool HttpAnswer::take_body(std::span<const std::byte> bytes) {
  if (range_ != nullptr && is_success()) return check_head() && fill(bytes);
  body_bytes_ += bytes.size();
  if (body_bytes_ > (is_success() ? kTextBytesMax : kErrorBytesMax)) {
    refused_ = {Code::io_error, "the answer is too long", EIO};
    return false;
  }
  response_.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return true;
}

bool HttpAnswer::check_head() {
  if (!is_checked_) refused_ = check_range_answer(*range_, response_);
  is_checked_ = true;
  return refused_.ok();
}

bool HttpAnswer::fill(std::span<const std::byte> bytes) {
  if (bytes.size() > range_->size_bytes - body_bytes_) {
    refused_ = {Code::io_error, "the server sent more bytes than were asked for", EIO};
    return false;
  }
  std::uint64_t skip = body_bytes_;
  body_bytes_ += bytes.size();
  for (const std::span<std::byte> piece : range_->into) {
    if (skip >= piece.size()) {
      skip -= piece.size();
      continue;
    }
    const std::size_t count = std::min<std::size_t>(piece.size() - skip, bytes.size());
    if (count > 0) std::memcpy(piece.data() + skip, bytes.data(), count);
    bytes = bytes.subspan(count);
    skip = 0;
  }
  return true;
}

Status HttpAnswer::check_end() {
  const Status early(Code::unavailable, "the answer ended early", ETIMEDOUT);
  if (!is_head_complete_) return early;  // which libcurl lets pass for HEAD
  if (range_ == nullptr || !is_success()) return {};
  if (!check_head()) return refused_;
  return body_bytes_ == range_->size_bytes ? Status() : early;
}

}  // namespace stoker
