#include "observe/census.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "base/shell_quote.h"
#include "observe/checks.h"
#include "observe/text_fields.h"
#include "stoker/units.h"

namespace stoker {
namespace {

constexpr std::uint64_t kSmallFileBytes = std::uint64_t{128} << 10;
constexpr std::uint64_t kManyFiles = 10'000;
constexpr double kFileCountMax = 1e18;  // weights multiply from level to level

struct WeightedSize {
  std::uint64_t bytes;
  double weight;  ///< Number of files in the tree that it represents.
  bool is_shard;
};

/// Judges by the name alone: not worth reading the file.
bool is_named_like_a_shard(std::string_view path) {
  constexpr std::array<std::string_view, 9> kEndings = {
      ".tar", ".tar.gz", ".tgz", ".tar.zst", ".bin", ".idx", ".npy", ".arrow", ".parquet"};
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.find(".mds") != name.npos || name.find(".tfrecord") != name.npos ||
         std::ranges::any_of(kEndings, [&](std::string_view end) { return name.ends_with(end); });
}

struct WeightedDirectory {
  std::string path;
  double weight;             ///< Number of directories in the tree that it represents.
  std::uint64_t size_bytes;  ///< Of the directory itself: grows with its entries.

  double importance() const { return weight * static_cast<double>(size_bytes); }
};

/// Keeps every n-th item, so that at most `count_max` remain; returns the factor by which each now
/// counts more.
template <typename T>
double thin_out(std::vector<T>& items, std::size_t count_max) {
  const std::size_t count = items.size();
  if (count <= count_max) return 1;
  std::vector<T> kept;
  kept.reserve(count_max);
  for (std::size_t i = 0; i < count_max; ++i)
    kept.push_back(std::move(items[i * count / count_max]));
  items = std::move(kept);
  return static_cast<double>(count) / static_cast<double>(count_max);
}

/// Keeps at most `count_max` directories: the most important ones fill half of them, because a few
/// directories may contain most of the files; every n-th of the others fills the rest and
/// represents its neighbors. Returns whether any were left out.
bool thin_out_level(std::vector<WeightedDirectory>& level, std::size_t count_max) {
  if (level.size() <= count_max) return false;
  std::stable_sort(level.begin(), level.end(),
                   [](const WeightedDirectory& a, const WeightedDirectory& b) {
                     return a.importance() > b.importance();
                   });
  const auto middle = level.begin() + static_cast<std::ptrdiff_t>(count_max / 2);
  std::vector<WeightedDirectory> others(std::make_move_iterator(middle),
                                        std::make_move_iterator(level.end()));
  level.erase(middle, level.end());
  const double factor = thin_out(others, count_max - level.size());
  for (WeightedDirectory& directory : others) {
    directory.weight *= factor;
    level.push_back(std::move(directory));
  }
  return true;
}

std::uint64_t weighted_median(std::vector<WeightedSize>& sizes) {
  std::sort(sizes.begin(), sizes.end(),
            [](const WeightedSize& a, const WeightedSize& b) { return a.bytes < b.bytes; });
  double total = 0;
  for (const WeightedSize& size : sizes) total += size.weight;
  double below = 0;
  for (const WeightedSize& size : sizes) {
    below += size.weight;
    if (below >= total / 2) return size.bytes;
  }
  return 0;
}

std::uint64_t weighted_average(const std::vector<WeightedSize>& sizes) {
  double total = 0;
  double bytes = 0;
  for (const WeightedSize& size : sizes) {
    total += size.weight;
    bytes += size.weight * static_cast<double>(size.bytes);
  }
  return total > 0 ? static_cast<std::uint64_t>(bytes / total) : 0;
}

double shard_bytes_share(const std::vector<WeightedSize>& sizes) {
  double all = 0;
  double in_shards = 0;
  for (const WeightedSize& size : sizes) {
    const double bytes = size.weight * static_cast<double>(size.bytes);
    all += bytes;
    if (size.is_shard) in_shards += bytes;
  }
  return all > 0 ? in_shards / all : 0;
}

/// The state of one census.
///
/// Thread safety: none.
class Walk {
 public:
  Walk(Machine& machine, const CensusOptions& options) : machine_(machine), options_(options) {}

