/// \file
/// `notes/`, where the texts of notes lie in a checkpoint directory: one file for each step.
#pragma once

#include "base/clock.h"
#include "base/unique_fd.h"
#include "checkpoint/directory/checkpoint_directory.h"

namespace stoker {

/// The lock that writers of notes hold from reading to renaming, so that none loses what another
/// has said; and retention, while it puts a checkpoint aside. It makes races rare and decides
/// nothing. Where files cannot be locked, or the holder takes too long, there is none.
class NotesLock {
 public:
  static Result<NotesLock> take(const CheckpointDirectory& directory, nanoseconds timeout);
  bool is_held() const noexcept { return static_cast<bool>(fd_); }

 private:
  UniqueFd fd_;
};

/// Removes what writers of notes have staged and not published. For the holder of the writer's
/// lock.
void sweep_staged_notes(const CheckpointDirectory& directory);

}  // namespace stoker
