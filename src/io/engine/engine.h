#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "stoker/io.h"
#include "stoker/range_source.h"
#include "stoker/status.h"

namespace stoker {

/// What this engine supports on this machine, found by probing and not by version number.
struct EngineCaps {
  EngineKind kind = EngineKind::sync;
  std::uint32_t depth_max = 1;      ///< Maximum number of requests in flight.
  bool registered_files = false;    ///< register_file() works.
  bool registered_buffers = false;  ///< register_buffers() was called and took effect.
};

struct EngineOptions {
  std::uint32_t depth = 64;
  std::uint32_t thread_count =
      0;                        ///< `threads` only; 0 means one per request in flight, at most 16.
  bool kernel_polling = false;  ///< `uring` only: SQPOLL, a kernel thread that uses a core.
  bool device_polling = false;  ///< `uring` only: IOPOLL; needs O_DIRECT, no fsync.
  /// `uring` only: how long reap() polls before it sleeps. On a virtual machine a wake-up costs
  /// more than a 4 KiB read; polling uses a core and gains a tenth at moderate depths.
  nanoseconds spin{0};
  /// For fault tests, which cannot inject faults into io_uring from outside: receives each raw
  /// result (bytes or negative errno) and returns the result that the engine is to see. May be
  /// called from any of the engine's threads.
  std::function<std::int64_t(const Request&, std::int64_t raw)> tamper = {};
};

/// Moves bytes between local files and memory. The destructor waits for the requests in flight. A
/// caller that cannot wait there calls drain() with a timeout first and, if that fails, keeps the
/// engine and its buffers.
///
/// Thread safety: none. An engine is made, used and destroyed by one thread; to use more threads,
/// make more engines. In a forked child every method that returns a Status or Result returns
/// `unsupported`, and the destructor does nothing.
/// Conformance: an implementation must pass tests/conformance/engine_suite.h.
class Engine : public RangeSource {
 public:
  virtual const EngineCaps& caps() const noexcept = 0;
  std::uint32_t depth_max() const noexcept final { return caps().depth_max; }

  /// Registers a file and returns its slot, for Request::file_slot; this saves the kernel a lookup
  /// per request. The slot keeps the file open until unregister_file(). `unsupported` if this
  /// engine has no file table, `unavailable` if all slots are taken; the caller then continues
  /// without.
  virtual Result<int> register_file(int fd) = 0;
  virtual Status unregister_file(int slot) = 0;

  /// Pins `memory` for this engine, so that transfers inside it need no pinning per request. At
  /// most once per engine. `memory` must outlive the engine. `unsupported` if this engine does not
  /// pin, `unavailable` if the locked-memory limit is too small; the caller then continues
  /// unregistered.
  virtual Status register_buffers(std::span<std::byte> memory) = 0;

  /// Stops accepting requests, waits for those in flight and drops their completions. `unavailable`
  /// if some are still in flight when `timeout` has passed.
  virtual Status drain(nanoseconds timeout) = 0;
};

Result<std::unique_ptr<Engine>> make_uring_engine(const EngineOptions& options);
Result<std::unique_ptr<Engine>> make_threads_engine(const EngineOptions& options);
Result<std::unique_ptr<Engine>> make_sync_engine(const EngineOptions& options);

/// Makes an engine of that kind. `automatic` makes the one that probe_engine() chooses, or a
/// `threads` engine if io_uring then refuses a ring.
Result<std::unique_ptr<Engine>> make_engine(EngineKind kind, const EngineOptions& options);

/// Submits one request, waits for it and returns the bytes moved. For code with nothing to overlap:
/// nothing else may be in flight.
Result<std::size_t> perform(Engine& engine, const Request& request, nanoseconds timeout = kForever);

/// The engine that works here, and the reason.
struct EngineChoice {
  EngineKind kind = EngineKind::sync;
  std::string reason;  ///< One line, such as "io_uring: set-up, NOP and a read succeeded".
};

/// Chooses an engine by trying io_uring set-up, a NOP and a read from a memfd. Returns `threads` if
/// one of them fails, for example because a container or a sysctl forbids io_uring. Takes about a
/// millisecond.
EngineChoice probe_engine();

}  // namespace stoker
