// Any bytes as the answer to a ranged read, and as a URL: nothing crashes, only the memory of the
// range is written, and only after a head that names exactly this range.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/http/http_answer.h"
#include "store/text/url.h"

namespace stoker {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void read_answer(std::string_view text) {
  std::array<std::byte, 24> memory{};  // the range is the middle third, in two pieces
  const WantedRange range{
      .offset_bytes = 1,
      .size_bytes = 8,
      .object_bytes = 10,
      .etag = "\"e\"",
      .into = {std::span(memory).subspan(8, 3), std::span(memory).subspan(11, 5)}};
  HttpAnswer answer(&range);
  bool is_open = true;
  while (is_open && !text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    is_open = answer.take_head_line(line);
    text.remove_prefix(end);
    if (line == "\r\n") break;
  }
  if (is_open) is_open = answer.take_body(std::as_bytes(std::span(text)));
  require(is_open == answer.refused().ok());
  const auto is_zero = [](std::byte each) { return each == std::byte{0}; };
  require(std::all_of(memory.begin(), memory.begin() + 8, is_zero));
  require(std::all_of(memory.begin() + 16, memory.end(), is_zero));
  const bool is_written = !std::all_of(memory.begin(), memory.end(), is_zero);
  require(!is_written || answer.response().header("content-range") == "bytes 1-8/10");
  if (answer.check_end().ok() && answer.is_success()) require(answer.body_bytes() == 8);
}

void read_url(std::string_view text) {
  const Result<Url> url = parse_url(text);
  if (!url.ok()) {
    require(url.status().code() == Code::invalid_argument);
    return;
  }
  const Result<Url> again = parse_url(url->origin() + url->path);
  require(again.ok() && again->origin() == url->origin() && again->path == url->path);
  require(!url->host().empty() && url->authority.find('@') == std::string::npos);
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  stoker::read_answer(text);
  stoker::read_url(text);
  return 0;
}
