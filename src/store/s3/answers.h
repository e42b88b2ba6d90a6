/// \file
/// What the bodies of S3's answers say. Pure: text to values. `corrupt` for an answer that is not
/// what was asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/status.h"

namespace stoker {

/// <Error>, which any request may be answered with, some of them under the status 200.
struct S3Error {
  std::string code;     ///< "NoSuchKey". Printable ASCII, bounded.
  std::string message;  ///< For people. Printable ASCII, bounded.
  std::string region;   ///< The bucket's, where the error is about that.
};

/// Returns the error, or nothing if the text is something else.
std::optional<S3Error> parse_s3_error(std::string_view text);

/// A page of ListObjectsV2 with encoding-type=url.
struct ListPage {
  struct Key {
    std::string key;
    std::uint64_t size_bytes = 0;
    std::string etag;
  };
  std::vector<Key> keys;
  std::vector<std::string> prefixes;  ///< Names that end with the delimiter.
  std::string next_token;             ///< Empty on the last page.
};
Result<ListPage> parse_list_page(std::string_view text);

/// Returns the UploadId of a new multipart upload.
Result<std::string> parse_upload_id(std::string_view text);

/// Returns the ETag of a completed multipart upload, which may be empty (Ceph 16). An <Error> is
/// reported by parse_s3_error(), and must be looked for first.
Result<std::string> parse_completed_etag(std::string_view text);

/// A page of ListMultipartUploads with encoding-type=url.
struct UploadsPage {
  struct Upload {
    std::string key;
    std::string upload_id;
    std::string initiated;  ///< "2026-11-19T12:00:00.000Z"
  };
  std::vector<Upload> uploads;
  std::string next_key;  ///< Empty on the last page.
  std::string next_upload_id;
};
Result<UploadsPage> parse_uploads_page(std::string_view text);

/// Returns the body of CompleteMultipartUpload for parts 1, 2, ... with these ETags.
std::string make_complete_body(const std::vector<std::string>& etags);

}  // namespace stoker
