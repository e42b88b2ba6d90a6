#include "store/s3/s3_client.h"

#include <chrono>
#include <utility>

#include "store/s3/s3_protocol.h"

namespace stoker {

S3Client::S3Client(std::string bucket, S3Options options)
    : options_(std::move(options)), http_(options_.http, [this, bucket = std::move(bucket)] {
        return std::make_unique<S3Protocol>(bucket, options_);
      }) {}

Result<ListPage> S3Client::list_page(const std::string& prefix, const std::string& delimiter,
                                     const std::string& token, std::uint32_t count_max) {
  HttpCall call{.query = {{"list-type", "2"},
                          {"encoding-type", "url"},
                          {"max-keys", std::to_string(count_max)},
                          {"prefix", prefix}}};
  if (!delimiter.empty()) call.query.emplace_back("delimiter", delimiter);
  if (!token.empty()) call.query.emplace_back("continuation-token", token);
  STOKER_TRY(http_.perform(call));
  Result<ListPage> page = parse_list_page(call.response.body);
  if (!page.ok()) return page.status().with_context(name_of(prefix) + ": list");
  return page;
}

Result<UploadsPage> S3Client::uploads_page(const std::string& prefix, const std::string& key_marker,
                                           const std::string& id_marker, std::string& server_date) {
  HttpCall call{.query = {{"uploads", ""}, {"encoding-type", "url"}, {"prefix", prefix}}};
  if (!key_marker.empty()) {
    call.query.emplace_back("key-marker", key_marker);
    call.query.emplace_back("upload-id-marker", id_marker);
  }
  STOKER_TRY(http_.perform(call));
  server_date = call.response.header("date");
  Result<UploadsPage> page = parse_uploads_page(call.response.body);
  if (!page.ok()) return page.status().with_context(name_of(prefix) + ": list uploads");
  return page;
}

Status S3Client::remove(const std::string& key) {
  HttpCall call{.method = "DELETE", .key = key};
  const Status status = http_.perform(call);
  if (status.code() != Code::not_found) return status;
  const auto error = parse_s3_error(call.response.body);
  return error && error->code == "NoSuchBucket" ? status : Status();
}

Status S3Client::abort_upload(const std::string& key, const std::string& upload_id) {
  HttpCall call{.method = "DELETE",
                .key = key,
                .query = {{"uploadId", upload_id}},
                .timeout = std::chrono::seconds(10)};
  const Status status = http_.perform(call);
  return status.code() == Code::not_found ? Status() : status;
}

std::vector<NameValue> S3Client::encryption_headers() const {
  if (options_.kms_key_id.empty()) return {};
  return {{"x-amz-server-side-encryption", "aws:kms"},
          {"x-amz-server-side-encryption-aws-kms-key-id", options_.kms_key_id}};
}

}  // namespace stoker
