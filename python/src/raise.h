#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "gil.h"
#include "stoker/status.h"

namespace stoker::python {

/// Runs `work(stop_token)` in its own thread, without the GIL, and lets Ctrl-C stop it: for work
/// that may take minutes. Requests a stop and waits for the thread before raising
/// KeyboardInterrupt.
template <typename Work>
auto interruptible(Work&& work) {
  constexpr auto kSignalPoll = std::chrono::milliseconds(50);
  std::stop_source stop;
  auto done =
      std::async(std::launch::async, [&work, token = stop.get_token()] { return work(token); });
  while (without_gil([&] { return done.wait_for(kSignalPoll); }) != std::future_status::ready) {
    if (PyErr_CheckSignals() == 0) continue;
    nanobind::python_error interrupt;
    stop.request_stop();
    without_gil([&] { done.wait(); });
    throw nanobind::python_error(std::move(interrupt));
  }
  return done.get();
}

/// Where damage was found.
struct CorruptPlace {
  std::string path;
  std::optional<std::uint64_t> offset_bytes = 0;
  std::string key;
};

/// Creates stoker.CorruptError, a ValueError, and adds it to `module`. Call once, before anything
/// can fail.
void bind_errors(nanobind::module_& module);

/// Raises the Python exception for `status`, if it is not OK: stoker.CorruptError for `corrupt`,
/// ValueError for an `invalid_argument` that no system call reported, and OSError otherwise, with
/// the errno of the failed call or the closest one; Python then selects the subclass. `place`, if
/// given, sets the attributes of a CorruptError. The GIL must be held.
void raise_if_failed(const Status& status, const CorruptPlace* place = nullptr);

/// Parses a message of the dataset about a damaged shard: the file, then "offset N", "byte N",
/// "bytes N to M", or "sample N at byte N", and optionally 'key "K"'. No offset if the message has
/// none; nothing if it does not begin with a file that exists.
std::optional<CorruptPlace> place_in(std::string_view message);

/// Parses a message about damage that names a file below `directory`: "PATH, offset N", or a path
/// alone. Nothing if it names none.
std::optional<CorruptPlace> place_under(std::string_view directory, std::string_view message);

/// Returns the value of `result`, or raises the exception for its Status. The GIL must be held.
template <typename T>
T value_or_raise(Result<T> result) {
  raise_if_failed(result.status());
  return *std::move(result);
}

}  // namespace stoker::python
