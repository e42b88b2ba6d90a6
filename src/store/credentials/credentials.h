/// \file
/// Access keys that are kept fresh.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "stoker/store.h"

namespace stoker {

using WallTime = std::chrono::system_clock::time_point;

/// Keys, and when they expire.
struct FetchedCredentials {
  S3Credentials keys;
  std::optional<WallTime> expires = {};
};

/// Gets keys from one place. Messages name the place and never contain what was read there.
///
/// Thread safety: none.
class CredentialSource {
 public:
  virtual ~CredentialSource() = default;
  virtual Result<FetchedCredentials> fetch() = 0;
};

/// The keys of a store. They are fetched when they are first needed, and again by one thread from
/// five minutes before they expire, while the others use the old ones.
///
/// Thread safety: every method from any thread. Of one process.
class Credentials {
 public:
  /// Without a source, requests are not signed.
  explicit Credentials(std::unique_ptr<CredentialSource> source) : source_(std::move(source)) {}

  bool are_anonymous() const noexcept { return source_ == nullptr; }
  /// Returns keys that have not expired. Waits while they are fetched for the first time.
  Result<S3Credentials> get();
  /// The server says that the keys with this identifier have expired: they are fetched again. False
  /// if that cannot help, because they have just been fetched or never change.
  bool refuse(const std::string& access_key_id);

 private:
  bool is_due(WallTime now) const STOKER_REQUIRES(mutex_);
  bool is_usable(WallTime now) const STOKER_REQUIRES(mutex_);

  const std::unique_ptr<CredentialSource> source_;  // used by the thread that set is_fetching_
  Mutex mutex_;
  Condition changed_;
  bool is_fetching_ STOKER_GUARDED_BY(mutex_) = false;
  bool is_refused_ STOKER_GUARDED_BY(mutex_) = false;
  std::optional<FetchedCredentials> kept_ STOKER_GUARDED_BY(mutex_);
  Deadline failed_until_ STOKER_GUARDED_BY(mutex_) = Deadline::min();
  Status failure_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker
