/// \file
/// The requests that the store and its uploads make of a bucket.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "store/http/http_client.h"
#include "store/http/remote_object.h"
#include "store/s3/answers.h"

namespace stoker {

/// Whether a server keeps a promise: not tried yet, yes, no.
enum class Kept : std::uint8_t { unknown, yes, no };

/// A bucket: options, connections, and what has been found out about the server.
///
/// Thread safety: every method from any thread, also in a forked child.
class S3Client {
 public:
  S3Client(std::string bucket, S3Options options);

  const S3Options& options() const noexcept { return options_; }
  HttpClient& http() noexcept { return http_; }
  std::string name_of(const std::string& key) { return http_.name_of(key); }

  /// Lists keys below `prefix`, those with a further "/" as prefixes if `delimiter` is "/".
  Result<ListPage> list_page(const std::string& prefix, const std::string& delimiter,
                             const std::string& token, std::uint32_t count_max);
  Result<UploadsPage> uploads_page(const std::string& prefix, const std::string& key_marker,
                                   const std::string& id_marker, std::string& server_date);
  Status remove(const std::string& key);
  /// Ends an upload in parts that will not be completed.
  Status abort_upload(const std::string& key, const std::string& upload_id);
  /// The headers for the encryption of a new object.
  std::vector<NameValue> encryption_headers() const;

  // relaxed: each is found out by whoever needs it, and always the same.
  std::atomic<Kept> conditional_put{Kept::unknown};
  std::atomic<Kept> conditional_complete{Kept::unknown};

 private:
  const S3Options options_;
  HttpClient http_;
};

}  // namespace stoker
