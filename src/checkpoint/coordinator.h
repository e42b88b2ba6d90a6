#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "io/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// How the ranks of a run agree: each says something small to rank 0, or rank 0 to all. A message
/// has a key, which is used once, by every rank, for a gather or a broadcast; rounds with different
/// keys may run at the same time.
///
/// Every method ends by its deadline. A rank that was not heard of is named: `unavailable`, "rank 3
/// did not answer".
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

  /// The token under which rank 0 takes the lock; empty where it may be any.
  virtual std::string lock_token() const { return {}; }
};

/// For a run of one process: everybody is there.
std::unique_ptr<Coordinator> make_single_coordinator();

struct SharedDirectoryOptions {
  std::string directory;  ///< The checkpoints': every rank sees it.
  /// The same on every rank, and new for every start of the run (meeting.h finds one). Letters,
  /// digits, '-', '_' and '.'.
  std::string session;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  /// Sleeps between two looks, on the thread that waits; an error ends the wait. Nothing: it just
  /// sleeps.
  std::function<Status(nanoseconds)> pause = {};
};

/// For ranks that share a filesystem and nothing else. Messages are files in rank 0's staging
/// directory, so a takeover silences them with the rest. Polled with growing pauses.
Result<std::unique_ptr<Coordinator>> make_shared_directory_coordinator(
    FileOps& ops, const SharedDirectoryOptions& options);

}  // namespace stoker
