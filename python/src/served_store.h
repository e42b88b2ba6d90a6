#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "stoker/store.h"

namespace stoker::python {

/// What a thread of Python is to do: look a key up, list a folder, or read a range.
struct Errand {
  enum class Kind : std::uint8_t { look, list, read };

  Kind kind = Kind::look;
  std::string key;
  std::uint64_t offset_bytes = 0;
  std::vector<std::span<std::byte>> into = {};  ///< Borrowed until it is done or given up.
  std::uint64_t tag = 0;
  Deadline deadline = Deadline::max();

  // The result.
  bool is_done = false;
  bool is_given_up = false;  ///< Nobody waits for it any more.
  Status status = {};
  ObjectStore::Entry entry = {};
  std::vector<std::pair<std::string, ObjectStore::Kind>> names = {};
  std::int64_t bytes = 0;
};

/// A store that is only read, by functions of Python. Threads that Python has started take errands
/// from it: those of the library never take the GIL.
///
/// Thread safety: as ObjectStore. A forked child must call begin_anew() and start threads.
class ServedStore final : public ObjectStore {
 public:
  /// `scheme` is that of its URIs, "gs".
  explicit ServedStore(std::string scheme);

  std::string identity_of(const std::string& key) override { return uri_of(key); }
  std::string uri_of(const std::string& key) override { return scheme_ + "://" + key; }
  Result<std::unique_ptr<const Object>> open(const std::string& key, CachePolicy policy) override;
  Result<Entry> look(const std::string& key) override;
  Status list(const std::string& folder, const Found& found) override;
  Result<std::unique_ptr<RangeSource>> make_source(std::uint32_t depth) override;
  Result<std::unique_ptr<Upload>> upload(const std::string& key) override;
  Status remove(const std::string& key) override;

  /// Waits for an errand. For the threads of Python, without the GIL.
  std::shared_ptr<Errand> take();
  /// Sets a result, unless nobody waits for it any more. `fill` is called under the lock.
  template <typename Fill>
  void finish(Errand& errand, const Fill& fill) {
    Waiting& waiting = *waiting_.load(std::memory_order_acquire);
    const MutexLock lock(waiting.mutex);
    if (errand.is_given_up) return;
    fill(errand);
    errand.is_done = true;
    waiting.changed.notify_all();
  }
  /// Leaves everything of the parent alone, in a forked child.
  void begin_anew();

  std::shared_ptr<Errand> start(Errand errand);
  /// Waits until any of these is done or late; late ones are given up, with `unavailable`.
  void wait(const std::vector<std::shared_ptr<Errand>>& errands, Deadline until);
  void give_up(Errand& errand);
  /// Waits for one and returns its status.
  Status perform(const std::shared_ptr<Errand>& errand);
  bool is_done(const Errand& errand);

 private:
  /// In each process its own: a lock may be held by a thread that a forked child does not have.
  struct Waiting {
    Mutex mutex;
    Condition changed;
    std::deque<std::shared_ptr<Errand>> errands STOKER_GUARDED_BY(mutex);
  };

  const std::string scheme_;
  std::atomic<Waiting*> waiting_;  // never freed: threads of Python may wait there for ever
};

}  // namespace stoker::python
