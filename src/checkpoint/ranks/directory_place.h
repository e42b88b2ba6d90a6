#pragma once

#include <string>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/ranks/message_place.h"

namespace stoker {

/// Messages as small files in `.meeting-<word>/` of a directory that all ranks share.
///
/// Where the disk has no room for a message, publish() leaves an empty file instead: a name still
/// fits where bytes do not. Without it the others would wait until their deadlines.
///
/// Thread safety: every method may be called from any thread.
class DirectoryPlace final : public MessagePlace {
 public:
  /// `session` is part of the name of every message. Both are plain words (coordinator.h).
  DirectoryPlace(CheckpointDirectory place, const std::string& word, const std::string& session);

  /// Creates the directory if it does not exist, also after it was swept. `no_space` says what to
  /// do. Deadlines are ignored.
  Status publish(const std::string& name, const std::string& text, Deadline deadline) override;
  Result<std::vector<std::string>> find(std::span<const std::string> names,
                                        Deadline deadline) override;
  Result<std::vector<std::string>> take(std::span<const std::string> names,
                                        Deadline deadline) override;
  void withdraw(const std::string& name) override;
  void remove(const std::string& name) override;
  std::vector<bool> are_there(std::span<const std::string> names) override;
  Status find_failure(const std::string& name, std::uint32_t from) override;
  void forget_failure(const std::string& name) override;

 private:
  PathAt path_of(const std::string& name) const { return directory_ / (prefix_ + name); }
  PathAt full_mark_of(const std::string& name) const {
    return directory_ / (prefix_ + name + "-full");
  }
  Status try_publish(const PathAt& path, const std::string& text);

  const CheckpointDirectory place_;
  FileOps& ops_;
  const PathAt directory_;
  const std::string prefix_;
  const std::string unique_;
  Mutex mutex_;
  std::uint64_t serial_ STOKER_GUARDED_BY(mutex_) = 0;
};

}  // namespace stoker
