/// \file
/// The connections of a store: sessions that threads borrow, in each process its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/fork_guard.h"
#include "base/mutex.h"
#include "store/http/http_session.h"

namespace stoker {

/// Performs calls for any number of threads. A forked child gets connections, limits and a protocol
/// of its own; those of the parent are left alone there.
///
/// Thread safety: every method from any thread, also in a forked child.
class HttpClient {
  struct Here;

 public:
  using MakeProtocol = std::function<std::unique_ptr<HttpProtocol>()>;

  /// A session that goes back to the client. To be dropped with nothing in flight; in a forked
  /// child of its borrower it is left alone.
  class Lease {
   public:
    Lease(Here& here, std::unique_ptr<HttpSession> session)
        : here_(&here), session_(std::move(session)) {}
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease();
    HttpSession* operator->() const noexcept { return session_.get(); }

   private:
    Here* here_;
    std::unique_ptr<HttpSession> session_;
  };

  HttpClient(HttpOptions options, MakeProtocol make_protocol);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  Result<Lease> borrow();
  /// Performs one call and returns its status.
  Status perform(HttpCall& call);

  const HttpOptions& options() const noexcept { return options_; }
  HttpProtocol& protocol();
  std::string name_of(const std::string& key) { return protocol().name_of(key); }

 private:
  Here& here();

  const HttpOptions options_;
  const MakeProtocol make_protocol_;
  std::atomic<Here*> here_;
};

}  // namespace stoker
