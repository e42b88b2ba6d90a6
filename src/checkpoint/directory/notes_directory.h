/// \file
/// `notes/`, the directory of notes in a checkpoint directory: one file for each step.
#pragma once

#include "base/clock.h"
#include "base/unique_fd.h"
#include "checkpoint/directory/checkpoint_directory.h"

namespace stoker {

/// The lock that writers of notes hold from reading to renaming, so that no update is lost;
/// retention holds it while it puts a checkpoint aside. It makes races rare, but safety does not
/// depend on it: if files cannot be locked, or the holder takes too long, is_held() is false.
class NotesLock {
 public:
  static Result<NotesLock> take(const CheckpointDirectory& directory, nanoseconds timeout);
  bool is_held() const noexcept { return static_cast<bool>(fd_); }

 private:
  UniqueFd fd_;
};

/// Removes notes that were staged but not published. For the holder of the writer's lock.
void sweep_staged_notes(const CheckpointDirectory& directory);

}  // namespace stoker
