#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/rank_session.h"
#include "base/clock.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "checkpoint/catalog/catalog.h"
#include "checkpoint/restore/device_read_memory.h"
#include "checkpoint/restore/restore_agreement.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "gpu/pinned_memory.h"
#include "stoker/checkpoint.h"

namespace stoker {

/// The saver of a checkpointer is made by the first save, and again by the first one after a
/// restore: it then continues what was restored.
///
/// Thread safety: as Checkpointer's.
class Checkpointer::Impl {
 public:
  explicit Impl(CheckpointerOptions options);
  ~Impl();

  Status check() const;
  Result<PendingSave> save(std::uint64_t step, const Tree& trees, const SaveOptions& options);
  Result<std::optional<Restored>> restore(Tree& trees, const RestoreOptions& options);
  bool due(std::uint64_t step, const Due& due) const;
  Result<std::vector<CatalogStep>> list() const;
  /// Returns generation and line of a step, after its save has ended.
  Result<std::pair<std::uint64_t, std::string>> find(std::uint64_t step) const;
  SaveProgress progress() const;
  Status wait(nanoseconds timeout);
  Status close(std::optional<nanoseconds> timeout);
  const std::string& directory() const noexcept { return options_.directory; }

 private:
  using Seen = std::map<std::string, std::uint64_t>;  // the greatest generation of each line

  Result<SaverOptions> saver_options(Deadline deadline);
  Result<CheckpointSaver*> begin(Deadline deadline);
  SaveRequest request_of(std::uint64_t step, const Tree& trees, const SaveOptions& options) const;
  Result<RestoreAgreement::Outcome> agree(const RestoreOptions& options, const RestoreTrial& trial);
  Status failure_of(const RestoreFailure& failure, const std::string& name) const;
  bool await_all(Deadline deadline) const;
  void learn_ended();
  void release(const CheckpointParent& parent, const std::vector<PassedOver>& passed_over,
               Seen seen);
  Seen what_is_there() const;
  void tell(const std::string& text) const noexcept;
  void tell_others(const PendingSave& own);
  WaitSink wait_sink() const;

  const CheckpointerOptions options_;
  const ForkGuard guard_;
  internal::RankSessions sessions_;
  const std::shared_ptr<PinnedMemory> staging_ = PinnedMemory::make();
  const std::shared_ptr<DeviceReadMemory> read_memory_;
  std::shared_ptr<internal::RankSession> session_;  // of the saver
  Status unreported_;                               // of a saver that was closed
  std::optional<CheckpointParent> parent_;
  std::set<std::uint64_t> damaged_;
  Seen seen_;
  bool is_others_told_ = false;
  bool is_differing_told_ = false;
  bool is_closed_ = false;

  mutable Mutex mutex_;
  std::shared_ptr<CheckpointSaver> saver_ STOKER_GUARDED_BY(mutex_);
  std::deque<PendingSave> pending_ STOKER_GUARDED_BY(mutex_);  // oldest first
  std::optional<std::uint64_t> last_step_ STOKER_GUARDED_BY(mutex_);
  Deadline last_time_ STOKER_GUARDED_BY(mutex_) = Clock::now();
};

}  // namespace stoker
