/// \file
/// Many HTTP calls at a time on one thread: libcurl's multi interface, with deadlines and retries.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "base/clock.h"
#include "stoker/store.h"
#include "store/http/http_call.h"
#include "store/http/retry.h"

namespace stoker {

/// What all sessions of a store share. It outlives them.
struct HttpShared {
  const HttpOptions& options;
  HttpProtocol& protocol;
  Admission admission;
  RetryBudget budget = {};
  RetryBudget hedges{{.per_request = 0.02, .per_second = 0, .saved_max = 5}};
};

/// Connections to a server, and the calls that are on them. Connections stay open for the next
/// call, for as long as servers keep them. Calls make progress only inside poll(); the time that a
/// caller spends elsewhere does not count against their deadlines.
///
/// Thread safety: none. Of the process that made it: a forked child must not even destroy it, since
/// that would end the parent's TLS connections.
class HttpSession {
 public:
  static Result<std::unique_ptr<HttpSession>> make(HttpShared& shared);
  /// Stops what is in flight.
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  /// Borrows a call until poll() has returned it.
  void start(HttpCall& call);
  /// Moves bytes until a call is finished or `timeout` has passed, and returns the calls that have
  /// finished since the last poll().
  Result<std::vector<HttpCall*>> poll(nanoseconds timeout);
  /// Gives a call back at once: its memory is no longer written, and poll() will not return it.
  void stop(HttpCall& call);
  /// Performs one call, while no other is in flight. Returns its status.
  Status perform(HttpCall& call);

 private:
  struct Handles;
  struct Attempt;
  struct Hedge;
  struct Active;

  explicit HttpSession(HttpShared& shared);
  void move(Deadline now);
  void begin_attempts(Deadline now);
  void begin_attempt(Active& active, Deadline now);
  void begin_hedges(Deadline now);
  Status send(Active& active, Attempt& attempt, const WantedRange* range);
  void take_messages();
  Verdict outcome(Active& active, Attempt& attempt, int curl_code);
  void end_attempt(Active& active, Verdict verdict);
  void end_hedge(Active& active, int curl_code);
  void watch_clocks(Deadline now);
  bool has_stalled(Active& active, Deadline now) const;
  void detach(Attempt& attempt);
  void detach_all(Active& active);
  void finish(Active& active, Status status);
  nanoseconds next_event(Deadline now) const;

  HttpShared& shared_;
  std::unique_ptr<Handles> handles_;
  std::vector<std::unique_ptr<Active>> active_;
  std::vector<HttpCall*> finished_;
  std::mt19937_64 random_;
  Deadline polled_;
};

}  // namespace stoker
