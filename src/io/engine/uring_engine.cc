#include <liburing.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "base/fork_guard.h"
#include "io/engine/kernel_api.h"
#include "io/engine/ring_memory.h"
#include "io/engine/transfer.h"

namespace stoker {
namespace {

constexpr std::uint64_t kNobody = ~std::uint64_t{0};  // user_data of requests without a slot
constexpr std::size_t kRegisteredPieceBytes = std::size_t{1} << 30;  // the kernel's limit
constexpr unsigned kFileSlots = 64;
/// Requests per entry into the kernel. Requests that are submitted together complete together: with
/// large batches half of a queue of 32 is idle, which costs a quarter of its rate.
constexpr std::size_t kSubmittedAtOnce = 2;
/// Longest single wait in the kernel, and so the longest delay that a lost wake-up can cause.
constexpr nanoseconds kWaitSlice = std::chrono::seconds(1);

struct Slot {
  Transfer transfer;
  bool in_use = false;
  bool cancelled = false;
};

Status uring_error(int result, std::string_view op) {
  return Status::from_errno(-result, op, "");
}

/// Sets up a ring with every useful flag that the kernel supports.
int init_ring(io_uring& ring, const EngineOptions& options) {
  constexpr std::array kNewestFirst = {IORING_SETUP_DEFER_TASKRUN, IORING_SETUP_SINGLE_ISSUER,
                                       IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
                                       IORING_SETUP_SUBMIT_ALL};
  unsigned flags = IORING_SETUP_CLAMP;
  if (options.device_polling) flags |= IORING_SETUP_IOPOLL;
  if (options.kernel_polling) {
    flags |= IORING_SETUP_SQPOLL | IORING_SETUP_SUBMIT_ALL;  // task-run flags exclude SQPOLL
  } else {
    for (const unsigned flag : kNewestFirst) flags |= flag;
  }
  for (auto newest = kNewestFirst.begin();; ++newest) {
    const int result = ::io_uring_queue_init(options.depth, &ring, flags);
    if (result != -EINVAL || newest == kNewestFirst.end()) return result;
    flags &= ~*newest;
  }
}

/// io_uring through liburing: one ring, one thread, no locks.
class UringEngine final : public Engine {
 public:
  explicit UringEngine(const EngineOptions& options)
      : caps_{.kind = EngineKind::uring, .depth_max = options.depth},
        tamper_(options.tamper),
        spin_(options.spin),
        slots_(options.depth) {
    for (std::uint32_t i = options.depth; i-- > 0;) free_.push_back(i);
  }

  Status init(const EngineOptions& options) {
    if (const int result = init_ring(ring_, options); result < 0)
      return uring_error(result, "io_uring_setup");
    ready_ = true;
    internal::order_rings();
    if ((ring_.features & IORING_FEAT_EXT_ARG) == 0)
      return Status(Code::unsupported, "io_uring: this kernel cannot wait with a deadline (5.11)");
    static_cast<void>(::io_uring_ring_dontfork(&ring_));  // optional: ForkGuard checks too
    caps_.depth_max = std::min(caps_.depth_max, ring_.sq.ring_entries);
    free_.clear();
    for (std::uint32_t i = caps_.depth_max; i-- > 0;) free_.push_back(i);
    caps_.registered_files = ::io_uring_register_files_sparse(&ring_, kFileSlots) == 0;
    for (int i = kFileSlots; caps_.registered_files && i-- > 0;) free_files_.push_back(i);
    return {};
  }

  ~UringEngine() override {
    if (!ready_ || !fork_guard_.is_here()) return;
    while (in_flight() > 0 && drain(kForever).code() == Code::unavailable) {
    }
    internal::order_rings();
    ::io_uring_queue_exit(&ring_);
  }

  const EngineCaps& caps() const noexcept override { return caps_; }
  std::size_t in_flight() const noexcept override { return caps_.depth_max - free_.size(); }

