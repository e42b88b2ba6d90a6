#include "store/http/http_session.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <span>
#include <utility>

#include "store/http/curl_handle.h"
#include "store/http/http_answer.h"

namespace stoker {

using namespace std::chrono_literals;

/// A request that is in flight, or is not.
struct HttpSession::Attempt {
  CurlHandle easy;  ///< Null while it is not in flight.
  CurlHeaders headers;
  HttpRequest request;
  HttpAnswer answer;
  Deadline sent_at;
  std::array<char, CURL_ERROR_SIZE> error{};  ///< What libcurl says of a failure.
};

/// A second attempt of a ranged read, beside the one that is late. It has memory of its own: the
/// other one writes to that of the caller meanwhile.
struct HttpSession::Hedge {
  std::vector<std::byte> bytes;
  WantedRange range;
  Attempt attempt;
};

/// A call, and its present attempt if one is in flight.
struct HttpSession::Active {
  HttpCall* call = nullptr;  ///< Null once it is finished.
  nanoseconds timeout{0};
  Deadline deadline;
  Deadline begin_at;  ///< Of the next attempt, while none is in flight.
  bool is_retry = false;

  Attempt attempt;
  /// The stall clock: what had moved, and when.
  std::uint64_t moved_bytes = 0;
  Deadline moved_at;

