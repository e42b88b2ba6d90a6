#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/directory/wait_notice.h"
#include "checkpoint/ranks/message_place.h"
#include "stoker/status.h"

namespace stoker {

/// Exchanges small messages between the ranks of a run: from each rank to rank 0, or from rank 0 to
/// all. Every rank uses a key once, for the same gather or broadcast, except after withdraw();
/// rounds with different keys may run at the same time.
///
/// Every method returns by its deadline, or earlier if a rank that has not answered is known to
/// have ended. `unavailable` names the ranks that did not answer.
///
/// Thread safety: every method may be called from any thread.
class Coordinator {
 public:
  virtual ~Coordinator() = default;

  virtual std::uint32_t rank() const noexcept = 0;
  virtual std::uint32_t world_size() const noexcept = 0;

  /// Sends `text` to rank 0. Returns the texts of all ranks, in rank order, on rank 0; on the
  /// others an empty list, without waiting for rank 0.
  virtual Result<std::vector<std::string>> gather(const std::string& key, const std::string& text,
                                                  Deadline deadline) = 0;
  /// On ranks other than 0: takes back what gather() has sent, unless rank 0 has read it. The rank
  /// may then use the key again. On rank 0: removes what broadcast() has sent, which every rank has
  /// read.
  virtual void withdraw(const std::string& key) = 0;
  /// Returns rank 0's text on every rank. `text` is ignored on the others.
  virtual Result<std::string> broadcast(const std::string& key, const std::string& text,
                                        Deadline deadline) = 0;
};

/// Returns a coordinator for a run of one process.
std::unique_ptr<Coordinator> make_single_coordinator();

struct CoordinatorOptions {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  /// The directory that the ranks save to or restore from, for messages to people.
  std::string where = {};
  /// Sleeps between two polls, on the waiting thread; an error ends the wait. Empty: sleep_for().
  std::function<Status(nanoseconds)> pause = {};
  nanoseconds pause_max = std::chrono::milliseconds(100);  ///< Between two polls of a long wait.
  WaitSink on_wait = {};                                   ///< Receives which ranks are missing.
  /// Called during a wait for `rank`. An error means that the rank will never answer, and ends the
  /// wait. Empty: only the deadline ends it.
  std::function<Status(std::uint32_t rank)> find_loss = {};
  /// Whether rank 0 removes its last messages when the coordinator is destroyed.
  bool removes_last = false;
};

/// Returns a coordinator for ranks that share a place for messages. Polls with growing pauses.
Result<std::unique_ptr<Coordinator>> make_coordinator(std::unique_ptr<MessagePlace> place,
                                                      const CoordinatorOptions& options);

struct SharedDirectoryOptions {
  CheckpointDirectory place;  ///< Visible to every rank; contains `.meeting-<word>` for messages.
  std::string word = {};
  /// The same on every rank, and new for every start of the run (Meeting provides one). Part of the
  /// name of every message, so that messages of other runs are ignored. Letters, digits, '-', '_'
  /// and '.'.
  std::string session = {};
  // As in CoordinatorOptions:
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::function<Status(nanoseconds)> pause = {};
  WaitSink on_wait = {};
  std::function<Status(std::uint32_t rank)> find_loss = {};
};

/// Returns a coordinator for ranks that share only a filesystem.
Result<std::unique_ptr<Coordinator>> make_shared_directory_coordinator(
    const SharedDirectoryOptions& options);

/// Whether a word or session may be part of a file's name: 1 to 100 letters, digits, '-', '_' and
/// '.'.
bool is_plain_word(std::string_view word) noexcept;

/// Hint for messages about missing ranks.
inline constexpr std::string_view kRankRule =
    ": every rank must make the same calls of save() and restore(). If only rank 0 saves, because "
    "the state is the same on all ranks, create its Checkpointer with rank=0, world_size=1";

/// "rank 1", "ranks 1, 2 and 5", "ranks 1, 2, 3 and 61 more"
std::string name_ranks(const std::vector<std::uint32_t>& ranks);

}  // namespace stoker
