#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/directory/wait_notice.h"
#include "stoker/status.h"

namespace stoker {

/// How the ranks of a run agree: each says something small to rank 0, or rank 0 to all. A message
/// has a key, which is used once, by every rank, for a gather or a broadcast; rounds with different
/// keys may run at the same time.
///
/// Every method ends by its deadline, and earlier where a rank that has not answered is known to
/// have ended. A rank that was not heard of is named: `unavailable`, "rank 3 did not answer".
///
/// Thread safety: every method may be called from any thread.
class Coordinator {
 public:
  virtual ~Coordinator() = default;

  virtual std::uint32_t rank() const noexcept = 0;
  virtual std::uint32_t world_size() const noexcept = 0;

  /// On rank 0 the texts of all ranks, in their order; on others nothing, as soon as the text is on
  /// its way.
  virtual Result<std::vector<std::string>> gather(const std::string& key, const std::string& text,
                                                  Deadline deadline) = 0;
  /// Rank 0's text, on every rank.
  virtual Result<std::string> broadcast(const std::string& key, const std::string& text,
                                        Deadline deadline) = 0;
};

/// For a run of one process: everybody is there.
std::unique_ptr<Coordinator> make_single_coordinator();

struct SharedDirectoryOptions {
  CheckpointDirectory place;  ///< Every rank sees it. Messages lie in `.meeting-<word>` in it.
  std::string word = {};
  /// The same on every rank, and new for every start of the run (meeting.h finds one): begins the
  /// name of every message, so that none of another run is taken for one of this. Letters, digits,
  /// '-', '_' and '.'.
  std::string session = {};
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  /// Sleeps between two looks, on the thread that waits; an error ends the wait. Nothing: it just
  /// sleeps.
  std::function<Status(nanoseconds)> pause = {};
  WaitSink on_wait = {};  ///< Hears which ranks are missing, after some seconds of waiting.
  /// Asked now and then during a wait for this rank: an error says that it will never answer, and
  /// ends the wait. Nothing: the deadline ends it.
  std::function<Status(std::uint32_t rank)> find_loss = {};
};

/// For ranks that share a filesystem and nothing else. Polled with growing pauses.
Result<std::unique_ptr<Coordinator>> make_shared_directory_coordinator(
    const SharedDirectoryOptions& options);

/// Whether a word or session may be part of a file's name: 1 to 100 letters, digits, '-', '_' and
/// '.'.
bool is_plain_word(std::string_view word) noexcept;

/// What those who wait for a rank should know.
inline constexpr std::string_view kRankRule =
    ": every rank makes the same calls of save() and restore(). If rank 0 alone saves what is the "
    "same on all, make its Checkpointer with rank=0, world_size=1";

/// "rank 1", "ranks 1, 2 and 5", "ranks 1, 2, 3 and 61 more"
std::string name_ranks(const std::vector<std::uint32_t>& ranks);

}  // namespace stoker
