#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/ranks/coordinator.h"

namespace stoker::testing {

/// Which of the ranks that are threads of a test have ended, and a wait for their messages.
///
/// Thread safety: every method from any thread.
class LivingRanks {
 public:
  explicit LivingRanks(std::uint32_t count) : silent_(count) {}

  /// From now on `rank` neither sends nor receives, as if its process had ended.
  void silence(std::uint32_t rank) {
    silent_[rank] = true;
    ++silent_count_;
    tell();
  }
  void revive_all() {
    for (std::atomic<bool>& one : silent_) one = false;
    silent_count_ = 0;
  }
  bool is_silent(std::uint32_t rank) const { return silent_[rank]; }

  /// A message was sent.
  void tell() {
    {
      const std::lock_guard lock(mutex_);
      ++news_;
    }
    told_.notify_all();
  }

  /// A coordinator's pause between two looks for messages: ends when one was sent that this thread
  /// may not have seen yet. Once a rank has ended, looks follow each other, until that is noticed.
  /// Nobody tells of a rank that could not send, so no wait is long.
  void await_news(std::chrono::nanoseconds time_max) {
    constexpr std::chrono::nanoseconds kLookAgain = std::chrono::milliseconds(1);
    std::unique_lock lock(mutex_);
    std::uint64_t& heard = heard_[std::this_thread::get_id()];
    if (silent_count_ > 0)
      std::this_thread::yield();
    else
      told_.wait_for(lock, std::min(time_max, kLookAgain),
                     [&] { return heard != news_ || silent_count_ > 0; });
    heard = news_;
  }

 private:
  std::vector<std::atomic<bool>> silent_;
  std::atomic<int> silent_count_ = 0;
  std::mutex mutex_;
  std::condition_variable told_;
  std::uint64_t news_ = 0;
  std::map<std::thread::id, std::uint64_t> heard_;  // of `news_`
};

/// A coordinator that fails once its rank is silent, and tells the others of its messages.
class MortalCoordinator final : public Coordinator {
 public:
  /// Broadcasts whose key begins with `broken` fail, after they were sent or have arrived.
  MortalCoordinator(std::unique_ptr<Coordinator> target, LivingRanks& living, std::string broken)
      : target_(std::move(target)), living_(living), broken_(std::move(broken)) {}

  std::uint32_t rank() const noexcept override { return target_->rank(); }
  std::uint32_t world_size() const noexcept override { return target_->world_size(); }
  Result<std::vector<std::string>> gather(const std::string& key, const std::string& text,
                                          Deadline deadline) override {
    if (living_.is_silent(rank())) return lost();
    auto texts = target_->gather(key, text, deadline);
    living_.tell();
    return texts;
  }
  void withdraw(const std::string& key) override {
    if (!living_.is_silent(rank())) target_->withdraw(key);
  }
  Result<std::string> broadcast(const std::string& key, const std::string& text,
                                Deadline deadline) override {
    if (living_.is_silent(rank())) return lost();
    Result<std::string> told = target_->broadcast(key, text, deadline);
    living_.tell();
    if (!broken_.empty() && key.starts_with(broken_))
      return Status(Code::io_error, "the broadcast of " + key + " has failed");
    return told;
  }

 private:
  static Status lost() { return Status(Code::unavailable, "this rank has ended"); }

  std::unique_ptr<Coordinator> target_;
  LivingRanks& living_;
  const std::string broken_;
};

}  // namespace stoker::testing
