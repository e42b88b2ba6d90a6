#include "gpu/cuda_feed.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <new>
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
  Status await(const Sent& sent) const noexcept;
  bool have_ended() const noexcept;
  /// Ends the lease of copies of which it is not known whether they have ended, if everything in
  /// the stream has; otherwise its memory is never used again. `sent` has at most one element.
  /// Allocates nothing.
  void give_up(SentList sent, const Status& why) noexcept;

  const std::shared_ptr<const CudaDevice> device;
  const std::shared_ptr<CudaEventPool> events = std::make_shared<CudaEventPool>(device);
  const CudaStream stream;
  const ForkGuard guard;
  Mutex mutex;
  Condition changed;
  SentList queue STOKER_GUARDED_BY(mutex);
  bool is_ending STOKER_GUARDED_BY(mutex) = false;
  Status failure STOKER_GUARDED_BY(mutex);
  Stats stats STOKER_GUARDED_BY(mutex);
  const Status no_memory = Status::from_errno(ENOMEM, "copy a batch to a device", "");
  std::thread thread;
};

Result<std::shared_ptr<const CudaFeed::Copy>> CudaFeed::State::enqueue_all(
    std::span<const Piece> pieces, Sent& sent) const {
  STOKER_ASSIGN(std::unique_ptr<OwnedCudaEvent> event, events->take());
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
  return std::shared_ptr<const Copy>(new Copy(std::move(event), events));
}

/// Leases that never end. Reachable, so that no leak is reported for what is kept on purpose.
struct CudaFeed::Lost {
  static Lost& get() {
    static Lost& lost = *new Lost();
    return lost;
  }
  Mutex mutex;
  SentList sent STOKER_GUARDED_BY(mutex);
};

bool CudaFeed::State::have_ended() const noexcept {
  try {
    const CudaScope scope(*device);
    return scope.status().ok() && device->driver().stream_synchronize(stream) == kCudaSuccess;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void CudaFeed::State::give_up(SentList sent, const Status& why) noexcept {
  const bool is_over = have_ended();
  {
    MutexLock lock(mutex);
    if (failure.ok()) failure = why;
  }
  if (is_over) return;
  Lost& lost = Lost::get();
  MutexLock lock(lost.mutex);
  lost.sent.splice(lost.sent.end(), sent);
}

Status CudaFeed::State::await(const Sent& sent) const noexcept {
  try {
    const CudaScope scope(*device);
    return scope.status().ok() ? sent.copy->event_->synchronize() : scope.status();
  } catch (const std::bad_alloc&) {
    return no_memory;
  }
}

void CudaFeed::State::release_when_done() {
  ::pthread_setname_np(::pthread_self(), "stoker-feed");
  Deadline before = Clock::now();
  for (;;) {
    SentList sent;
    {
      MutexLock lock(mutex);
      while (queue.empty() && !is_ending) changed.wait(mutex);
      if (queue.empty()) return;
      sent.splice(sent.end(), queue, queue.begin());
    }
    if (const Status done = await(sent.front()); !done.ok()) {
      give_up(std::move(sent), done);
      continue;
    }
    const Deadline now = Clock::now();
    MutexLock lock(mutex);
    ++stats.copies;
    stats.bytes += sent.front().size_bytes;
    stats.busy += now - std::max(before, sent.front().since);
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
  static_cast<void>(Lost::get());  // when it is needed there may be no memory
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

Status CudaFeed::follow(CudaStream stream) {
  STOKER_TRY(state_->guard.check("copies to a device"));
  STOKER_TRY(failure());
  const CudaScope scope(*state_->device);
  STOKER_TRY(scope.status());
  STOKER_ASSIGN(const bool is_captured, state_->device->driver().is_capturing(stream));
  if (is_captured)
    return Status(Code::invalid_argument,
                  "a CUDA graph is being captured on the stream, and copies of batches cannot wait "
                  "for it: follow it before or after the capture");
  STOKER_ASSIGN(std::unique_ptr<OwnedCudaEvent> done, state_->events->take());
  STOKER_TRY(done->record(stream));
  STOKER_TRY(done->delay(state_->stream));
  state_->events->give_back(std::move(done));
  return {};
}

Result<std::shared_ptr<const CudaFeed::Copy>> CudaFeed::send(std::span<const Piece> pieces,
                                                             Lease batch) {
  STOKER_TRY(state_->guard.check("copies to a device"));
  STOKER_TRY(failure());
  // In a list from the beginning: once a copy has begun, nothing else may need memory.
  SentList sent;
  Result<std::shared_ptr<const Copy>> copy = state_->no_memory;
  try {
    sent.emplace_back().batch = std::move(batch);
    pinned_->pin(sent.front().batch.bytes(), state_->device);
    sent.front().since = Clock::now();
    copy = state_->enqueue_all(pieces, sent.front());
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): `copy` says so
  }
  if (!copy.ok()) {
    state_->give_up(std::move(sent), copy.status());
    return copy;
  }
  sent.front().copy = *copy;
  {
    MutexLock lock(state_->mutex);
    state_->queue.splice(state_->queue.end(), sent);
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
