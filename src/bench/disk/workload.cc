#include "bench/disk/workload.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "bench/noise.h"

namespace stoker {
namespace {

/// The longest delay before a stop request is noticed while the device does not respond.
constexpr nanoseconds kStopLatency = std::chrono::milliseconds(100);

Status interrupted() {
  return Status(Code::cancelled, "interrupted");
}

/// One run of a workload: the buffers, and the loop that keeps them in use.
class Stream {
 public:
  Stream(Engine& engine, File& file, const Workload& workload)
      : engine_(engine),
        file_(file),
        work_(workload),
        blocks_per_pass_(workload.range_bytes / workload.block_bytes),
        order_(workload.pattern, blocks_per_pass_, Workload::kSeed) {}

  ~Stream() {
    settle_in_flight();  // buffers are borrowed
    if (slot_.has_value()) static_cast<void>(engine_.unregister_file(*slot_));
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Does everything that takes time but must not be measured.
  Status prepare(BufferPool& pool) {
    const std::uint32_t depth = std::min(work_.depth, engine_.caps().depth_max);
    places_.resize(depth);
    idle_.reserve(depth);
    batch_.reserve(depth);
    completions_.resize(depth);
    for (std::uint32_t i = 0; i < depth; ++i) {
      Result<Lease> lease = pool.try_lease(work_.block_bytes);
      if (!lease.ok())
        return Status(Code::invalid_argument, "the buffer pool is too small for this workload");
      places_[i].memory = lease->bytes().first(work_.block_bytes);
      places_[i].lease = *std::move(lease);
      if (work_.op == Op::write) fill_with_noise(places_[i].memory, i);
      idle_.push_back(i);
    }
    // Optional: an engine without a file table uses the descriptor.
    fixed_fd_ = file_.direct_fd() >= 0 ? file_.direct_fd() : file_.buffered_fd();
    if (Result<int> slot = engine_.register_file(fixed_fd_); slot.ok()) slot_ = *slot;
    return {};
  }

  Status run(const std::stop_token& stop) {
    start_ = now_ = Clock::now();
    deadline_ = deadline_after(work_.time_max, now_);
    if (work_.preallocate) STOKER_TRY(file_.preallocate(work_.offset_bytes + work_.range_bytes));
    for (;;) {
      STOKER_TRY(aim());
      STOKER_TRY(submit());
      if (engine_.in_flight() == 0) break;
      STOKER_TRY(reap());
      if (stop.stop_requested()) return interrupted();
    }
    if (work_.op == Op::write) STOKER_TRY(file_.finish(work_.offset_bytes + bytes_));
    elapsed_ = Clock::now() - start_;
    return {};
  }

  Measurement measurement() const {
    return {.bytes = bytes_,
            .count = count_,
            .elapsed = elapsed_,
            .latency = latency_.snapshot(),
            .path = path_};
  }

 private:
  struct Place {
    Lease lease;
    std::span<std::byte> memory;
    ReadPlan plan;
    Deadline submitted_at;
  };

  bool may_issue() const {
    return now_ < deadline_ && (work_.repeat || issued_ < blocks_per_pass_);
  }

  /// Plans a request for every idle buffer.
  Status aim() {
    while (!idle_.empty() && may_issue()) {
      const std::uint32_t index = idle_.back();
      Place& place = places_[index];
      const std::uint64_t block = order_.next();
      const std::uint64_t offset = work_.offset_bytes + block * work_.block_bytes;
      if (work_.op == Op::write) {
        stamp_pages(place.memory, offset);
        STOKER_ASSIGN(place.plan.request,
                      file_.plan_write(offset, work_.block_bytes, place.memory));
        place.plan.size_bytes = work_.block_bytes;
        place.plan.path = file_.write_path();
      } else {
        STOKER_ASSIGN(place.plan, file_.plan_read(offset, work_.block_bytes, place.memory));
      }
      Request& request = place.plan.request;
      request.tag = index;
      if (slot_.has_value() && request.fd == fixed_fd_) request.file_slot = *slot_;
      idle_.pop_back();
      batch_.push_back(request);
      ++issued_;
    }
    return {};
  }

  Status submit() {
    if (batch_.empty()) return {};
    now_ = Clock::now();
    STOKER_ASSIGN(const std::size_t accepted, engine_.submit(batch_));
    for (const Request& request : std::span(batch_).first(accepted))
      places_[request.tag].submitted_at = now_;
    batch_.erase(batch_.begin(), batch_.begin() + static_cast<std::ptrdiff_t>(accepted));
    return {};
  }

  Status reap() {
    STOKER_ASSIGN(const std::size_t count, engine_.reap(completions_, 1, kStopLatency));
    now_ = Clock::now();
    for (const Completion& completion : std::span(completions_).first(count)) {
      Place& place = places_[completion.tag];
      STOKER_TRY(accept(place.plan, completion.result));
      latency_.record(now_ - place.submitted_at);
      idle_.push_back(static_cast<std::uint32_t>(completion.tag));
    }
    return {};
  }

  Status accept(const ReadPlan& plan, std::int64_t result) {
    if (work_.op == Op::write) {
      if (result < 0) return Status::from_errno(static_cast<int>(-result), "write", "");
    } else {
      if (Result<std::span<std::byte>> bytes = plan.slice(result); !bytes.ok())
        return bytes.status();
      file_.settle(plan);
    }
    bytes_ += plan.size_bytes;
    ++count_;
    path_ = plan.path;
    return {};
  }

  void settle_in_flight() {
    while (engine_.in_flight() > 0) {
      if (!engine_.reap(completions_, 1, kForever).ok()) return;
    }
  }

  Engine& engine_;
  File& file_;
  const Workload work_;
  const std::uint64_t blocks_per_pass_;
  BlockOrder order_;
  std::vector<Place> places_;
  std::vector<std::uint32_t> idle_;
  std::vector<Request> batch_;
  std::vector<Completion> completions_;
  int fixed_fd_ = -1;
  std::optional<int> slot_;

  Deadline start_;
  Deadline now_;  // read once per system call of the loop
  Deadline deadline_;
  std::uint64_t issued_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t count_ = 0;
  nanoseconds elapsed_{0};
  IoPath path_ = IoPath::buffered;
  Histogram latency_;
};

Status check(const Workload& workload) {
  if (workload.block_bytes == 0 || workload.depth == 0 ||
      workload.range_bytes < workload.block_bytes)
    return Status(Code::invalid_argument, "the range is shorter than one block");
  if (workload.op == Op::write && workload.repeat)
    return Status(Code::invalid_argument, "writes go through their range once");
  return {};
}

}  // namespace

Result<Measurement> run_workload(Engine& engine, File& file, BufferPool& pool,
                                 const Workload& workload, const std::stop_token& stop) {
  STOKER_TRY(check(workload));
  Stream stream(engine, file, workload);
  STOKER_TRY(stream.prepare(pool));
  STOKER_TRY(stream.run(stop));
  return stream.measurement();
}

Result<Measurement> run_mapped_workload(const MappedFile& file, BufferPool& pool,
                                        const Workload& workload, const std::stop_token& stop) {
  STOKER_TRY(check(workload));
  const std::span<const std::byte> bytes = file.bytes();
  if (workload.op != Op::read || workload.offset_bytes > bytes.size() ||
      workload.range_bytes > bytes.size() - workload.offset_bytes)
    return Status(Code::invalid_argument, "a mapping can only be read, and only inside its file");
  STOKER_ASSIGN(const Lease lease, pool.try_lease(workload.block_bytes));
  BlockOrder order(workload.pattern, workload.range_bytes / workload.block_bytes, Workload::kSeed);
  const std::uint64_t count_max =
      workload.repeat ? ~std::uint64_t{0} : workload.range_bytes / workload.block_bytes;

  Measurement found;
  Histogram latency;
  const Deadline start = Clock::now();
  const Deadline deadline = deadline_after(workload.time_max, start);
  Deadline now = start;
  while (found.count < count_max && now < deadline) {
    if (stop.stop_requested()) return interrupted();
    const std::uint64_t offset = workload.offset_bytes + order.next() * workload.block_bytes;
    std::copy_n(bytes.data() + offset, workload.block_bytes, lease.bytes().data());
    const Deadline done = Clock::now();
    latency.record(done - now);
    now = done;
    ++found.count;
  }
  found.bytes = found.count * workload.block_bytes;
  found.elapsed = now - start;
  found.latency = latency.snapshot();
  return found;
}

}  // namespace stoker
