#include "io/engine/engine.h"

#include <liburing.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "base/unique_fd.h"
#include "io/engine/ring_memory.h"

namespace stoker {
namespace {

struct KindName {
  EngineKind kind;
  std::string_view name;
};
constexpr std::array kKindNames = {
    KindName{EngineKind::automatic, "auto"}, KindName{EngineKind::uring, "uring"},
    KindName{EngineKind::threads, "threads"}, KindName{EngineKind::sync, "sync"}};

constexpr nanoseconds kProbePatience = std::chrono::seconds(5);

Status try_nop() {
  io_uring ring{};
  int result = ::io_uring_queue_init(2, &ring, 0);
  if (result < 0) return Status::from_errno(-result, "io_uring_setup", "");
  internal::order_rings();
  ::io_uring_prep_nop(::io_uring_get_sqe(&ring));
  __kernel_timespec patience{.tv_sec = 5, .tv_nsec = 0};
  io_uring_cqe* cqe = nullptr;
  result = ::io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &patience, nullptr);
  if (result >= 0 && cqe != nullptr) result = cqe->res;
  internal::order_rings();
  ::io_uring_queue_exit(&ring);
  return result < 0 ? Status::from_errno(-result, "io_uring NOP", "") : Status();
}

Status try_read() {
  const UniqueFd file(::memfd_create("stoker-probe", MFD_CLOEXEC));
  constexpr std::string_view kText = "stoker";
  if (!file || ::write(file.get(), kText.data(), kText.size()) != std::ssize(kText))
    return Status::from_errno(errno, "memfd_create", "");
  STOKER_ASSIGN(const std::unique_ptr<Engine> engine, make_uring_engine({.depth = 2}));
  std::array<std::byte, kText.size()> bytes{};
  STOKER_ASSIGN(const std::size_t count,
                perform(*engine, {.fd = file.get(), .buffer = bytes}, kProbePatience));
  const bool same = std::string_view(reinterpret_cast<const char*>(bytes.data()), count) == kText;
  return same ? Status() : Status(Code::io_error, "io_uring read wrong bytes");
}

/// Returns why io_uring_setup failed with EPERM: the sysctl, or else a container's seccomp profile.
std::string who_forbids() {
  int level = 0;
  std::ifstream("/proc/sys/kernel/io_uring_disabled") >> level;
  if (level != 0) return "sysctl kernel.io_uring_disabled is " + std::to_string(level);
  return "a seccomp profile (the default of Docker and containerd) forbids it";
}

}  // namespace

std::string_view engine_kind_name(EngineKind kind) noexcept {
  for (const KindName& row : kKindNames)
    if (row.kind == kind) return row.name;
  return "unknown";
}

Result<EngineKind> parse_engine_kind(std::string_view name) {
  for (const KindName& row : kKindNames)
    if (row.name == name) return row.kind;
  return Status(Code::invalid_argument,
                "unknown engine \"" + std::string(name) + "\": use auto, uring, threads or sync");
}

EngineChoice probe_engine() {
  Status status = try_nop();
  if (status.ok()) status = try_read();
  if (status.ok())
    return {.kind = EngineKind::uring, .reason = "io_uring: set-up, NOP and a read succeeded"};
  std::string reason = "io_uring does not work here (" + std::string(status.message()) + ")";
  if (status.os_error() == EPERM || status.os_error() == EACCES) reason += ": " + who_forbids();
  if (status.os_error() == ENOSYS)
    reason += ": the kernel is built without it or a sandbox hides it";
  return {.kind = EngineKind::threads, .reason = std::move(reason)};
}

Result<std::unique_ptr<Engine>> make_engine(EngineKind kind, const EngineOptions& options) {
  switch (kind) {
    case EngineKind::uring: return make_uring_engine(options);
    case EngineKind::threads: return make_threads_engine(options);
    case EngineKind::sync: return make_sync_engine(options);
    case EngineKind::automatic: break;
  }
  // A ring can be refused even after a successful probe (RLIMIT_NOFILE, memory); use threads then.
  if (probe_engine().kind == EngineKind::uring) {
    if (auto engine = make_uring_engine(options); engine.ok()) return engine;
  }
  return make_threads_engine(options);
}

Result<std::size_t> perform(Engine& engine, const Request& request, nanoseconds timeout) {
  STOKER_ASSIGN(const std::size_t accepted, engine.submit({&request, 1}));
  if (accepted == 0) return Status(Code::unavailable, "perform: the engine is busy");
  Completion completion;
  STOKER_ASSIGN(const std::size_t count, engine.reap({&completion, 1}, 1, timeout));
  if (count == 0) return Status(Code::unavailable, "transfer did not end in time", ETIMEDOUT);
  if (completion.result < 0)
    return Status::from_errno(static_cast<int>(-completion.result), "transfer", "");
  return static_cast<std::size_t>(completion.result);
}

}  // namespace stoker
