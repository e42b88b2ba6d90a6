/// \file
/// Saves that wait at a crash point, and what the tests of a CheckpointSaver share beside.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "support/faulty_file_ops.h"

namespace stoker::testing {

/// Saves and waits for the end.
inline Status save_through(CheckpointSaver& saver, const SaveRequest& request) {
  STOKER_ASSIGN(const PendingSave pending, saver.save(request));
  EXPECT_TRUE(pending.is_staged());
  return pending.wait();
}

inline bool exists(const std::string& path) {
  return std::filesystem::exists(std::filesystem::symlink_status(path));
}

/// Holds the writer's thread at a crash point until it is let go.
class Gate {
 public:
  explicit Gate(std::string point) : point_(std::move(point)) {}
  void pass(std::string_view point) {
    if (point != point_) return;
    MutexLock lock(mutex_);
    is_reached_ = true;
    changed_.notify_all();
    while (!is_open_) changed_.wait(mutex_);
  }
  void await() {
    MutexLock lock(mutex_);
    while (!is_reached_) changed_.wait(mutex_);
  }
  void open() {
    MutexLock lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  const std::string point_;
  Mutex mutex_;
  Condition changed_;
  bool is_reached_ STOKER_GUARDED_BY(mutex_) = false;
  bool is_open_ STOKER_GUARDED_BY(mutex_) = false;
};

class GatedFileOps final : public FaultyFileOps {
 public:
  explicit GatedFileOps(Gate& gate) : FaultyFileOps(posix_file_ops(), kNever, 0), gate_(gate) {}
  void reached(std::string_view point) override { gate_.pass(point); }

 private:
  Gate& gate_;
};

}  // namespace stoker::testing
