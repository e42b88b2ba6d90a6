#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "observe/checks.h"
#include "observe/doctor.h"

namespace stoker::testing {

/// A machine made of files. Every fixture lies over `base`, a healthy node with two sockets, two
/// NVMe drives and two GPUs:
///
///     fixtures/<name>/root/...      what /proc, /sys and /boot hold
///     fixtures/<name>/machine.json  what system calls and commands answer (merged into base's)
///
/// Tests make it sick by changing one thing at a time.
///
/// Thread safety: none.
class FixtureMachine final : public Machine {
 public:
  explicit FixtureMachine(std::string_view name);

  FixtureMachine& set_text(const std::string& path, std::string text);
  /// Takes a file, or a directory with all it holds, away.
  FixtureMachine& remove(const std::string& path);
  FixtureMachine& add_file(const std::string& path, std::uint64_t size_bytes);
  FixtureMachine& set_link(const std::string& path, const std::string& target);
  FixtureMachine& set_device(const std::string& path, std::uint32_t device_major,
                             std::uint32_t device_minor);
  FixtureMachine& set_command(const std::string& line, std::string output, int exit_code = 0);
  /// As if the program were not installed.
  FixtureMachine& uninstall(const std::string& program);
  FixtureMachine& deny(const std::string& path);
  /// Puts `text` into every file of /proc, /sys and /boot, and into every command's output and
  /// link.
  FixtureMachine& fill_with(const std::string& text);
  /// Appends an option to the last mount, which is where /data lies.
  FixtureMachine& add_mount_option(const std::string& option);
  /// What time_reads() says of `path`; of all others it says nothing.
  FixtureMachine& set_read_time(const std::string& path, std::chrono::nanoseconds median);
  /// Takes an option of the last mount away.
  FixtureMachine& drop_mount_option(const std::string& option);

  VolumeStats& volume_at(const std::string& path) { return volumes_[path]; }

  ResourceLimit locked_memory;
  ResourceLimit open_files;
  UringState uring_state;
  bool root = false;
  std::vector<std::string> commands_run;  ///< Each argv joined with blanks.

  Result<std::string> read_text(const std::string& path) override;
  Result<std::vector<DirectoryEntry>> list(const std::string& path, std::size_t count_max) override;
  Result<std::string> read_link(const std::string& path) override;
  Result<std::string> resolve(const std::string& path) override;
  Result<VolumeStats> volume(const std::string& path) override;
  Result<PathInfo> stat(const std::string& path) override;
  Result<ReadTiming> time_reads(const std::string& path) override;
  ResourceLimit limit(Resource resource) override;
  UringState uring() override { return uring_state; }
  bool is_root() override { return root; }
  Result<CommandResult> run(const std::vector<std::string>& argv, milliseconds timeout) override;

 private:
  struct Node {
    bool is_directory = false;
    std::string text = {};
    std::uint64_t size_bytes = 0;
  };

  void load_tree(const std::string& directory);
  void put(const std::string& path, Node node);

  std::map<std::string, Node> nodes_;
  std::map<std::string, std::string> links_;
  std::map<std::string, VolumeStats> volumes_;
  std::map<std::string, std::pair<std::uint32_t, std::uint32_t>> devices_;
  std::map<std::string, CommandResult> commands_;
  std::map<std::string, std::chrono::nanoseconds> read_times_;
  std::string denied_;
};

/// The target at /data on a fixture; fails the test if there is none.
Target data_target(FixtureMachine& machine, Role role = Role::both);

/// The finding about `subject` that is not ok and whose `seen` contains `seen`; fails the test and
/// returns an empty one if there is none.
Finding expect_finding(const Findings& findings, Severity severity, std::string_view subject,
                       std::string_view seen);
/// Fails the test unless there is something in `findings` and all of it is ok.
void expect_well(const Findings& findings);

}  // namespace stoker::testing
