/// \file
/// How S3 is spoken: addresses, signatures, and the meaning of answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "stoker/store.h"
#include "store/credentials/credentials.h"
#include "store/http/http_call.h"
#include "store/text/url.h"

namespace stoker {

/// The bucket of a store and the state that its requests share: the region, the difference between
/// the clocks, and the keys. What a server corrects (another region, a skewed clock, expired keys)
/// is corrected once per call, and remembered.
///
/// Thread safety: as HttpProtocol. Of one process.
class S3Protocol final : public HttpProtocol {
 public:
  /// `options` must outlive it; its endpoint must be a URL.
  S3Protocol(std::string bucket, const S3Options& options);

  /// An empty key, or ".", is the bucket.
  Result<HttpRequest> make_request(HttpCall& call) override;
  Verdict judge(HttpCall& call, const HttpResponse& response) override;
  std::string name_of(const std::string& key) const override;

 private:
  bool correct_region(const HttpCall& call, std::string_view named);
  bool correct_clock(const HttpCall& call, const HttpResponse& response);
  Url endpoint(const std::string& region) const;

  const std::string bucket_;
  const S3Options& options_;
  const bool is_by_host_;
  Credentials credentials_;
  // relaxed: a number on its own.
  std::atomic<std::int64_t> ahead_seconds_{0};  ///< Of the server's clock.
  Mutex mutex_;
  std::string region_ STOKER_GUARDED_BY(mutex_);
};

/// `invalid_argument` if no bucket can have that name, or the options make no sense.
Status check_s3_options(const std::string& bucket, const S3Options& options);

}  // namespace stoker
