/// \file
/// A new object in a bucket: one request if it is small, parts if it is not.
#pragma once

#include <memory>
#include <string>

#include "store/s3/s3_client.h"

namespace stoker {

/// `client` must outlive the upload.
std::unique_ptr<Upload> make_s3_upload(S3Client& client, std::string key);

/// Finds out whether the server takes If-None-Match seriously, with an object beside `key` that it
/// removes again. The answer is remembered in the client.
Result<bool> honours_conditional_put(S3Client& client, const std::string& key);
Result<bool> honours_conditional_complete(S3Client& client, const std::string& key);

}  // namespace stoker
