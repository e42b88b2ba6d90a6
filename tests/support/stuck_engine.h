#pragma once

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "io/engine/engine.h"

namespace stoker::testing {

/// Whether the device has come back; shared by a test and the engines that it makes.
///
/// Thread safety: every method from any thread.
class StuckDevice {
 public:
  void come_back() {
    {
      const std::lock_guard lock(mutex_);
      is_back_ = true;
    }
    changed_.notify_all();
  }
  /// Whether it is back by then.
  bool await(nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    const auto is_back = [this] { return is_back_; };
    if (timeout == kForever) {
      changed_.wait(lock, is_back);
      return true;
    }
    return changed_.wait_for(lock, timeout, is_back);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_back_ = false;
};

/// Accepts transfers and completes none before its device has come back; then all of them, unmade.
/// Like any engine it waits for them when it is destroyed.
///
/// Thread safety: none.
class StuckEngine final : public Engine {
 public:
  explicit StuckEngine(std::shared_ptr<StuckDevice> device) : device_(std::move(device)) {
    caps_.depth_max = 8;
  }
  ~StuckEngine() override {
    if (!tags_.empty()) device_->await(kForever);
  }

  const EngineCaps& caps() const noexcept override { return caps_; }
  std::size_t in_flight() const noexcept override { return tags_.size(); }
  Result<std::size_t> submit(std::span<const Request> requests) override {
    std::size_t accepted = 0;
    for (; accepted < requests.size() && tags_.size() < caps_.depth_max; ++accepted)
      tags_.push_back({.tag = requests[accepted].tag,
                       .result = static_cast<std::int64_t>(requests[accepted].size_bytes())});
    return accepted;
  }
  Result<std::size_t> reap(std::span<Completion> out, std::size_t count_min,
                           nanoseconds timeout) override {
    if (tags_.empty() || !device_->await(count_min > 0 ? timeout : nanoseconds(0)))
      return std::size_t{0};
    const std::size_t count = std::min(out.size(), tags_.size());
    std::copy_n(tags_.begin(), count, out.begin());
    tags_.erase(tags_.begin(), tags_.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  Status cancel(std::uint64_t /*tag*/) override { return {}; }
  Result<int> register_file(int /*fd*/) override { return Status(Code::unsupported, "none"); }
  Status unregister_file(int /*slot*/) override { return {}; }
  Status register_buffers(std::span<std::byte> /*memory*/) override {
    return Status(Code::unsupported, "none");
  }
  Status drain(nanoseconds timeout) override {
    if (!tags_.empty() && !device_->await(timeout)) return Status(Code::unavailable, "stuck");
    tags_.clear();
    return {};
  }

 private:
  std::shared_ptr<StuckDevice> device_;
  EngineCaps caps_;
  std::vector<Completion> tags_;
};

}  // namespace stoker::testing
