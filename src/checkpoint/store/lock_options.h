#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"

namespace stoker {

/// A machine, from one boot to the next.
struct Machine {
  std::string host;     ///< For messages: containers often share a host name.
  std::string boot_id;  ///< Identifies the machine: unique to each boot.

  friend bool operator==(const Machine&, const Machine&) = default;
};

/// Receives the reason for a wait that lasts longer than `after`.
struct WaitSink {
  /// Called on the waiting thread, which may be any thread.
  std::function<void(const std::string& text)> tell = {};
  nanoseconds after = std::chrono::seconds(5);
};

/// A store honors `timeout` and `ttl`, and the others where they apply to it.
struct LockOptions {
  nanoseconds timeout{0};  ///< How long to wait for another writer to finish.
  /// A writer on another host that has sent no heartbeat for this long is presumed dead. 0: this
  /// writer sends no heartbeats.
  nanoseconds ttl = std::chrono::seconds(60);
  std::string job = {};                         ///< Job name, shown to waiting processes.
  WaitSink on_wait = {};                        ///< Receives who holds the lock.
  std::string token = {};                       ///< Identifies this writer; generated if empty.
  std::optional<Machine> machine = {};          ///< For tests; default: this machine.
  std::function<Deadline()> now = {};           ///< For tests; default: the steady clock.
  std::function<void(nanoseconds)> pause = {};  ///< Sleeps; may throw, which ends the wait.
};

}  // namespace stoker
