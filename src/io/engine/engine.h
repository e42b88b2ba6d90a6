#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "io/engine/range_source.h"
#include "stoker/status.h"

namespace stoker {

enum class EngineKind : std::uint8_t { automatic, uring, threads, sync };

std::string_view engine_kind_name(EngineKind kind) noexcept;
/// "auto", "uring", "threads" or "sync"; `invalid_argument` lists them otherwise.
Result<EngineKind> parse_engine_kind(std::string_view name);

/// What this engine can do here, found by probing and not by version number.
struct EngineCaps {
  EngineKind kind = EngineKind::sync;
  std::uint32_t depth_max = 1;      ///< Requests in flight at most.
  bool registered_files = false;    ///< register_file() works.
  bool registered_buffers = false;  ///< register_buffers() was called and took effect.
};

struct EngineOptions {
  std::uint32_t depth = 64;
  std::uint32_t thread_count =
      0;                        ///< `threads` only; 0 takes one per request in flight, at most 16.
  bool kernel_polling = false;  ///< `uring` only: SQPOLL, a kernel thread that burns a core.
  bool device_polling = false;  ///< `uring` only: IOPOLL; O_DIRECT alone, no fsync.
  /// `uring` only: how long reap() looks again before it sleeps. Waking up costs a virtual machine
  /// more than a 4 KiB read does; whoever has a core to spare gains a tenth at moderate depths.
  nanoseconds spin{0};
  /// For fault tests, which cannot reach io_uring from outside: sees each raw result (bytes or
  /// negative errno) before the engine does, and returns what the engine shall see. May be called
  /// from any of the engine's threads.
  std::function<std::int64_t(const Request&, std::int64_t raw)> tamper = {};
};

/// Moves bytes between local files and memory.
///
/// Thread safety: none. An engine is made, used and destroyed by one thread; scale by making more
/// engines. In a forked child every method answers `unsupported` and the destructor does nothing.
/// Conformance: an implementation is done when it passes tests/conformance/engine_suite.h.
class Engine : public RangeSource {
 public:
  /// Who cannot wait in the destructor calls drain() with a time-out first and keeps the buffers if
  /// it fails.
  virtual const EngineCaps& caps() const noexcept = 0;
  std::uint32_t depth_max() const noexcept final { return caps().depth_max; }

  /// Spares the kernel a lookup per request. `unsupported` where there is nothing to gain; the
  /// caller goes on without. The slot keeps the file open until unregister_file().
  virtual Result<int> register_file(int fd) = 0;
  virtual Status unregister_file(int slot) = 0;

  /// Pins `memory` for this engine; transfers inside it then skip the per-request pinning. At most
  /// once per engine. Fails with `unavailable` where the locked-memory limit is too small.
  /// The caller goes on unregistered. `memory` must outlive the engine.
  virtual Status register_buffers(std::span<std::byte> memory) = 0;

  /// Takes no more requests and waits for those in flight; their completions are dropped.
  /// `unavailable` if some are still with the kernel when `timeout` has passed.
  virtual Status drain(nanoseconds timeout) = 0;
};

Result<std::unique_ptr<Engine>> make_uring_engine(const EngineOptions& options);
Result<std::unique_ptr<Engine>> make_threads_engine(const EngineOptions& options);
Result<std::unique_ptr<Engine>> make_sync_engine(const EngineOptions& options);

/// The engine of that kind; for `automatic` the one that probe_engine() chooses.
Result<std::unique_ptr<Engine>> make_engine(EngineKind kind, const EngineOptions& options);

/// Submits one request and waits for it: for code with nothing to overlap. Nothing else may be in
/// flight. Returns the bytes moved.
Result<std::size_t> perform(Engine& engine, const Request& request, nanoseconds timeout = kForever);

/// Which engine works here, and why not a faster one.
struct EngineChoice {
  EngineKind kind = EngineKind::sync;
  std::string reason;  ///< One line for people: "io_uring: set-up, NOP and read succeeded".
};

/// Chooses by trying: io_uring set-up, a NOP, a read of a scratch file; `threads` where a container
/// or a sysctl forbids io_uring. Takes about a millisecond.
EngineChoice probe_engine();

}  // namespace stoker
