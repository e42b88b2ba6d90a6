#include "store/credentials/credentials.h"

#include <utility>

namespace stoker {

using namespace std::chrono_literals;

bool Credentials::is_due(WallTime now) const {
  constexpr auto kBefore = 5min;
  return !kept_ || is_refused_ || (kept_->expires && now >= *kept_->expires - kBefore);
}

bool Credentials::is_usable(WallTime now) const {
  return kept_ && !is_refused_ && (!kept_->expires || now < *kept_->expires);
}

Result<S3Credentials> Credentials::get() {
  constexpr nanoseconds kPauseAfterFailure = 10s;
  if (source_ == nullptr) return S3Credentials{};
  {
    MutexLock lock(mutex_);
    for (;;) {
      const WallTime now = std::chrono::system_clock::now();
      if (!is_due(now)) return kept_->keys;
      if (is_usable(now) && (is_fetching_ || Clock::now() < failed_until_)) return kept_->keys;
      if (!is_fetching_) break;
      changed_.wait(mutex_);
    }
    if (Clock::now() < failed_until_) return failure_;
    is_fetching_ = true;
  }
  Result<FetchedCredentials> fetched = source_->fetch();
  MutexLock lock(mutex_);
  is_fetching_ = false;
  changed_.notify_all();
  if (fetched.ok()) {
    kept_ = *std::move(fetched);
    is_refused_ = false;
    return kept_->keys;
  }
  failure_ = fetched.status();
  failed_until_ = Clock::now() + kPauseAfterFailure;
  if (is_usable(std::chrono::system_clock::now())) return kept_->keys;
  return failure_;
}

bool Credentials::refuse(const std::string& access_key_id) {
  MutexLock lock(mutex_);
  if (!kept_ || !kept_->expires) return false;
  // Otherwise another thread has fetched new ones already.
  if (kept_->keys.access_key_id == access_key_id) is_refused_ = true;
  return true;
}

}  // namespace stoker
