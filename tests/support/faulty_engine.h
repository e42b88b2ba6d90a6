#pragma once

#include <memory>
#include <utility>

#include "io/engine/engine.h"

namespace stoker::testing {

/// Forwards to another Engine and spoils the `fail_at`-th completion, counted from zero, once. For
/// the callers of engines; what engines themselves make of raw results is tested by
/// EngineOptions::tamper.
class FaultyEngine final : public Engine {
 public:
  FaultyEngine(std::unique_ptr<Engine> target, int fail_at, std::int64_t result)
      : target_(std::move(target)), fail_at_(fail_at), result_(result) {}

  bool fired() const { return count_ > fail_at_; }

  const EngineCaps& caps() const noexcept override { return target_->caps(); }
  std::size_t in_flight() const noexcept override { return target_->in_flight(); }
  Result<std::size_t> submit(std::span<const Request> requests) override {
    return target_->submit(requests);
  }
  Result<std::size_t> reap(std::span<Completion> out, std::size_t count_min,
                           nanoseconds timeout) override {
    STOKER_ASSIGN(const std::size_t count, target_->reap(out, count_min, timeout));
    for (Completion& completion : out.first(count)) {
      if (count_++ == fail_at_) completion.result = result_;
    }
    return count;
  }
  Status cancel(std::uint64_t tag) override { return target_->cancel(tag); }
  Result<int> register_file(int fd) override { return target_->register_file(fd); }
  Status unregister_file(int slot) override { return target_->unregister_file(slot); }
  Status register_buffers(std::span<std::byte> memory) override {
    return target_->register_buffers(memory);
  }
  Status drain(nanoseconds timeout) override { return target_->drain(timeout); }

 private:
  std::unique_ptr<Engine> target_;
  const int fail_at_;
  const std::int64_t result_;
  int count_ = 0;
};

}  // namespace stoker::testing
