#pragma once

#include <sys/types.h>

#include <string>

#include "stoker/status.h"
#include "support/disk_tape.h"

namespace stoker::testing {

/// A filesystem of one file, the disk on a tape, served through /dev/fuse by a child process. A
/// child, because a process cannot die while a thread of its own owes the kernel a block that
/// another one waits for; the child dies with its parent, and what is still mounted then gets EIO.
///
/// Speaks the kernel's protocol itself: the root of a FUSE mount may be a regular file, so ten
/// requests are all there is to answer, one after the other. That order is the order on the tape.
///
/// Thread safety: none.
class FuseFile {
 public:
  /// Mounts over `path`, an empty file. `tape` must outlive it. status() is `unsupported` where
  /// there is no FUSE or no right to mount. To be made before any thread is started.
  FuseFile(std::string path, DiskTape& tape);
  FuseFile(const FuseFile&) = delete;
  FuseFile& operator=(const FuseFile&) = delete;
  ~FuseFile();

  const Status& status() const { return status_; }

 private:
  std::string path_;
  Status status_;
  pid_t server_ = -1;
};

}  // namespace stoker::testing
