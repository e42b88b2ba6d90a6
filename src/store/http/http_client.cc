#include "store/http/http_client.h"

#include <utility>

namespace stoker {

/// What belongs to one process.
struct HttpClient::Here {
  Here(const HttpOptions& options, std::unique_ptr<HttpProtocol> made)
      : protocol(std::move(made)),
        shared{.options = options,
               .protocol = *protocol,
               .admission = Admission(options.requests_max)} {}

  const ForkGuard guard;
  const std::unique_ptr<HttpProtocol> protocol;
  HttpShared shared;
  Mutex mutex;
  std::vector<std::unique_ptr<HttpSession>> idle STOKER_GUARDED_BY(mutex);
};

HttpClient::Lease::~Lease() {
  constexpr std::size_t kIdleMax = 16;
  if (session_ == nullptr) return;
  if (!here_->guard.is_here()) {
    static_cast<void>(session_.release());
    return;
  }
  std::unique_ptr<HttpSession> dropped;  // after the lock
  MutexLock lock(here_->mutex);
  if (here_->idle.size() < kIdleMax) {
    here_->idle.push_back(std::move(session_));
  } else {
    dropped = std::move(session_);
  }
}

HttpClient::HttpClient(HttpOptions options, MakeProtocol make_protocol)
    : options_(std::move(options)),
      make_protocol_(std::move(make_protocol)),
      here_(new Here(options_, make_protocol_())) {}

HttpClient::~HttpClient() {
  Here* const here = here_.load(std::memory_order_acquire);
  if (here->guard.is_here()) delete here;
}

HttpClient::Here& HttpClient::here() {
  Here* found = here_.load(std::memory_order_acquire);
  if (found->guard.is_here()) return *found;
  // In a forked child. What the parent had is never touched again: another thread may have held its
  // locks, and its connections are still in use.
  auto made = std::make_unique<Here>(options_, make_protocol_());
  // acq_rel: the thread that finds the new one must see what is in it.
  if (here_.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel))
    return *made.release();
  return *found;
}

HttpProtocol& HttpClient::protocol() {
  return *here().protocol;
}

Result<HttpClient::Lease> HttpClient::borrow() {
  Here& here = this->here();
  {
    MutexLock lock(here.mutex);
    if (!here.idle.empty()) {
      Lease lease(here, std::move(here.idle.back()));
      here.idle.pop_back();
      return lease;
    }
  }
  STOKER_ASSIGN(std::unique_ptr<HttpSession> session, HttpSession::make(here.shared));
  return Lease(here, std::move(session));
}

Status HttpClient::perform(HttpCall& call) {
  STOKER_ASSIGN(const Lease session, borrow());
  return session->perform(call);
}

}  // namespace stoker