  Result<std::size_t> submit(std::span<const Request> requests) override {
    STOKER_TRY(fork_guard_.check("this engine"));
    if (draining_) return Status(Code::invalid_argument, "submit: the engine was drained");
    const std::size_t accepted = std::min(requests.size(), free_.size());
    for (std::size_t i = 0; i < accepted; ++i) {
      const std::uint32_t index = free_.back();
      free_.pop_back();
      slots_[index] = {.transfer = Transfer(requests[i]), .in_use = true};
      queue(index);
      // With deferred task work, completions arrive only when this thread enters the kernel:
      // fetching them with the submission saves reap() a call. reap() submits what remains.
      if ((i + 1) % kSubmittedAtOnce == 0 || i + 1 == accepted)
        static_cast<void>(::io_uring_submit_and_get_events(&ring_));
    }
    return accepted;
  }

  Result<std::size_t> reap(std::span<Completion> out, std::size_t count_min,
                           nanoseconds timeout) override {
    STOKER_TRY(fork_guard_.check("this engine"));
    const Deadline deadline = deadline_after(timeout);
    std::size_t count = 0;
    for (;;) {
      count += harvest(out.subspan(count));
      const std::size_t wanted = std::min({count_min, out.size(), count + in_flight()});
      const nanoseconds left = time_left(deadline);
      if (count >= wanted || left.count() == 0) break;
      if (spin(std::min(left, spin_))) continue;
      STOKER_TRY(wait(wanted - count, std::min(left, kWaitSlice)));
    }
    if (::io_uring_sq_ready(&ring_) > 0) static_cast<void>(::io_uring_submit(&ring_));
    return count;
  }

  Status cancel(std::uint64_t tag) override {
    STOKER_TRY(fork_guard_.check("this engine"));
    for (std::uint32_t index = 0; index < slots_.size(); ++index) {
      Slot& slot = slots_[index];
      if (!slot.in_use || slot.transfer.request().tag != tag) continue;
      slot.cancelled = true;  // a transfer that would continue ends instead
      io_uring_sqe* sqe = next_sqe();
      ::io_uring_prep_cancel64(sqe, index, 0);
      ::io_uring_sqe_set_data64(sqe, kNobody);
    }
    static_cast<void>(::io_uring_submit(&ring_));
    return {};
  }

  Result<int> register_file(int fd) override {
    STOKER_TRY(fork_guard_.check("this engine"));
    if (!caps_.registered_files)
      return Status(Code::unsupported,
                    "register_file: this kernel has no sparse file table (5.19)");
    if (free_files_.empty())
      return Status(Code::unavailable, "register_file: all slots are taken; unregister one");
    const int slot = free_files_.back();
    const int result =
        ::io_uring_register_files_update(&ring_, static_cast<unsigned>(slot), &fd, 1);
    if (result < 0) return uring_error(result, "io_uring_register_files_update");
    free_files_.pop_back();
    return slot;
  }

  Status unregister_file(int slot) override {
    STOKER_TRY(fork_guard_.check("this engine"));
    const bool known = slot >= 0 && slot < static_cast<int>(kFileSlots) &&
                       std::find(free_files_.begin(), free_files_.end(), slot) == free_files_.end();
    if (!caps_.registered_files || !known)
      return Status(Code::invalid_argument, "unregister_file: no such slot");
    int nothing = -1;
    const int result =
        ::io_uring_register_files_update(&ring_, static_cast<unsigned>(slot), &nothing, 1);
    if (result < 0) return uring_error(result, "io_uring_register_files_update");
    free_files_.push_back(slot);
    return {};
  }

