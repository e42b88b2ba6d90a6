/// \file
/// A save in the background: what it is asked for, and how it goes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "stoker/api.h"
#include "stoker/status.h"

namespace stoker {

/// What save() does when as many saves as allowed are in flight.
enum class LatePolicy : std::uint8_t {
  block,    ///< Wait for one to end.
  skip,     ///< Do not save.
  replace,  ///< Drop the save that waits for the writer, if there is one; otherwise wait.
};

/// Keeps the best checkpoints by a value from their notes, or else by the reference value of that
/// name that was saved with them. Without other rules, checkpoints without the value stay too.
struct KeepBest {
  enum class Order : std::uint8_t { min, max };
  std::string metric;
  Order order = Order::min;
  std::uint64_t count = 1;
};

enum class SaveStage : std::uint8_t { idle, writing, committing };

struct SaveProgress {
  SaveStage stage = SaveStage::idle;
  std::uint64_t step = 0;  ///< The save being written; the byte counts refer to it.
  std::uint64_t size_bytes = 0;
  std::uint64_t staged_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint32_t in_flight = 0;
};

/// How a save ended.
enum class SaveOutcome : std::uint8_t {
  committed,  ///< The checkpoint is durable.
  skipped,    ///< The writer was late, and the policy is LatePolicy::skip.
  replaced,   ///< A later save replaced it before it was written.
  failed,     ///< The checkpoint does not exist.
  unknown,    ///< The checkpoint may exist: the result of the commit, or rank 0's answer, was lost.
};

STOKER_API std::string_view outcome_name(SaveOutcome outcome) noexcept;

class PendingState;

/// A save in progress or finished. Copies refer to the same save. It may outlive its checkpointer.
///
/// Thread safety: every method may be called from any thread.
class STOKER_API PendingSave {
 public:
  explicit PendingSave(std::shared_ptr<const PendingState> state);

  std::uint64_t step() const noexcept;
  /// True once the caller's tensors have been copied and may change.
  bool is_staged() const;
  /// True once neither the caller's tensors nor memory lent for a snapshot are read any more. Later
  /// than is_staged() if a snapshot was taken, and later than is_done() if the save has failed
  /// because the device does not answer: memory on a device must not be freed before.
  bool is_released() const;
  bool is_done() const;
  /// True once the checkpoint survives a power cut.
  bool is_durable() const;
  std::optional<SaveOutcome> outcome() const;
  /// Generation of the committed checkpoint; 0 before the commit.
  std::uint64_t generation() const;
  /// Line of the committed checkpoint: with its generation it is unique.
  std::string line() const;

  /// Waits for the save and returns its status; may be called repeatedly. `unavailable` if
  /// `timeout` passes first; `unsupported` in a forked child, where no writer runs.
  Status wait(std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max()) const;
  /// Marks the error as reported, so that the checkpointer does not return it again.
  void set_reported() const noexcept;

 private:
  std::shared_ptr<const PendingState> state_;
};

}  // namespace stoker