  Deadline hedge_at = Deadline::max();  ///< If the attempt has not finished until then.
  bool is_hedged = false;
  std::unique_ptr<Hedge> hedge;  ///< Null unless one is in flight.
};

struct HttpSession::Handles {
  CURLM* multi = nullptr;
  std::vector<CurlHandle> idle;
  std::string ca_file;
};

HttpSession::HttpSession(HttpShared& shared)
    : shared_(shared),
      handles_(std::make_unique<Handles>()),
      random_(std::random_device{}()),
      polled_(Clock::now()) {}

Result<std::unique_ptr<HttpSession>> HttpSession::make(HttpShared& shared) {
  start_libcurl();
  std::unique_ptr<HttpSession> session(new HttpSession(shared));
  Handles& handles = *session->handles_;
  handles.multi = curl_multi_init();
  if (handles.multi == nullptr) return Status(Code::unavailable, "libcurl cannot start", ENOMEM);
  curl_multi_setopt(handles.multi, CURLMOPT_MAXCONNECTS, long{shared.options.requests_max});
  handles.ca_file = shared.options.ca_file.empty() ? find_ca_file() : shared.options.ca_file;
  return session;
}

HttpSession::~HttpSession() {
  for (const std::unique_ptr<Active>& active : active_) detach_all(*active);
  handles_->idle.clear();
  if (handles_->multi != nullptr) curl_multi_cleanup(handles_->multi);
}

void HttpSession::start(HttpCall& call) {
  const Deadline now = Clock::now();
  if (active_.empty()) polled_ = now;
  call.status = {};
  call.response = {};
  call.moved_to.clear();
  call.attempt_count = call.correction_count = 0;
  call.may_have_arrived = call.is_refreshed = false;
  auto active = std::make_unique<Active>();
  active->call = &call;
  active->timeout = call.timeout == nanoseconds(0) ? shared_.options.timeout : call.timeout;
  active->deadline = deadline_after(active->timeout, now);
  active->begin_at = now;
  active_.push_back(std::move(active));
}

void HttpSession::stop(HttpCall& call) {
  std::erase(finished_, &call);
  const auto found =
      std::ranges::find(active_, &call, [](const auto& active) { return active->call; });
  if (found == active_.end()) return;
  detach_all(**found);
  active_.erase(found);
}

Status HttpSession::perform(HttpCall& call) {
  start(call);
  for (;;) {
    const Result<std::vector<HttpCall*>> finished = poll(kForever);
    if (!finished.ok()) {
      stop(call);
      return finished.status();
    }
    if (!finished->empty()) return call.status;
  }
}

Result<std::vector<HttpCall*>> HttpSession::poll(nanoseconds timeout) {
  const Deadline until = deadline_after(timeout);
  for (;;) {
    const Deadline now = Clock::now();
    move(now);
    if (!finished_.empty() || active_.empty() || now >= until) return std::exchange(finished_, {});
    const nanoseconds wait = std::min(time_left(until, now), next_event(now));
    const auto wait_ms = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
    const CURLMcode code =
        curl_multi_poll(handles_->multi, nullptr, 0, static_cast<int>(wait_ms), nullptr);
    if (code != CURLM_OK) return Status(Code::io_error, curl_multi_strerror(code), EIO);
    polled_ = Clock::now();
  }
}

/// Moves everything on, without waiting.
void HttpSession::move(Deadline now) {
  // Nobody polled for so long: what came meanwhile was not read, which is not the server's fault.
  if (constexpr nanoseconds kAway = 500ms; now - polled_ > kAway) {
    for (const std::unique_ptr<Active>& active : active_) {
      active->deadline += now - polled_;
      active->moved_at += now - polled_;
      if (active->hedge_at != Deadline::max()) active->hedge_at += now - polled_;
    }
  }
  polled_ = now;
  begin_attempts(now);
  begin_hedges(now);
  int running = 0;
  curl_multi_perform(handles_->multi, &running);
  take_messages();
  watch_clocks(now);
  std::erase_if(active_, [](const auto& active) { return active->call == nullptr; });
}

void HttpSession::begin_attempts(Deadline now) {
  bool has_others =
      std::ranges::any_of(active_, [](const auto& each) { return each->attempt.easy != nullptr; });
  for (const std::unique_ptr<Active>& active : active_) {
    if (active->call == nullptr || active->attempt.easy || active->begin_at > now) continue;
    // A thread that rests with requests in flight must not hold up the others for ever.
    constexpr nanoseconds kPatience = 1s;
    const bool must_wait = has_others || now - active->begin_at < kPatience;
    if (!shared_.admission.try_enter(must_wait)) return;
    if (active->is_retry && !shared_.budget.try_take(now)) {
      constexpr nanoseconds kAskAgain = 100ms;
      active->begin_at = now + kAskAgain;
      shared_.admission.leave();
      continue;
    }
    begin_attempt(*active, now);
    has_others |= active->attempt.easy != nullptr;
  }
}

void HttpSession::begin_attempt(Active& active, Deadline now) {
  HttpCall& call = *active.call;
  active.moved_bytes = 0;
  active.moved_at = now;
  if (Status begun = send(active, active.attempt, call.range ? &*call.range : nullptr);
      !begun.ok()) {
    finish(active, std::move(begun));
    return;
  }
  if (++call.attempt_count == 1) {
    shared_.budget.earn_request();
    shared_.hedges.earn_request();
  }
  const bool may_hedge = call.range && !active.is_hedged;
  if (may_hedge && shared_.options.hedge_after > nanoseconds(0))
    active.hedge_at = deadline_after(shared_.options.hedge_after, now);
}

/// Sends late reads once more, on other connections. A read is hedged once, and only if the limits
/// for the load allow it: a server that is slow for all must not get twice the work.
void HttpSession::begin_hedges(Deadline now) {
  for (const std::unique_ptr<Active>& active : active_) {
    if (active->call == nullptr || !active->attempt.easy || active->hedge_at > now) continue;
    active->hedge_at = Deadline::max();
    active->is_hedged = true;
    if (!shared_.admission.try_enter(true)) continue;
    if (!shared_.hedges.try_take(now)) {
      shared_.admission.leave();
      continue;
    }
    auto hedge = std::make_unique<Hedge>();
    hedge->range = *active->call->range;
    hedge->bytes.resize(hedge->range.size_bytes);
    hedge->range.into = {hedge->bytes};
    // If it cannot be sent, the read waits for its attempt alone.
    if (send(*active, hedge->attempt, &hedge->range).ok()) active->hedge = std::move(hedge);
  }
}

/// Sends what a call means, after it was admitted. Leaves again if it fails.
Status HttpSession::send(Active& active, Attempt& attempt, const WantedRange* range) {
  attempt.answer = HttpAnswer(range);
  attempt.sent_at = Clock::now();
  attempt.error.front() = '\0';
  Result<HttpRequest> request = shared_.protocol.make_request(*active.call);
  if (!request.ok()) {
    shared_.admission.leave();
    return request.status();
  }
  attempt.request = *std::move(request);
  attempt.headers = make_headers(attempt.request);
  if (handles_->idle.empty()) {
    attempt.easy.reset(curl_easy_init());
  } else {
    attempt.easy = std::move(handles_->idle.back());
    handles_->idle.pop_back();
  }
  const bool is_hedge = &attempt != &active.attempt;
  const bool is_ready =
      set_up(attempt.easy.get(), shared_.options, handles_->ca_file, attempt.request,
             attempt.headers, attempt.answer, range == nullptr ? 0 : range->size_bytes) &&
      curl_easy_setopt(attempt.easy.get(), CURLOPT_FRESH_CONNECT, is_hedge ? 1L : 0L) == CURLE_OK &&
      curl_easy_setopt(attempt.easy.get(), CURLOPT_PRIVATE, &active) == CURLE_OK &&
      curl_easy_setopt(attempt.easy.get(), CURLOPT_ERRORBUFFER, attempt.error.data()) == CURLE_OK &&
      curl_multi_add_handle(handles_->multi, attempt.easy.get()) == CURLM_OK;
  if (is_ready) return {};
  attempt.easy.reset();
  shared_.admission.leave();
  return {Code::io_error, "libcurl refuses the request", EIO};
}

/// Ends an attempt: from now on, nothing is written to its memory.
void HttpSession::detach(Attempt& attempt) {
  if (!attempt.easy) return;
  curl_multi_remove_handle(handles_->multi, attempt.easy.get());
  curl_easy_reset(attempt.easy.get());
  handles_->idle.push_back(std::move(attempt.easy));
  attempt.headers.reset();
  shared_.admission.leave();
}

void HttpSession::detach_all(Active& active) {
  detach(active.attempt);
  if (active.hedge) detach(active.hedge->attempt);
  active.hedge.reset();
}

void HttpSession::take_messages() {
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(handles_->multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    Active* active = nullptr;
    const CURLcode code = message->data.result;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &active);
    if (active->hedge && active->hedge->attempt.easy.get() == message->easy_handle) {
      end_hedge(*active, code);
      continue;
    }
    detach(active->attempt);
    end_attempt(*active, outcome(*active, active->attempt, code));
  }
}

