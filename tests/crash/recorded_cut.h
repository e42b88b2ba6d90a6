/// \file
/// Power cuts on real filesystems: a workload is recorded as the block writes that it caused, and
/// the disk is put back to what it may have held after any of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "crash/checkpoint_crash.h"
#include "support/recorded_disk.h"

namespace stoker::testing {

/// What a workload did to a disk, and what it was promised.
struct Recording {
  struct Mark {
    std::uint64_t event_count = 0;  ///< What was on the tape by then.
    std::string text;
  };
  std::vector<DiskEvent> events;
  std::vector<Mark> marks;
};

using DiskWorkload = std::function<void(const CheckpointPlace&, const CrashSaver::Note&)>;

/// Where checkpoints lie on this disk while it is mounted.
CheckpointPlace place_on(const RecordedDisk& disk, FileOps& ops = posix_file_ops());

/// Mounts the disk, runs the workload through `ops`, and puts the disk back to what it was.
Result<Recording> record(RecordedDisk& disk, const DiskWorkload& workload,
                         FileOps& ops = posix_file_ops());

struct ReplayOptions {
  std::size_t cut_count = 0;
  std::uint64_t seed = 1;
  std::size_t violations_max = ~std::size_t{0};  ///< Of a mutant a few are enough.
};

struct ReplayReport {
  std::string filesystem;
  std::size_t event_count = 0;
  std::size_t cut_count = 0;    ///< Events after which the power was cut.
  std::size_t state_count = 0;  ///< That were mounted and looked at.
  std::size_t violation_count = 0;
  std::vector<std::string> violations = {};  ///< The first of them, with what it takes to see them.

  std::string text() const;
  /// Puts the counts into the test's record.
  void record() const;
};

using PlaceOracle = std::function<std::string(const CheckpointPlace&, const CutPoint&)>;

/// Cuts the power after each of this number of events, all if there are no more; where something
/// was acknowledged first of all. Up to three states of each: all writes since the last barrier are
/// there, none of them is, some are and some are torn at 4 KiB. Each is mounted, which replays the
/// filesystem's journal, and shown to the oracle. The disk is as it was in the end.
///
/// With STOKER_CRASH_KEEP=DIRECTORY each disk that shows a violation is kept there: what the kernel
/// writes, and when, is not the same in the next run.
ReplayReport replay(RecordedDisk& disk, const Recording& recording, const PlaceOracle& oracle,
                    const ReplayOptions& options);

/// How many cuts to try: STOKER_CRASH_CUTS if it is set, as `make crash` does, and otherwise few.
std::size_t cut_count();
/// Whether there is time for everything.
bool is_long_run();

}  // namespace stoker::testing
