#include "store/s3/answers.h"

#include <charconv>
#include <utility>

#include "store/text/percent.h"
#include "store/text/xml.h"

namespace stoker {
namespace {

/// Returns at most 300 bytes, with "?" for what is not printable ASCII: for messages.
std::string printable(std::string_view text) {
  constexpr std::size_t kBytesMax = 300;
  std::string out(text.substr(0, kBytesMax));
  for (char& c : out)
    if (c < ' ' || c > '~') c = '?';
  return out;
}

Result<XmlElement> parse_answer(std::string_view text, std::string_view wanted) {
  STOKER_ASSIGN(XmlElement root, parse_xml(text));
  if (root.name != wanted)
    return Status(Code::corrupt, "the server answered with <" + printable(root.name) +
                                     "> instead of <" + std::string(wanted) + ">");
  return root;
}

Result<std::string> decoded(std::string_view text) {
  // encoding-type=url writes a space as "+" in some servers, as "%20" in others.
  std::string spaced(text);
  for (char& c : spaced)
    if (c == '+') c = ' ';
  std::optional<std::string> plain = percent_decode(spaced);
  if (!plain) return Status(Code::corrupt, "a key in a list is not percent-encoded");
  return *std::move(plain);
}

/// Whether the keys in the answer are encoded: a server may ignore the wish.
bool is_encoded(const XmlElement& root) {
  return root.text_of("EncodingType") == "url";
}

Result<std::string> key_text(const XmlElement& root, std::string_view text) {
  if (!is_encoded(root)) return std::string(text);
  return decoded(text);
}

Result<bool> is_truncated(const XmlElement& root) {
  const std::string_view text = root.text_of("IsTruncated");
  if (text != "true" && text != "false")
    return Status(Code::corrupt, "a list says neither that it is truncated nor that it is not");
  return text == "true";
}

}  // namespace

std::optional<S3Error> parse_s3_error(std::string_view text) {
  const Result<XmlElement> root = parse_xml(text);
  if (!root.ok() || root->name != "Error") return std::nullopt;
  return S3Error{.code = printable(root->text_of("Code")),
                 .message = printable(root->text_of("Message")),
                 .region = printable(root->text_of("Region"))};
}

Result<ListPage> parse_list_page(std::string_view text) {
  STOKER_ASSIGN(const XmlElement root, parse_answer(text, "ListBucketResult"));
  ListPage page;
  for (const XmlElement& child : root.children) {
    if (child.name == "Contents") {
      ListPage::Key& key = page.keys.emplace_back();
      STOKER_ASSIGN(key.key, key_text(root, child.text_of("Key")));
      const std::string_view size = child.text_of("Size");
      const auto [end, error] =
          std::from_chars(size.data(), size.data() + size.size(), key.size_bytes);
      if (error != std::errc() || end != size.data() + size.size() || key.key.empty())
        return Status(Code::corrupt, "a list has a key without a name or a size");
      key.etag = child.text_of("ETag");
    } else if (child.name == "CommonPrefixes") {
      STOKER_ASSIGN(std::string prefix, key_text(root, child.text_of("Prefix")));
      page.prefixes.push_back(std::move(prefix));
    }
  }
  STOKER_ASSIGN(const bool has_more, is_truncated(root));
  if (has_more) page.next_token = root.text_of("NextContinuationToken");
  if (has_more && page.next_token.empty())
    return Status(Code::corrupt, "a truncated list does not say where it continues");
  return page;
}

Result<std::string> parse_upload_id(std::string_view text) {
  STOKER_ASSIGN(const XmlElement root, parse_answer(text, "InitiateMultipartUploadResult"));
  if (root.text_of("UploadId").empty())
    return Status(Code::corrupt, "a new multipart upload has no UploadId");
  return std::string(root.text_of("UploadId"));
}

Result<std::string> parse_completed_etag(std::string_view text) {
  STOKER_ASSIGN(const XmlElement root, parse_answer(text, "CompleteMultipartUploadResult"));
  return std::string(root.text_of("ETag"));
}

Result<UploadsPage> parse_uploads_page(std::string_view text) {
  STOKER_ASSIGN(const XmlElement root, parse_answer(text, "ListMultipartUploadsResult"));
  UploadsPage page;
  for (const XmlElement& child : root.children) {
    if (child.name != "Upload") continue;
    UploadsPage::Upload& upload = page.uploads.emplace_back();
    STOKER_ASSIGN(upload.key, key_text(root, child.text_of("Key")));
    upload.upload_id = child.text_of("UploadId");
    upload.initiated = child.text_of("Initiated");
    if (upload.key.empty() || upload.upload_id.empty())
      return Status(Code::corrupt, "a list of uploads has one without a key or an UploadId");
  }
  STOKER_ASSIGN(const bool has_more, is_truncated(root));
  if (!has_more) return page;
  STOKER_ASSIGN(page.next_key, key_text(root, root.text_of("NextKeyMarker")));
  page.next_upload_id = root.text_of("NextUploadIdMarker");
  if (page.next_key.empty())
    return Status(Code::corrupt, "a truncated list of uploads does not say where it continues");
  return page;
}

std::string make_complete_body(const std::vector<std::string>& etags) {
  std::string body = "<CompleteMultipartUpload>";
  for (std::size_t i = 0; i < etags.size(); ++i) {
    std::string etag;
    for (const char c : etags[i]) {
      switch (c) {
        case '&': etag += "&amp;"; break;
        case '<': etag += "&lt;"; break;
        case '>': etag += "&gt;"; break;
        default: etag += c;
      }
    }
    body += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" + etag +
            "</ETag></Part>";
  }
  return body + "</CompleteMultipartUpload>";
}

}  // namespace stoker
