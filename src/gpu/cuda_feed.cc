#include "gpu/cuda_feed.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <system_error>
#include <utility>

namespace stoker {
namespace {

bool is_inside(std::span<const std::byte> bytes, std::span<const std::byte> memory) {
  return bytes.data() >= memory.data() &&
         bytes.data() + bytes.size() <= memory.data() + memory.size();
}

}  // namespace

Status CudaFeed::Copy::delay(CudaStream stream) const {
  const CudaScope scope(event_->device());
  STOKER_TRY(scope.status());
  return event_->delay(stream);
}

/// On the heap, so that a forked child can leak it: its thread is not there.
struct CudaFeed::State {
  State(std::shared_ptr<const CudaDevice> of, CudaStream on) : device(std::move(of)), stream(on) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    {
      MutexLock lock(mutex);
      is_ending = true;
    }
    changed.notify_all();
    if (thread.joinable()) thread.join();
  }

  Status enqueue(const CudaFeed::Piece& piece) const {
    const CudaDriver& driver = device->driver();
    return driver.check(
        driver.memcpy_htod_async(piece.to, piece.from.data(), piece.from.size(), stream),
        "cuMemcpyHtoDAsync");
  }

  /// Enqueues the copies and an event behind them.
  Result<std::shared_ptr<const Copy>> enqueue_all(std::span<const Piece> pieces, Sent& sent) const;
  void release_when_done();
  /// Ends the lease of copies of which it is not known whether they have ended, if everything in
  /// the stream has; otherwise its memory is never used again.
  void give_up(Sent sent, Status why);

  const std::shared_ptr<const CudaDevice> device;
  const CudaStream stream;
  const ForkGuard guard;
  Mutex mutex;
  Condition changed;
  std::deque<Sent> queue STOKER_GUARDED_BY(mutex);
  bool is_ending STOKER_GUARDED_BY(mutex) = false;
  Status failure STOKER_GUARDED_BY(mutex);
  Stats stats STOKER_GUARDED_BY(mutex);
  std::thread thread;
};

Result<std::shared_ptr<const CudaFeed::Copy>> CudaFeed::State::enqueue_all(
    std::span<const Piece> pieces, Sent& sent) const {
  STOKER_ASSIGN(std::unique_ptr<OwnedCudaEvent> event, OwnedCudaEvent::make(device));
  const CudaScope scope(*device);
  STOKER_TRY(scope.status());
  std::size_t others = 0;
  for (const Piece& piece : pieces) {
    sent.size_bytes += piece.from.size();
    if (!is_inside(piece.from, sent.batch.bytes())) others += piece.from.size();
  }
  sent.others.reserve(others);  // it must not move
  for (Piece piece : pieces) {
    if (piece.from.empty()) continue;
    if (!is_inside(piece.from, sent.batch.bytes())) {
      const std::size_t at = sent.others.size();
      sent.others.insert(sent.others.end(), piece.from.begin(), piece.from.end());
      piece.from = std::span(sent.others).subspan(at);
    }
    STOKER_TRY(enqueue(piece));
  }
  STOKER_TRY(event->record(stream));
  return std::shared_ptr<const Copy>(new Copy(std::move(event)));
}

void CudaFeed::State::give_up(Sent sent, Status why) {
  // Leases that never end. Reachable, so that no leak is reported for what is kept on purpose.
  static Mutex lost_mutex;
  static std::vector<Sent>& lost = *new std::vector<Sent>();
  bool have_ended = false;
  {
    const CudaScope scope(*device);
    have_ended = scope.status().ok() && device->driver().stream_synchronize(stream) == kCudaSuccess;
  }
  {
    MutexLock lock(mutex);
    if (failure.ok()) failure = std::move(why);
  }
  if (have_ended) return;
  MutexLock lock(lost_mutex);
  lost.push_back(std::move(sent));
}

void CudaFeed::State::release_when_done() {
  ::pthread_setname_np(::pthread_self(), "stoker-feed");
  Deadline before = Clock::now();
  for (;;) {
    std::optional<Sent> sent;
    {
      MutexLock lock(mutex);
      while (queue.empty() && !is_ending) changed.wait(mutex);
      if (queue.empty()) return;
      sent = std::move(queue.front());
      queue.pop_front();
    }
    Status done;
    {
      const CudaScope scope(*device);
      done = scope.status().ok() ? sent->copy->event_->synchronize() : scope.status();
    }
    if (!done.ok()) {
      give_up(*std::move(sent), std::move(done));
      continue;
    }
    const Deadline now = Clock::now();
    MutexLock lock(mutex);
    ++stats.copies;
    stats.bytes += sent->size_bytes;
    stats.busy += now - std::max(before, sent->since);
    before = now;
  }
}

CudaFeed::CudaFeed(std::unique_ptr<State> state) : state_(std::move(state)) {}

CudaFeed::~CudaFeed() {
  if (!state_->guard.is_here()) static_cast<void>(state_.release());
}

Result<std::unique_ptr<CudaFeed>> CudaFeed::make(std::shared_ptr<const CudaDevice> device,
                                                 CudaStream stream) {
  auto state = std::make_unique<State>(std::move(device), stream);
  try {
    state->thread = std::thread([state = state.get()] { state->release_when_done(); });
  } catch (const std::system_error& error) {
    return Status(Code::unavailable,
                  std::string("cannot start the thread of a device's copies: ") + error.what(),
                  error.code().value());
  }
  return std::unique_ptr<CudaFeed>(new CudaFeed(std::move(state)));
}

ArenaMaker CudaFeed::memory() {
  return pinned_->maker();
}

Result<std::shared_ptr<const CudaFeed::Copy>> CudaFeed::send(std::span<const Piece> pieces,
                                                             Lease batch) {
  STOKER_TRY(state_->guard.check("copies to a device"));
  STOKER_TRY(failure());
  pinned_->pin(batch.bytes(), state_->device);
  Sent sent{.copy = {}, .batch = std::move(batch), .others = {}, .since = Clock::now()};
  Result<std::shared_ptr<const Copy>> copy = state_->enqueue_all(pieces, sent);
  if (!copy.ok()) {
    state_->give_up(std::move(sent), copy.status());
    return copy;
  }
  sent.copy = *copy;
  {
    MutexLock lock(state_->mutex);
    state_->queue.push_back(std::move(sent));
  }
  state_->changed.notify_all();
  return copy;
}

Status CudaFeed::failure() const {
  MutexLock lock(state_->mutex);
  return state_->failure;
}

CudaFeed::Stats CudaFeed::stats() const {
  MutexLock lock(state_->mutex);
  return state_->stats;
}

}  // namespace stoker
