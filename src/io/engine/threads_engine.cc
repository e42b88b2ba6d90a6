#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"
#include "base/fork_guard.h"
#include "io/engine/transfer.h"

namespace stoker {
namespace {

constexpr std::uint32_t kThreadsMax = 16;

/// The slot of one request. The owner writes it before it queues the index and reads it after the
/// index has returned; in between it belongs to one worker. A queue's mutex orders both transfers.
struct Slot {
  Transfer transfer;
  bool in_use = false;  // used by the owner only
  // relaxed: a hint. A worker that misses it finishes the transfer, which the contract allows.
  std::atomic<bool> cancelled{false};
};

/// The state shared by the workers. On the heap, so that a forked child can leak it: its threads do
/// not exist there, and joining them would hang.
struct Pool {
  Pool(const EngineOptions& options, std::uint32_t thread_count)
      : slots(options.depth), todo(options.depth), done(options.depth), tamper(options.tamper) {
    threads.reserve(thread_count);
    try {
      while (threads.size() < thread_count) threads.emplace_back([this] { work(); });
    } catch (...) {
      todo.close();  // otherwise joining the threads that did start would hang
      throw;
    }
  }
  ~Pool() { todo.close(); }  // workers finish the queued requests, then end; jthreads join

  void work() {
    while (const std::optional<std::uint32_t> index = todo.pop()) {
      move(slots[*index]);
      done.push(*index);
    }
  }

  void move(Slot& slot) const {
    std::int64_t raw = 0;
    do {
      raw = slot.cancelled.load(std::memory_order_relaxed) ? -ECANCELED : call_once(slot.transfer);
      if (tamper && raw != -ECANCELED) raw = tamper(slot.transfer.request(), raw);
    } while (!slot.transfer.advance(raw));
  }

  std::vector<Slot> slots;
  BoundedQueue<std::uint32_t> todo;
  BoundedQueue<std::uint32_t> done;
  const std::function<std::int64_t(const Request&, std::int64_t)> tamper;
  std::vector<std::jthread> threads;  // last: they use the members above
};

/// Blocking system calls on a pool of threads, for machines where io_uring is not available.
class ThreadsEngine final : public Engine {
 public:
  ThreadsEngine(const EngineOptions& options, std::uint32_t thread_count)
      : caps_{.kind = EngineKind::threads, .depth_max = options.depth},
        pool_(std::make_unique<Pool>(options, thread_count)) {
    for (std::uint32_t i = options.depth; i-- > 0;) free_.push_back(i);
  }
  ~ThreadsEngine() override {
    if (fork_guard_.is_here()) return;  // the pool's destructor finishes and joins
    static_cast<void>(pool_.release());
  }

  const EngineCaps& caps() const noexcept override { return caps_; }
  std::size_t in_flight() const noexcept override { return caps_.depth_max - free_.size(); }

  Result<std::size_t> submit(std::span<const Request> requests) override {
    STOKER_TRY(fork_guard_.check("this engine"));
    if (draining_) return Status(Code::invalid_argument, "submit: the engine was drained");
    const std::size_t accepted = std::min(requests.size(), free_.size());
    for (const Request& request : requests.first(accepted)) {
      std::uint32_t index = free_.back();
      free_.pop_back();
      Slot& slot = pool_->slots[index];
      slot.transfer = Transfer(request);
      slot.cancelled.store(false, std::memory_order_relaxed);
      slot.in_use = true;
      pool_->todo.try_push(std::move(index));  // never full: it has room for every slot
    }
    return accepted;
  }

  Result<std::size_t> reap(std::span<Completion> out, std::size_t count_min,
                           nanoseconds timeout) override {
    STOKER_TRY(fork_guard_.check("this engine"));
    const Deadline deadline = deadline_after(timeout);
    std::size_t count = 0;
    while (count < out.size() && in_flight() > 0) {
      const auto index = count < count_min ? pool_->done.pop({}, deadline) : pool_->done.try_pop();
      if (!index) break;
      Slot& slot = pool_->slots[*index];
      out[count++] = slot.transfer.completion();
      slot.in_use = false;
      free_.push_back(*index);
    }
    return count;
  }

  Status cancel(std::uint64_t tag) override {
    STOKER_TRY(fork_guard_.check("this engine"));
    for (Slot& slot : pool_->slots) {
      if (slot.in_use && slot.transfer.request().tag == tag)
        slot.cancelled.store(true, std::memory_order_relaxed);
    }
    return {};
  }

  Result<int> register_file(int /*fd*/) override {
    return Status(Code::unsupported, "register_file: the threads engine has no file table");
  }
  Status unregister_file(int /*slot*/) override {
    return Status(Code::unsupported, "unregister_file: the threads engine has no file table");
  }
  Status register_buffers(std::span<std::byte> /*memory*/) override {
    return Status(Code::unsupported, "register_buffers: the threads engine pins nothing");
  }

  Status drain(nanoseconds timeout) override {
    STOKER_TRY(fork_guard_.check("this engine"));
    draining_ = true;
    const Deadline deadline = deadline_after(timeout);
    Completion dropped;
    while (in_flight() > 0) {
      STOKER_ASSIGN(const std::size_t count, reap({&dropped, 1}, 1, time_left(deadline)));
      if (count == 0)
        return Status(Code::unavailable,
                      std::to_string(in_flight()) + " transfers did not end in time");
    }
    return {};
  }

 private:
  const EngineCaps caps_;
  const ForkGuard fork_guard_;
  std::vector<std::uint32_t> free_;
  bool draining_ = false;
  std::unique_ptr<Pool> pool_;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_threads_engine(const EngineOptions& options) {
  if (options.depth == 0)
    return Status(Code::invalid_argument, "an engine needs a depth of at least 1");
  const std::uint32_t wanted = options.thread_count == 0 ? kThreadsMax : options.thread_count;
  try {
    return std::unique_ptr<Engine>(
        std::make_unique<ThreadsEngine>(options, std::min(wanted, options.depth)));
  } catch (const std::system_error& error) {  // how std::thread reports EAGAIN
    return Status::from_errno(error.code().value(), "start a thread", "");
  }
}

}  // namespace stoker