/// Takes the bytes of a hedge that has come first. One that has failed changes nothing.
void HttpSession::end_hedge(Active& active, int curl_code) {
  detach(active.hedge->attempt);
  const std::unique_ptr<Hedge> hedge = std::move(active.hedge);
  HttpCall& call = *active.call;
  const HttpAnswer& answer = hedge->attempt.answer;
  if (curl_code != CURLE_OK || !hedge->attempt.answer.check_end().ok() || !answer.is_success()) {
    const int status = answer.response().status;
    if (status == 503 || status == 429)
      shared_.admission.throttled(hedge->attempt.sent_at, Clock::now());
    return;
  }
  detach(active.attempt);  // before its memory is written
  std::span<const std::byte> rest = hedge->bytes;
  for (const std::span<std::byte> piece : call.range->into) {
    std::ranges::copy(rest.first(piece.size()), piece.begin());
    rest = rest.subspan(piece.size());
  }
  shared_.admission.succeeded();
  call.response = hedge->attempt.answer.take_response();
  finish(active, {});
}

/// Says what an attempt that has ended means.
Verdict HttpSession::outcome(Active& active, Attempt& attempt, int curl_code) {
  HttpAnswer& answer = attempt.answer;
  const auto code = static_cast<CURLcode>(curl_code);
  // A failure whose body is too long is still a failure of that kind.
  if (!answer.refused().ok() && (answer.is_success() || answer.response().status == 0))
    return {.status = answer.refused()};
  if (code != CURLE_OK && answer.refused().ok()) {
    bool is_sent = false;
    Verdict verdict = judge_transport(code, attempt.error.data(), is_sent);
    active.call->may_have_arrived |= is_sent;
    return verdict;
  }
  if (const Status whole = answer.check_end(); !whole.ok()) {
    const bool is_short = whole.code() == Code::unavailable && whole.os_error() == ETIMEDOUT;
    active.call->may_have_arrived = true;
    return {.next = is_short ? Verdict::Next::retry : Verdict::Next::done, .status = whole};
  }
  active.call->may_have_arrived |= answer.response().status >= 500;
  return shared_.protocol.judge(*active.call, answer.response());
}

