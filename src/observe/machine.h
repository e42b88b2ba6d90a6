#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/status.h"

namespace stoker {

/// What statfs(2) reports about the filesystem of a path.
struct VolumeStats {
  std::uint64_t type_magic = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t blocks_total = 0;
  std::uint64_t blocks_available = 0;  ///< To unprivileged users.
  std::uint64_t inodes_total = 0;      ///< 0 if inodes are allocated on demand (btrfs).
  std::uint64_t inodes_free = 0;
};

/// What lstat(2) reports about a path.
struct PathInfo {
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  bool is_directory = false;
  bool is_file = false;  ///< A regular file.
  std::uint64_t size_bytes = 0;
};

struct DirectoryEntry {
  enum class Kind : std::uint8_t { file, directory, other };
  std::string name;
  Kind kind = Kind::other;  ///< A symbolic link is `other` and is not followed.
};

enum class Resource : std::uint8_t { locked_memory, open_files };

struct ResourceLimit {
  static constexpr std::uint64_t kUnlimited = UINT64_MAX;
  std::uint64_t soft = kUnlimited;
  std::uint64_t hard = kUnlimited;
};

struct CommandResult {
  int exit_code = 0;
  std::string output;  ///< Standard output, truncated at 1 MiB.
};

/// Whether io_uring works here, and the reason.
struct UringState {
  bool works = false;
  std::string reason;
};

/// The latency of direct 4 KiB reads at random offsets, one at a time.
struct ReadTiming {
  std::uint32_t count = 0;
  std::chrono::nanoseconds median{0};
};

/// The machine that the doctor examines. The doctor gets all its data through this interface, so
/// that tests can substitute a fixture tree. All text that it returns is untrusted.
///
/// Thread safety: none; one examination, one thread.
class Machine {
 public:
  using milliseconds = std::chrono::milliseconds;

  virtual ~Machine() = default;

  /// Reads a text file of /proc, /sys or /boot, truncated at 1 MiB.
  virtual Result<std::string> read_text(const std::string& path) = 0;
  /// Returns at most `count_max` entries in bytewise order of names, without "." and "..". If there
  /// are more, the filesystem decides which ones are omitted.
  virtual Result<std::vector<DirectoryEntry>> list(const std::string& path,
                                                   std::size_t count_max) = 0;
  virtual Result<std::string> read_link(const std::string& path) = 0;
  /// Returns the absolute path without symbolic links; `not_found` if the path does not exist.
  virtual Result<std::string> resolve(const std::string& path) = 0;
  virtual Result<VolumeStats> volume(const std::string& path) = 0;
  virtual Result<PathInfo> stat(const std::string& path) = 0;
  /// Measures a block device or a regular file for at most a quarter of a second.
  /// `invalid_argument` if it is too small or too sparse to measure, or if its filesystem does not
  /// support direct reads.
  virtual Result<ReadTiming> time_reads(const std::string& path) = 0;
  virtual ResourceLimit limit(Resource resource) = 0;
  virtual UringState uring() = 0;
  virtual bool is_root() = 0;
  /// Runs a program found in PATH, never through a shell, and discards its standard error.
  /// `not_found` if there is no such program, `unavailable` if it was killed after `timeout`.
  virtual Result<CommandResult> run(const std::vector<std::string>& argv, milliseconds timeout) = 0;
};

/// Returns the machine that this process runs on.
std::unique_ptr<Machine> make_host_machine();

inline constexpr Machine::milliseconds kCommandTimeout{5000};

/// Returns the text of a file without surrounding blanks; nullopt if it cannot be read or is empty.
std::optional<std::string> find_word(Machine& machine, const std::string& path);
/// Returns the number in a file; nullopt if it cannot be read or has anything else.
std::optional<std::uint64_t> find_count(Machine& machine, const std::string& path);
/// Returns the names in a directory that consist of `prefix` and decimal digits, in the order of
/// the numbers: "nvme" finds nvme0, but neither nvme0n1 nor nvme-fabrics.
std::vector<std::string> find_numbered(Machine& machine, const std::string& directory,
                                       std::string_view prefix);
/// Returns MemTotal of /proc/meminfo in bytes; 0 if it cannot be read.
std::uint64_t memory_total_bytes(Machine& machine);
/// Returns the output of a command; nullopt if it fails or exits with a nonzero status.
std::optional<std::string> find_output(Machine& machine, const std::vector<std::string>& argv);

}  // namespace stoker