  Census run(const std::string& root) {
    const Result<PathInfo> info = machine_.stat(root);
    if (!info.ok()) return {};
    root_ = *info;
    std::vector<WeightedDirectory> level{{root, 1, 0}};
    for (std::size_t depth = 0; !level.empty(); ++depth) {
      if (depth == options_.depth_max) {
        census_.is_exact = false;
        break;
      }
      std::vector<WeightedDirectory> below;
      for (const WeightedDirectory& directory : level) visit(directory, below);
      if (thin_out_level(below, options_.directories_per_level_max)) census_.is_exact = false;
      level = std::move(below);
    }
    census_.file_count =
        static_cast<std::uint64_t>(std::llround(std::min(file_count_, kFileCountMax)));
    census_.size_median_bytes = weighted_median(sizes_);
    census_.size_average_bytes = weighted_average(sizes_);
    census_.shard_bytes_share = shard_bytes_share(sizes_);
    return std::move(census_);
  }

 private:
  void visit(const WeightedDirectory& directory, std::vector<WeightedDirectory>& below) {
    auto entries = machine_.list(directory.path, options_.entries_max);
    if (!entries.ok()) return;
    if (entries->size() >= options_.entries_max) {
      census_.is_exact = false;
      if (census_.crowded_directory.empty()) census_.crowded_directory = directory.path;
    }
    const std::string prefix = directory.path == "/" ? "/" : directory.path + "/";
    std::vector<std::string> files;
    for (DirectoryEntry& entry : *entries) {
      std::string path = prefix + entry.name;
      if (entry.kind == DirectoryEntry::Kind::file)
        files.push_back(std::move(path));
      else if (entry.kind == DirectoryEntry::Kind::directory)
        if (const Result<PathInfo> info = machine_.stat(path); info.ok() && is_here(*info))
          below.push_back({std::move(path), directory.weight, info->size_bytes});
    }
    file_count_ += directory.weight * static_cast<double>(files.size());
    const double weight = directory.weight * thin_out(files, options_.sizes_per_directory_max);
    for (const std::string& file : files)
      if (const Result<PathInfo> info = machine_.stat(file); info.ok())
        sizes_.push_back({info->size_bytes, weight, is_named_like_a_shard(file)});
  }

  bool is_here(const PathInfo& info) const {
    return info.device_major == root_.device_major && info.device_minor == root_.device_minor;
  }

  Machine& machine_;
  const CensusOptions& options_;
  PathInfo root_;
  Census census_;
  double file_count_ = 0;
  std::vector<WeightedSize> sizes_;
};

/// Whether there can be files to pack: not in the root directory, nor in a filesystem such as
/// /proc, which has no blocks.
bool holds_data(const Target& target) {
  return target.path != "/" &&
         (target.kind != FilesystemType::unknown || target.volume.blocks_total != 0);
}

}  // namespace

Census take_census(Machine& machine, const std::string& directory, const CensusOptions& options) {
  return Walk(machine, options).run(directory);
}

Findings check_census(Machine& machine, const Target& target) {
  const std::string subject = target.subject("files");
  if (!target.info.is_directory)
    return {{.subject = subject,
             .seen = fmt::format("one file of {}", format_bytes(target.info.size_bytes))}};
  const CensusOptions options;
  const Census census = take_census(machine, target.path, options);
  if (census.file_count == 0) return {{.subject = subject, .seen = "no files"}};

  const std::string path = shell_quote(target.path);
  const std::string seen =
      fmt::format("{}{}, median {}, average {}", census.is_exact ? "" : "about ",
                  fmt::format("{} file{}", census.file_count, census.file_count == 1 ? "" : "s"),
                  format_bytes(census.size_median_bytes), format_bytes(census.size_average_bytes));
  if (!holds_data(target)) return {{.subject = subject, .seen = seen}};
  if (census.size_median_bytes < kSmallFileBytes && census.file_count >= kManyFiles)
    return {{.severity = target.for_datasets() ? Severity::warning : Severity::note,
             .subject = subject,
             .seen = seen,
             .why =
                 "Each small file costs an open, a metadata request and a seek: the loader waits "
                 "for names instead of reading bytes.",
             .fix = fmt::format("stoker pack {0} {0}-shards", path)}};
  if (!census.crowded_directory.empty())
    return {{.severity = Severity::note,
             .subject = subject,
             .seen = fmt::format("{}; more than {} entries in {}", seen, options.entries_max - 1,
                                 census.crowded_directory),
             .why =
                 "Listing one huge directory takes minutes on a shared filesystem, and every rank "
                 "does it.",
             .fix = fmt::format(
                 "stoker {0} {1} {1}-{2}", census.is_shards() ? "convert --format tar" : "pack",
                 shell_quote(census.crowded_directory), census.is_shards() ? "large" : "shards")}};
  return {{.subject = subject, .seen = seen}};
}

}  // namespace stoker
