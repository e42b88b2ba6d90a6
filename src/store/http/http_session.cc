#include "store/http/http_session.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "store/http/curl_handle.h"
#include "store/http/http_answer.h"

namespace stoker {

using namespace std::chrono_literals;

/// A call, and its present attempt if one is in flight.
struct HttpSession::Active {
  HttpCall* call = nullptr;  ///< Null once it is finished.
  nanoseconds timeout{0};
  Deadline deadline;
  Deadline begin_at;  ///< Of the next attempt, while none is in flight.
  bool is_retry = false;

  CurlHandle easy;  ///< Null while no attempt is in flight.
  CurlHeaders headers;
  HttpRequest request;
  HttpAnswer answer;
  /// The stall clock: what had moved, and when.
  std::uint64_t moved_bytes = 0;
  Deadline moved_at;
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
  for (const std::unique_ptr<Active>& active : active_)
    if (active->easy) detach(*active);
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
  if ((*found)->easy) detach(**found);
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
    }
  }
  polled_ = now;
  begin_attempts(now);
  int running = 0;
  curl_multi_perform(handles_->multi, &running);
  take_messages();
  watch_clocks(now);
  std::erase_if(active_, [](const auto& active) { return active->call == nullptr; });
}

void HttpSession::begin_attempts(Deadline now) {
  bool has_others =
      std::ranges::any_of(active_, [](const auto& each) { return each->easy != nullptr; });
  for (const std::unique_ptr<Active>& active : active_) {
    if (active->call == nullptr || active->easy || active->begin_at > now) continue;
    if (!shared_.admission.try_enter(has_others)) return;
    if (active->is_retry && !shared_.budget.try_take(now)) {
      constexpr nanoseconds kAskAgain = 100ms;
      active->begin_at = now + kAskAgain;
      shared_.admission.leave();
      continue;
    }
    begin_attempt(*active, now);
    has_others |= active->easy != nullptr;
  }
}

void HttpSession::begin_attempt(Active& active, Deadline now) {
  HttpCall& call = *active.call;
  active.answer = HttpAnswer(call.range ? &*call.range : nullptr);
  active.moved_bytes = 0;
  active.moved_at = now;
  Result<HttpRequest> request = shared_.protocol.make_request(call);
  if (!request.ok()) {
    shared_.admission.leave();
    finish(active, request.status());
    return;
  }
  active.request = *std::move(request);
  active.headers = make_headers(active.request);
  if (handles_->idle.empty()) {
    active.easy.reset(curl_easy_init());
  } else {
    active.easy = std::move(handles_->idle.back());
    handles_->idle.pop_back();
  }
  const bool is_ready =
      set_up(active.easy.get(), shared_.options, handles_->ca_file, active.request, active.headers,
             active.answer, call.range ? call.range->size_bytes : 0) &&
      curl_easy_setopt(active.easy.get(), CURLOPT_PRIVATE, &active) == CURLE_OK &&
      curl_multi_add_handle(handles_->multi, active.easy.get()) == CURLM_OK;
  if (!is_ready) {
    active.easy.reset();
    shared_.admission.leave();
    finish(active, {Code::io_error, "libcurl refuses the request", EIO});
    return;
  }
  if (++call.attempt_count == 1) shared_.budget.earn_request();
}

void HttpSession::detach(Active& active) {
  curl_multi_remove_handle(handles_->multi, active.easy.get());
  curl_easy_reset(active.easy.get());
  handles_->idle.push_back(std::move(active.easy));
  active.headers.reset();
  shared_.admission.leave();
}

void HttpSession::take_messages() {
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(handles_->multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    Active* active = nullptr;
    const CURLcode code = message->data.result;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &active);
    detach(*active);
    end_attempt(*active, outcome(*active, code));
  }
}

/// Says what an attempt that has ended means.
Verdict HttpSession::outcome(Active& active, int curl_code) {
  HttpAnswer& answer = active.answer;
  const auto code = static_cast<CURLcode>(curl_code);
  // A failure whose body is too long is still a failure of that kind.
  if (!answer.refused().ok() && (answer.is_success() || answer.response().status == 0))
    return {.status = answer.refused()};
  if (code != CURLE_OK && answer.refused().ok()) {
    bool is_sent = false;
    Verdict verdict = judge_transport(code, is_sent);
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
  if (verdict.is_throttled) shared_.admission.throttled(now);
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
  call.response = active.answer.take_response();
  finish(active, std::move(verdict.status));
}

/// Ends attempts that have stalled, and calls that are out of time.
void HttpSession::watch_clocks(Deadline now) {
  for (const std::unique_ptr<Active>& active : active_) {
    if (active->call == nullptr) continue;
    const bool is_late = now >= active->deadline;
    if (!is_late && !(active->easy && has_stalled(*active, now))) continue;
    if (active->easy) {
      detach(*active);
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
  curl_easy_getinfo(active.easy.get(), CURLINFO_SIZE_UPLOAD_T, &sent);
  const std::uint64_t moved = active.answer.body_bytes() + static_cast<std::uint64_t>(sent);
  const double seconds = std::chrono::duration<double>(now - active.moved_at).count();
  const auto since = static_cast<double>(moved - active.moved_bytes);
  active.moved_at = now;
  active.moved_bytes = moved;
  return since < kBytesPerSecondMin * seconds;
}

/// Gives a call back to the caller, with the object and the number of attempts in its message.
void HttpSession::finish(Active& active, Status status) {
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
    const nanoseconds own = active->easy
                                ? time_left(active->moved_at + shared_.options.stall_timeout, now)
                                : std::max(time_left(active->begin_at, now), kAskForAdmission);
    soonest = std::min(soonest, own);
  }
  return soonest;
}

}  // namespace stoker