  Status register_buffers(std::span<std::byte> memory) override {
    STOKER_TRY(fork_guard_.check("this engine"));
    if (caps_.registered_buffers || memory.empty())
      return Status(Code::invalid_argument,
                    "register_buffers: call it once, and not with empty memory");
    std::vector<iovec> pieces;
    for (std::size_t at = 0; at < memory.size(); at += kRegisteredPieceBytes)
      pieces.push_back({memory.data() + at, std::min(kRegisteredPieceBytes, memory.size() - at)});
    const int result =
        ::io_uring_register_buffers(&ring_, pieces.data(), static_cast<unsigned>(pieces.size()));
    if (result == -ENOMEM)
      return Status(Code::unavailable,
                    "register_buffers: the locked-memory limit is too small (raise RLIMIT_MEMLOCK)",
                    ENOMEM);
    if (result < 0) return uring_error(result, "io_uring_register_buffers");
    registered_ = memory;
    caps_.registered_buffers = true;
    return {};
  }

  Status drain(nanoseconds timeout) override {
    STOKER_TRY(fork_guard_.check("this engine"));
    draining_ = true;
    const Deadline deadline = deadline_after(timeout);
    std::array<Completion, 64> dropped;
    while (in_flight() > 0) {
      STOKER_ASSIGN(const std::size_t count, reap(dropped, 1, time_left(deadline)));
      if (count == 0)
        return Status(Code::unavailable,
                      std::to_string(in_flight()) + " transfers did not end in time");
    }
    return {};
  }

 private:
  /// Returns a free submission entry. The queue has one per slot, and each io_uring_submit empties
  /// it, so at most one such call is needed.
  io_uring_sqe* next_sqe() {
    for (;;) {
      if (io_uring_sqe* sqe = ::io_uring_get_sqe(&ring_)) return sqe;
      static_cast<void>(::io_uring_submit(&ring_));
    }
  }

  /// Returns the registered piece that contains all of `buffer`, or -1.
  int registered_piece(std::span<const std::byte> buffer) const {
    if (buffer.data() < registered_.data()) return -1;
    const auto at = static_cast<std::size_t>(buffer.data() - registered_.data());
    if (registered_.empty() || at + buffer.size() > registered_.size()) return -1;
    const std::size_t piece = at / kRegisteredPieceBytes;
    const std::size_t last =
        (at + std::max<std::size_t>(buffer.size(), 1) - 1) / kRegisteredPieceBytes;
    return piece == last ? static_cast<int>(piece) : -1;
  }

  void queue(std::uint32_t index) {
    Transfer& transfer = slots_[index].transfer;
    const Request& request = transfer.request();
    io_uring_sqe* sqe = next_sqe();
    const bool use_slot = caps_.registered_files && request.file_slot != Request::kNoSlot;
    const int fd = use_slot ? request.file_slot : request.fd;
    switch (request.op) {
      case Op::read:
      case Op::write: prepare_transfer(sqe, transfer, fd); break;
      case Op::fsync: ::io_uring_prep_fsync(sqe, fd, 0); break;
      case Op::fdatasync: ::io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC); break;
    }
    if (use_slot) sqe->flags |= IOSQE_FIXED_FILE;
    ::io_uring_sqe_set_data64(sqe, index);
  }

  void prepare_transfer(io_uring_sqe* sqe, Transfer& transfer, int fd) const {
    const Request& request = transfer.request();
    const bool is_read = request.op == Op::read;
    const std::uint64_t offset = transfer.offset_bytes();
    if (!request.pieces.empty()) {
      const std::span<const iovec> pieces = transfer.pieces();
      const auto count = static_cast<unsigned>(pieces.size());
      if (is_read)
        ::io_uring_prep_readv(sqe, fd, pieces.data(), count, offset);
      else
        ::io_uring_prep_writev(sqe, fd, pieces.data(), count, offset);
    } else {
      const std::span<std::byte> buffer = transfer.buffer();
      const auto size = static_cast<unsigned>(buffer.size());
      const int piece = registered_piece(buffer);
      if (piece >= 0 && is_read)
        ::io_uring_prep_read_fixed(sqe, fd, buffer.data(), size, offset, piece);
      else if (piece >= 0)
        ::io_uring_prep_write_fixed(sqe, fd, buffer.data(), size, offset, piece);
      else if (is_read)
        ::io_uring_prep_read(sqe, fd, buffer.data(), size, offset);
      else
        ::io_uring_prep_write(sqe, fd, buffer.data(), size, offset);
    }
    if (request.dont_cache) sqe->rw_flags = kRwfDontCache;
  }

