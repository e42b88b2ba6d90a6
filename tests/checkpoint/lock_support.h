/// \file
/// Time that passes only when somebody waits, machines that do not exist, and a filesystem whose
/// locks nobody else sees.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "checkpoint/directory/lock_record.h"
#include "checkpoint/directory/writer_lock.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/opened.h"
#include "io/files/forwarding_file_ops.h"
#include "support/temp_dir.h"

namespace stoker::testing {

/// A machine of that name, with a boot id of its own.
inline Machine machine_of(const std::string& host) {
  return {.host = host, .boot_id = "boot-of-" + host};
}

class FakeTime {
 public:
  LockOptions options(nanoseconds timeout, std::optional<Machine> machine = {}) {
    LockOptions options;
    options.timeout = timeout;
    options.ttl = std::chrono::seconds(60);
    options.machine = std::move(machine);
    options.now = [this] { return now_; };
    options.pause = [this](nanoseconds time) {
      now_ += time;
      ++pause_count;
      if (on_pause) on_pause();
    };
    return options;
  }
  Deadline now() const { return now_; }
  void pass(nanoseconds time) { now_ += time; }

  std::function<void()> on_pause;
  int pause_count = 0;

 private:
  Deadline now_ = Clock::now();
};

/// Every flock is granted, or none is to be had: between hosts it is the one or the other.
class BlindFileOps : public ForwardingFileOps {
 public:
  enum class Locks : std::uint8_t { granted, unsupported };
  explicit BlindFileOps(Locks locks, FileOps& target = posix_file_ops())
      : ForwardingFileOps(target), locks_(locks) {}
  Status try_lock(int /*fd*/, LockMode /*mode*/) override {
    return locks_ == Locks::granted ? Status() : Status(Code::unsupported, "no locks here");
  }

 private:
  const Locks locks_;
};

/// What a writer somewhere says.
inline void write_epoch(const std::string& directory, std::uint64_t epoch,
                        const LockRecord& record) {
  std::ofstream(directory + "/" + epoch_name(epoch)) << format_lock_record(record);
}

inline std::optional<LockRecord> epoch_in(const std::string& directory, std::uint64_t epoch) {
  return parse_lock_record(contents_of(directory + "/" + epoch_name(epoch)));
}

inline std::uint64_t device_of(const CheckpointDirectory& directory) {
  return directory.ops().info_of(directory.self())->device;
}

}  // namespace stoker::testing
