#include <algorithm>
#include <vector>

#include "base/fork_guard.h"
#include "io/engine/transfer.h"

namespace stoker {
namespace {

/// The reference engine: performs each request inside submit(), on the caller's thread. It has no
/// kernel state, but refuses to work in a forked child, so that all engines behave alike.
class SyncEngine final : public Engine {
 public:
  explicit SyncEngine(const EngineOptions& options)
      : caps_{.kind = EngineKind::sync, .depth_max = options.depth}, tamper_(options.tamper) {
    done_.reserve(options.depth);
  }

  const EngineCaps& caps() const noexcept override { return caps_; }
  std::size_t in_flight() const noexcept override { return done_.size(); }

  Result<std::size_t> submit(std::span<const Request> requests) override {
    STOKER_TRY(fork_guard_.check("this engine"));
    if (draining_) return Status(Code::invalid_argument, "submit: the engine was drained");
    std::size_t accepted = 0;
    for (const Request& request : requests) {
      if (done_.size() == caps_.depth_max) break;
      done_.push_back(perform_now(request));
      ++accepted;
    }
    return accepted;
  }

  Result<std::size_t> reap(std::span<Completion> out, std::size_t /*count_min*/,
                           nanoseconds /*timeout*/) override {
    STOKER_TRY(fork_guard_.check("this engine"));
    const std::size_t count = std::min(out.size(), done_.size());
    std::copy_n(done_.begin(), count, out.begin());
    done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }

  Status cancel(std::uint64_t /*tag*/) override { return fork_guard_.check("this engine"); }
  Result<int> register_file(int /*fd*/) override {
    return Status(Code::unsupported, "register_file: the sync engine has no file table");
  }
  Status unregister_file(int /*slot*/) override {
    return Status(Code::unsupported, "unregister_file: the sync engine has no file table");
  }
  Status register_buffers(std::span<std::byte> /*memory*/) override {
    return Status(Code::unsupported, "register_buffers: the sync engine pins nothing");
  }
  Status drain(nanoseconds /*timeout*/) override {
    STOKER_TRY(fork_guard_.check("this engine"));
    draining_ = true;
    done_.clear();
    return {};
  }

 private:
  Completion perform_now(const Request& request) const {
    Transfer transfer(request);
    for (;;) {
      std::int64_t raw = call_once(transfer);
      if (tamper_) raw = tamper_(request, raw);
      if (transfer.advance(raw)) return transfer.completion();
    }
  }

  const EngineCaps caps_;
  const std::function<std::int64_t(const Request&, std::int64_t)> tamper_;
  const ForkGuard fork_guard_;
  std::vector<Completion> done_;
  bool draining_ = false;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_sync_engine(const EngineOptions& options) {
  if (options.depth == 0)
    return Status(Code::invalid_argument, "an engine needs a depth of at least 1");
  return std::unique_ptr<Engine>(std::make_unique<SyncEngine>(options));
}

}  // namespace stoker