void HttpSession::end_attempt(Active& active, Verdict verdict) {
  const Deadline now = Clock::now();
  HttpCall& call = *active.call;
  if (verdict.is_throttled) shared_.admission.throttled(active.attempt.sent_at, now);
  constexpr std::uint32_t kCorrectionsMax = 5;
  if (verdict.next == Verdict::Next::again && call.correction_count < kCorrectionsMax) {
    ++call.correction_count;
    active.begin_at = now;
    active.is_retry = false;
    return;
  }
  if (verdict.next == Verdict::Next::retry && call.attempt_count < shared_.options.attempts_max) {
    active.begin_at = now + std::max(verdict.wait, retry_delay(call.attempt_count - 1, random_()));
    active.is_retry = true;
    if (active.begin_at < active.deadline) {
      call.status = std::move(verdict.status);  // to be told if there is no time for another
      return;
    }
  }
  if (verdict.status.ok()) shared_.admission.succeeded();
  call.response = active.attempt.answer.take_response();
  finish(active, std::move(verdict.status));
}

/// Ends attempts that have stalled, and calls that are out of time.
void HttpSession::watch_clocks(Deadline now) {
  for (const std::unique_ptr<Active>& active : active_) {
    if (active->call == nullptr) continue;
    const bool is_late = now >= active->deadline;
    if (!is_late && !(active->attempt.easy && has_stalled(*active, now))) continue;
    if (active->attempt.easy) {
      detach(active->attempt);
      active->call->may_have_arrived = true;
    }
    if (!is_late) {
      end_attempt(*active, {.next = Verdict::Next::retry,
                            .status = {Code::unavailable, "the transfer stalled", ETIMEDOUT}});
      continue;
    }
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(active->timeout).count();
    std::string why = "no answer within " + std::to_string(ms) + " ms";
    const Status& earlier = active->call->status;
    if (!earlier.ok()) why.append("; before that: ").append(earlier.message());
    finish(*active, {Code::unavailable, std::move(why), ETIMEDOUT});
  }
}

/// Whether less than 1 KiB per second has moved since the stall clock was set, which it sets again.
bool HttpSession::has_stalled(Active& active, Deadline now) const {
  constexpr double kBytesPerSecondMin = 1024;
  if (now - active.moved_at < shared_.options.stall_timeout) return false;
  curl_off_t sent = 0;
  curl_easy_getinfo(active.attempt.easy.get(), CURLINFO_SIZE_UPLOAD_T, &sent);
  const std::uint64_t moved = active.attempt.answer.body_bytes() + static_cast<std::uint64_t>(sent);
  const double seconds = std::chrono::duration<double>(now - active.moved_at).count();
  const auto since = static_cast<double>(moved - active.moved_bytes);
  active.moved_at = now;
  active.moved_bytes = moved;
  return since < kBytesPerSecondMin * seconds;
}

/// Gives a call back to the caller, with the object and the number of attempts in its message.
void HttpSession::finish(Active& active, Status status) {
  detach_all(active);
  HttpCall& call = *std::exchange(active.call, nullptr);
  if (!status.ok()) {
    std::string message(status.message());
    if (call.attempt_count > 1) message += " (attempt " + std::to_string(call.attempt_count) + ")";
    status = Status(status.code(), std::move(message), status.os_error())
                 .with_context(shared_.protocol.name_of(call.key) + ": " + call.method);
  }
  call.status = std::move(status);
  finished_.push_back(&call);
}

/// Returns the time until something must be done that no socket tells.
nanoseconds HttpSession::next_event(Deadline now) const {
  constexpr nanoseconds kAskForAdmission = 5ms;
  nanoseconds soonest = 1s;
  for (const std::unique_ptr<Active>& active : active_) {
    soonest = std::min(soonest, time_left(active->deadline, now));
    const nanoseconds own =
        active->attempt.easy
            ? std::min(time_left(active->moved_at + shared_.options.stall_timeout, now),
                       time_left(active->hedge_at, now))
            : std::max(time_left(active->begin_at, now), kAskForAdmission);
    soonest = std::min(soonest, own);
  }
  return soonest;
}

}  // namespace stoker
