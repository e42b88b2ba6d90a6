#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"

namespace stoker {

/// A machine, from one start to the next.
struct Machine {
  std::string host;     ///< For people: containers often share a name.
  std::string boot_id;  ///< Decides: no two starts have the same.

  friend bool operator==(const Machine&, const Machine&) = default;
};

/// Hears why somebody waits, once that has taken some seconds.
struct WaitSink {
  /// Called on the thread that waits, which may be any.
  std::function<void(const std::string& text)> tell = {};
  nanoseconds after = std::chrono::seconds(5);
};

struct LockOptions {
  nanoseconds timeout{0};  ///< How long to wait for another writer to end.
  /// A writer on another host that has given no sign of life for so long is taken for dead. 0: no
  /// signs of life are given.
  nanoseconds ttl = std::chrono::seconds(60);
  std::string job = {};    ///< For the messages of those who wait.
  WaitSink on_wait = {};   ///< Hears who holds the lock, after some seconds of waiting.
  std::string token = {};  ///< Names this writer; one is made if empty.
  std::optional<Machine> machine = {};          ///< For tests; this one if empty.
  std::function<Deadline()> now = {};           ///< For tests; the steady clock.
  std::function<void(nanoseconds)> pause = {};  ///< Sleeps; may throw, which ends the wait.
};

}  // namespace stoker
