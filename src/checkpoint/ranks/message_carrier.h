#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "stoker/status.h"

namespace stoker {

/// What a carrier does with texts by name that all ranks share. The texts are never empty.
struct CarriedRequest {
  enum class Verb {
    put,     ///< Sets the text of one name.
    claim,   ///< Sets it unless the name has one. Returns the text that the name has now.
    retire,  ///< Removes it if it is `text`. Others may find kRetired for a moment.
    find,    ///< Returns texts of leading names, as MessagePlace::find(). Never waits for one.
    check,   ///< Returns the names that have a text.
    remove,  ///< Removes names; missing ones are no error.
  };
  Verb verb = Verb::find;
  std::vector<std::string> names = {};
  std::string text = {};
};

/// The text of a name that find does not return.
inline constexpr std::string_view kRetired = "-";

/// Hands the requests of any thread to one thread that can reach the other ranks, such as a thread
/// of Python: native threads never take the GIL. The carrier calls next() and answer() in turn, and
/// fail() if it cannot continue.
///
/// Thread safety: every method may be called from any thread; next() and answer() from one. In a
/// forked child every request fails.
class MessageCarrier {
 public:
  /// `name`: what carries the messages, for errors. `queued_max`: bounds the queue.
  explicit MessageCarrier(std::string name, std::size_t queued_max = 1024)
      : name_(std::move(name)), queued_max_(queued_max) {}
  MessageCarrier(const MessageCarrier&) = delete;
  MessageCarrier& operator=(const MessageCarrier&) = delete;

  /// Has the request carried out, and returns the answer. Waits until the deadline, and at least
  /// kGrace, so that a last message is sent and the missing ranks are named; then `unavailable`,
  /// and a request that was not begun never will be. Also `unavailable` after the end.
  /// `pause`, if not empty, is called now and then with 0; an error ends the wait.
  Result<std::vector<std::string>> call(CarriedRequest request, Deadline deadline,
                                        const std::function<Status(nanoseconds)>& pause);
  /// Has the request carried out later, after those before it; nobody learns whether it failed.
  /// Dropped if the queue is full.
  void post(CarriedRequest request);
  /// Counts those that still have requests.
  void enter();
  void leave();
  /// The carrier ends once all have left and the queue is empty. No more requests are accepted
  /// then.
  void close();

  // For the carrier's thread:

  /// Waits for the next request. Nothing at the end: after fail(), or as close() says.
  std::optional<CarriedRequest> next();
  /// Answers the request that next() has returned last.
  void answer(std::vector<std::string> texts);
  /// Fails all requests, and later ones, with `unavailable`; the first reason counts.
  void fail(const std::string& reason);

  static constexpr nanoseconds kGrace = std::chrono::milliseconds(500);

 private:
  struct Slot {
    CarriedRequest request;
    bool is_over = false;  // answered, or nobody waits for the answer
    Result<std::vector<std::string>> answer = std::vector<std::string>();
  };
  using SlotPointer = std::shared_ptr<Slot>;

  Status refusal() const STOKER_REQUIRES(mutex_);
  bool is_ending() const STOKER_REQUIRES(mutex_) { return is_closed_ && users_ == 0; }

  const std::string name_;
  const std::size_t queued_max_;
  ForkGuard guard_;
  Mutex mutex_;
  Condition changed_;
  std::deque<SlotPointer> queue_ STOKER_GUARDED_BY(mutex_);
  SlotPointer current_ STOKER_GUARDED_BY(mutex_);
  Status failure_ STOKER_GUARDED_BY(mutex_);
  std::size_t users_ STOKER_GUARDED_BY(mutex_) = 0;
  bool is_closed_ STOKER_GUARDED_BY(mutex_) = false;
};

}  // namespace stoker
