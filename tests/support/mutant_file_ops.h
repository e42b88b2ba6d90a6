#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "io/files/forwarding_file_ops.h"

namespace stoker::testing {

/// A call as a mutant sees it: "fsync" and the path under which the descriptor was opened, "rename"
/// and the new name.
struct MutantCall {
  std::string_view op;
  const std::string& path;
};

/// Turns a correct protocol into a wrong one, without a line of it being changed: chosen calls are
/// answered with OK and never made, or made only after another one. An oracle that finds nothing
/// wrong with the result is no oracle. Covers syncs, renames, links, unlinks and rmdirs.
///
/// Thread safety: every method from any thread.
class MutantFileOps final : public ForwardingFileOps {
 public:
  using Match = std::function<bool(const MutantCall&)>;

  explicit MutantFileOps(FileOps& target) : ForwardingFileOps(target) {}

  /// To be called before the first operation.
  MutantFileOps& drop(Match match) {
    drop_ = std::move(match);
    return *this;
  }
  /// Holds back what `match` chooses until a call that `until` chooses has been made.
  MutantFileOps& defer(Match match, Match until) {
    defer_ = std::move(match);
    until_ = std::move(until);
    return *this;
  }
  /// Calls dropped or held back: a mutant that changed nothing proves nothing.
  int hit_count() const;

  Result<UniqueFd> open(const PathAt& path, int flags) override;
  Status fdatasync(int fd) override;
  Status fsync(int fd) override;
  Status rename(const PathAt& from, const PathAt& to) override;
  Status rename_noreplace(const PathAt& from, const PathAt& to) override;
  Status link(const PathAt& from, const PathAt& to) override;
  Status unlink(const PathAt& path) override;
  Status rmdir(const PathAt& path) override;
  Status fsync_dir(const PathAt& path) override;

 private:
  using Call = std::function<Status()>;
  Status run(const MutantCall& call, Call perform);
  std::string path_of(int fd) const;
  /// A call on a descriptor that may be closed by the time it is made.
  Status run_on(std::string_view op, int fd, Status (FileOps::*perform)(int));

  Match drop_;
  Match defer_;
  Match until_;
  mutable Mutex mutex_;
  int hit_count_ STOKER_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> paths_ STOKER_GUARDED_BY(mutex_);  // by descriptor
  std::vector<Call> deferred_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker::testing
