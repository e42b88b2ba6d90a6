#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/toys/memory_bucket.h"

namespace stoker::testing {

/// What has happened to the checkpoints in a bucket, one object "log/<number>" after the other.
/// Each is put only if there is none of its number, so that all who write agree on the order; and
/// whoever was overtaken by another entry looks again whether it may still write its own. That is
/// the fence: a lock that was taken over shows before the next entry.
///
/// Thread safety: every method may be called from any thread.
class MemoryLog {
 public:
  /// A checkpoint that was committed.
  struct Step {
    std::string staging;
    std::uint64_t generation = 0;
    std::uint64_t id = 0;  ///< Number of the entry that committed it.
  };
  /// All entries together.
  struct State {
    std::uint64_t next = 1;  ///< Number of the next entry.
    std::string holder;      ///< Its token; empty if nobody holds the lock.
    std::string who;         ///< For messages.
    std::map<std::string, Step> visible;
    std::map<std::string, Step> hidden;  ///< To be removed, or to be shown again.
    std::set<std::string> abandoned;     ///< Staging names.

    bool is_committed(const std::string& staging) const;
  };
  using Words = std::vector<std::string>;

  explicit MemoryLog(std::shared_ptr<MemoryBucket> bucket) : bucket_(std::move(bucket)) {}

  Result<State> read();

  /// Adds an entry if `check` allows it in the state before. `is_sent` is set once the entry was
  /// sent: after a failure it may be there then.
  Status append(const Words& entry, const std::function<Status(const State&)>& check,
                bool* is_sent = nullptr);
  /// For the holder of the lock: `not_found` if `token` is not that of the holder.
  Status append_as(const std::string& token, const Words& entry,
                   const std::function<Status(const State&)>& check, bool* is_sent = nullptr);

 private:
  static void apply(const Words& entry, State& state);

  const std::shared_ptr<MemoryBucket> bucket_;
  Mutex mutex_;
  State known_ STOKER_GUARDED_BY(mutex_);  // entries do not change: each is read once
};

}  // namespace stoker::testing