  /// Collects the completions that are ready, without waiting; transfers that must continue are
  /// queued again.
  std::size_t harvest(std::span<Completion> out) {
    std::array<io_uring_cqe*, 64> ready{};
    std::size_t count = 0;
    for (;;) {
      const std::size_t room = std::min(out.size() - count, ready.size());
      if (room == 0) return count;
      const unsigned n =
          ::io_uring_peek_batch_cqe(&ring_, ready.data(), static_cast<unsigned>(room));
      for (unsigned i = 0; i < n; ++i) count += settle(*ready[i], out[count]) ? 1 : 0;
      ::io_uring_cq_advance(&ring_, n);
      if (n < room) return count;
    }
  }

  /// Returns true if `cqe` ended a request; its completion is then in `out`.
  bool settle(const io_uring_cqe& cqe, Completion& out) {
    if (cqe.user_data == kNobody) return false;
    const auto index = static_cast<std::uint32_t>(cqe.user_data);
    Slot& slot = slots_[index];
    std::int64_t raw = cqe.res;
    if (tamper_) raw = tamper_(slot.transfer.request(), raw);
    if (!slot.transfer.advance(raw)) {
      if (!slot.cancelled) {
        queue(index);
        return false;
      }
      slot.transfer.advance(-ECANCELED);
    }
    out = slot.transfer.completion();
    slot.in_use = false;
    free_.push_back(index);
    return true;
  }

  /// Polls for a completion until `time_max` has passed. Returns true if there is one.
  bool spin(nanoseconds time_max) {
    if (time_max.count() == 0 || ::io_uring_sq_ready(&ring_) > 0) return false;
    const Deadline end = deadline_after(time_max);
    io_uring_cqe* first = nullptr;
    do {
      if (::io_uring_peek_cqe(&ring_, &first) == 0) return true;
    } while (Clock::now() < end);
    return false;
  }

  /// Submits the queued requests and waits for `count` completions or until `timeout` has passed.
  /// Interruptions and a busy kernel are not errors: the caller tries again until its deadline.
  Status wait(std::size_t count, nanoseconds timeout) {
    __kernel_timespec limit{.tv_sec = timeout.count() / 1'000'000'000,
                            .tv_nsec = timeout.count() % 1'000'000'000};
    io_uring_cqe* first = nullptr;
    const int result = ::io_uring_submit_and_wait_timeout(
        &ring_, &first, static_cast<unsigned>(count), &limit, nullptr);
    if (result >= 0 || result == -ETIME || result == -EINTR || result == -EAGAIN ||
        result == -EBUSY)
      return {};
    if (result == -EEXIST)  // IORING_SETUP_SINGLE_ISSUER, called from another thread
      return Status(Code::invalid_argument,
                    "an engine can be used only by the thread that made it");
    return uring_error(result, "io_uring_enter");
  }

  EngineCaps caps_;
  const std::function<std::int64_t(const Request&, std::int64_t)> tamper_;
  const nanoseconds spin_;
  const ForkGuard fork_guard_;
  io_uring ring_{};
  bool ready_ = false;
  bool draining_ = false;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<int> free_files_;
  std::span<std::byte> registered_;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_uring_engine(const EngineOptions& options) {
  if (options.depth == 0)
    return Status(Code::invalid_argument, "an engine needs a depth of at least 1");
  auto engine = std::make_unique<UringEngine>(options);
  STOKER_TRY(engine->init(options));
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace stoker
