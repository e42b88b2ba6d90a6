#include "observe/rotation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>

#include "base/shell_quote.h"
#include "observe/census.h"
#include "observe/text_fields.h"
#include "stoker/units.h"

namespace stoker {
namespace {

/// No rotating disk is faster at random offsets: half a turn alone takes 2 ms at 15,000 rpm, and 4
/// ms at 7,200 rpm.
constexpr std::chrono::nanoseconds kRotatingReadMin = std::chrono::milliseconds(2);
constexpr std::size_t kDirectoriesSearched = 64;
constexpr std::size_t kEntriesSearched = 256;  // per directory

/// Returns the largest file near the top of the tree; empty if there is none.
std::string find_large_file(Machine& machine, const Target& target) {
  if (target.info.is_file) return target.path;
  std::string largest;
  std::uint64_t largest_bytes = 0;
  std::deque<std::string> directories = {target.directory};
  for (std::size_t i = 0; i < kDirectoriesSearched && !directories.empty(); ++i) {
    const std::string directory = std::move(directories.front());
    directories.pop_front();
    const Result<std::vector<DirectoryEntry>> entries = machine.list(directory, kEntriesSearched);
    if (!entries.ok()) continue;
    for (const DirectoryEntry& entry : *entries) {
      std::string path = (directory == "/" ? "" : directory) + "/" + entry.name;
      const Result<PathInfo> info = machine.stat(path);
      const bool is_here = info.ok() && info->device_major == target.info.device_major &&
                           info->device_minor == target.info.device_minor;
      if (!is_here) continue;
      if (info->is_directory) {
        directories.push_back(std::move(path));
      } else if (info->is_file && info->size_bytes > largest_bytes) {
        largest_bytes = info->size_bytes;
        largest = std::move(path);
      }
    }
  }
  return largest;
}

/// Measures the device itself or, if it cannot be read (only root may), a large file.
std::optional<ReadTiming> measure(Machine& machine, const Target& target, const std::string& disk) {
  if (const Result<ReadTiming> timing = machine.time_reads("/dev/" + disk); timing.ok())
    return *timing;
  const std::string file = find_large_file(machine, target);
  if (file.empty()) return std::nullopt;
  const Result<ReadTiming> timing = machine.time_reads(file);
  return timing.ok() ? std::optional(*timing) : std::nullopt;
}

bool is_virtual(Machine& machine, const std::string& disk) {
  if (disk.starts_with("vd") || disk.starts_with("xvd")) return true;
  constexpr std::array<std::string_view, 4> kModels = {"QEMU", "VBOX", "Virtual", "PersistentDisk"};
  const std::string model =
      find_word(machine, fmt::format("/sys/block/{}/device/model", disk)).value_or("");
  return std::ranges::any_of(
      kModels, [&](std::string_view name) { return model.find(name) != std::string::npos; });
}

/// The advice depends on the files: only files that are not in shards yet can be packed.
std::string advice_for(Machine& machine, const Target& target) {
  const std::string directory = shell_quote(target.directory);
  const std::string in_blocks = "stoker.Loader(..., shuffle=\"block\")";
  if (target.path == "/" || !target.info.is_directory) return "read datasets with " + in_blocks;
  const Census census = take_census(machine, target.path, {});
  if (census.file_count == 0)
    return fmt::format("store datasets here as shards, and read them with {}", in_blocks);
  if (census.is_shards())
    return fmt::format("stoker stream {} --shuffle block   # in Python: {}", directory, in_blocks);
  return fmt::format("stoker pack {0} {0}-shards   # and read them with {1}", directory, in_blocks);
}

}  // namespace

bool check_rotation(Machine& machine, const Target& target, const std::string& disk,
                    Findings& findings) {
  if (find_count(machine, fmt::format("/sys/block/{}/queue/rotational", disk)) != 1) return false;
  const std::string subject = target.subject("disk " + disk);
  const std::optional<ReadTiming> timing = measure(machine, target, disk);
  if (timing && timing->median < kRotatingReadMin) {
    findings.push_back({.subject = subject,
                        .seen = fmt::format("reports that it rotates, but does not: a random read "
                                            "takes {} (median of {})",
                                            format_duration(timing->median), timing->count)});
    return false;
  }
  if (!timing && is_virtual(machine, disk)) {
    findings.push_back(
        {.severity = Severity::note,
         .subject = subject,
         .seen = "a virtual disk that reports that it rotates",
         .why = "Many virtual disks report this whatever they are stored on, and there is no large "
                "file here to measure. On a disk that rotates each shuffled read costs 5 to 10 ms.",
         .fix = fmt::format("stoker bench disk {} --quick --only rand_read   # above 500 IOPS at "
                            "depth 1 it does not rotate",
                            shell_quote(target.directory))});
    return false;
  }
  findings.push_back(
      {.severity = Severity::warning,
       .subject = subject,
       .seen = timing ? fmt::format("it rotates: a random read takes {} (median of {})",
                                    format_duration(timing->median), timing->count)
                      : "it rotates",
       .why = "A shuffled read costs a seek of 5 to 10 ms: about 150 samples per second.",
       .fix = advice_for(machine, target)});
  return true;
}

}  // namespace stoker
