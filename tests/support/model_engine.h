#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "io/engine/engine.h"
#include "support/model_disk.h"

namespace stoker::testing {

/// The Engine of a ModelDisk: the sync engine moves the bytes, and the disk hears of each write and
/// each sync. Requests are performed inside submit(), one after the other.
///
/// Thread safety: none, as every Engine.
class ModelEngine final : public Engine {
 public:
  /// What happens to descriptors of files that are not on the disk: a product that uses one has
  /// gone past FileOps. The conformance suite, which brings files of its own, lets them pass.
  enum class Foreign : std::uint8_t { refuse, pass };

  ModelEngine(ModelDisk& disk, std::unique_ptr<Engine> target, Foreign foreign = Foreign::refuse)
      : disk_(disk), target_(std::move(target)), foreign_(foreign) {}

  const EngineCaps& caps() const noexcept override { return target_->caps(); }
  std::size_t in_flight() const noexcept override { return done_.size(); }
  Result<std::size_t> submit(std::span<const Request> requests) override;
  Result<std::size_t> reap(std::span<Completion> out, std::size_t count_min,
                           nanoseconds timeout) override;
  Status cancel(std::uint64_t tag) override { return target_->cancel(tag); }
  Result<int> register_file(int fd) override { return target_->register_file(fd); }
  Status unregister_file(int slot) override { return target_->unregister_file(slot); }
  Status register_buffers(std::span<std::byte> memory) override {
    return target_->register_buffers(memory);
  }
  Status drain(nanoseconds timeout) override;

 private:
  Result<Completion> perform_now(const Request& request);
  Status record(const Request& request, std::size_t moved_bytes);

  ModelDisk& disk_;
  std::unique_ptr<Engine> target_;
  const Foreign foreign_;
  std::vector<Completion> done_;
};

}  // namespace stoker::testing
