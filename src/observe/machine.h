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

/// What statfs(2) says about the filesystem that holds a path.
struct VolumeStats {
  std::uint64_t type_magic = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t blocks_total = 0;
  std::uint64_t blocks_available = 0;  ///< To ordinary users.
  std::uint64_t inodes_total = 0;      ///< 0 where inodes are made on demand (btrfs).
  std::uint64_t inodes_free = 0;
};

/// What lstat(2) says about a path.
struct PathInfo {
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  bool is_directory = false;
  bool is_file = false;  ///< A regular one.
  std::uint64_t size_bytes = 0;
};

struct DirectoryEntry {
  enum class Kind : std::uint8_t { file, directory, other };
  std::string name;
  Kind kind = Kind::other;  ///< A symbolic link is `other`: nobody follows it.
};

enum class Resource : std::uint8_t { locked_memory, open_files };

struct ResourceLimit {
  static constexpr std::uint64_t kUnlimited = UINT64_MAX;
  std::uint64_t soft = kUnlimited;
  std::uint64_t hard = kUnlimited;
};

struct CommandResult {
  int exit_code = 0;
  std::string output;  ///< Standard output, cut at 1 MiB.
};

/// Whether io_uring does its work here, and how we know.
struct UringState {
  bool works = false;
  std::string reason;
};

/// How long reads of 4 KiB at random places take, one at a time and past the page cache.
struct ReadTiming {
  std::uint32_t count = 0;
  std::chrono::nanoseconds median{0};
};

/// The machine the doctor examines: everything it knows comes through this seam, so that tests can
/// put a fixture tree in its place. Whatever is read here is untrusted text.
///
/// Thread safety: none; one examination, one thread.
class Machine {
 public:
  using milliseconds = std::chrono::milliseconds;

  virtual ~Machine() = default;

  /// A text file of /proc, /sys or /boot, cut at 1 MiB.
  virtual Result<std::string> read_text(const std::string& path) = 0;
  /// At most `count_max` entries in bytewise order of names, without "." and "..". Which ones are
  /// left out when there are more is up to the filesystem.
  virtual Result<std::vector<DirectoryEntry>> list(const std::string& path,
                                                   std::size_t count_max) = 0;
  virtual Result<std::string> read_link(const std::string& path) = 0;
  /// The absolute path without symbolic links; `not_found` where there is nothing.
  virtual Result<std::string> resolve(const std::string& path) = 0;
  virtual Result<VolumeStats> volume(const std::string& path) = 0;
  virtual Result<PathInfo> stat(const std::string& path) = 0;
  /// Measures a block device or a regular file for at most a quarter of a second.
  /// `invalid_argument` for one that is too small or too sparse to tell anything, `unsupported`
  /// where its filesystem takes no direct reads.
  virtual Result<ReadTiming> time_reads(const std::string& path) = 0;
  virtual ResourceLimit limit(Resource resource) = 0;
  virtual UringState uring() = 0;
  virtual bool is_root() = 0;
  /// Runs a program found in PATH, never through a shell, with standard error discarded.
  /// `not_found` without the program, `unavailable` if it had to be killed after `timeout`.
  virtual Result<CommandResult> run(const std::vector<std::string>& argv, milliseconds timeout) = 0;
};

/// The machine this process runs on.
std::unique_ptr<Machine> make_host_machine();

inline constexpr Machine::milliseconds kCommandTimeout{5000};

/// The text of a file without surrounding blanks; nothing if it cannot be read or is empty.
std::optional<std::string> find_word(Machine& machine, const std::string& path);
/// The number that is all of a file; nothing if it cannot be read or is none.
std::optional<std::uint64_t> find_count(Machine& machine, const std::string& path);
/// The names in a directory that consist of `prefix` and decimal digits ("nvme" finds nvme0, and
/// neither nvme0n1 nor nvme-fabrics), in the order of the numbers.
std::vector<std::string> find_numbered(Machine& machine, const std::string& directory,
                                       std::string_view prefix);
/// MemTotal; 0 if /proc/meminfo does not say.
std::uint64_t memory_total_bytes(Machine& machine);
/// The output of a command that ended well; nothing otherwise.
std::optional<std::string> find_output(Machine& machine, const std::vector<std::string>& argv);

}  // namespace stoker
