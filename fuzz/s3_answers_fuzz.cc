// Any bytes as an answer of S3: nothing crashes, what is refused is corrupt, and messages are
// printable.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/s3/answers.h"
#include "store/text/xml.h"

namespace stoker {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const Status& status) {
  require(status.ok() || status.code() == Code::corrupt);
  const std::string_view message = status.message();
  require(std::ranges::all_of(message, [](char c) { return c >= ' ' && c <= '~'; }));
}

std::size_t depth_of(const XmlElement& element) {
  std::size_t depth = 0;
  for (const XmlElement& child : element.children) depth = std::max(depth, depth_of(child));
  return depth + 1;
}

void read_answer(std::string_view text) {
  const XmlLimits limits;
  const Result<XmlElement> root = parse_xml(text, limits);
  check(root.status());
  if (root.ok()) require(depth_of(*root) <= limits.depth_max && !root->name.empty());
  check(parse_list_page(text).status());
  check(parse_upload_id(text).status());
  check(parse_completed_etag(text).status());
  check(parse_uploads_page(text).status());
  if (const auto error = parse_s3_error(text)) {
    require(root.ok() && error->message.size() <= 300);
    require(std::ranges::all_of(error->code, [](char c) { return c >= ' ' && c <= '~'; }));
  }
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoker::read_answer({reinterpret_cast<const char*>(data), size});
  return 0;
}
