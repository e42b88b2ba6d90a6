#include "dataset/input/import_kind.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "dataset/shards/shard_source.h"
#include "formats/table/shard_formats.h"
#include "store/local_store.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

/// The kind by name. A folder is judged by names only: reading the first bytes would mean opening
/// every image of a tree.
std::string kind_of_name(const fs::path& path) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kKinds = {
      {{".parquet", "parquet"}, {".pq", "parquet"}, {".arrow", "arrow"}}};
  if (path.filename() == "data.mdb") return "lmdb";
  if (path.filename() == "dataset_dict.json") return "arrow";
  const std::string extension = path.extension().string();
  for (const auto& [ending, kind] : kKinds)
    if (extension == ending) return std::string(kind);
  return "";
}

/// The first bytes of a file; empty if it is missing or not a regular file.
std::string head_of(const fs::path& path, std::size_t size_max) {
  const Result<std::vector<std::byte>> head =
      internal::read_head(*local_store(), path.string(), size_max);
  if (!head.ok()) return "";
  return {reinterpret_cast<const char*>(head->data()), head->size()};
}

std::string kind_of_bytes(const fs::path& path) {
  const std::string text = head_of(path, 8);
  if (text.starts_with("PAR1")) return "parquet";
  if (text.starts_with("ARROW1")) return "arrow";
  if (text == "\x89HDF\r\n\x1a\n") return "hdf5";
  return "";
}

/// Petastorm stores its schema in the metadata of a file next to the data. Only the bytes of its
/// key are searched for: the value is a pickle, which is never loaded.
bool is_petastorm(const fs::path& directory) {
  constexpr std::size_t kBytesMax = std::size_t{16} << 20;
  const std::string bytes = head_of(directory / "_common_metadata", kBytesMax);
  return bytes.find("dataset-toolkit.unischema") != std::string::npos;
}

bool is_hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') || name.starts_with('_');
}

bool is_shard(const fs::path& path) {
  const std::string name = path.filename().string();
  return std::ranges::any_of(shard_formats(), [&](const ShardFormat* format) {
    return !format->is_array && format->is_shard_name != nullptr && format->is_shard_name(name);
  });
}

/// Whether a file next to the data describes them, as README.md in a snapshot of Hugging Face.
bool is_description(const fs::path& path) {
  constexpr std::array<std::string_view, 6> kNames = {".md",  ".txt",  ".cff",
                                                      ".yml", ".yaml", "LICENSE"};
  const std::string extension = path.extension().string();
  return std::ranges::find(kNames, extension.empty() ? path.filename().string() : extension) !=
         kNames.end();
}

/// The kind of the files in it; if it has only folders, of the files in the first folder, and so
/// on.
std::string kind_of_directory(const fs::path& directory) {
  constexpr int kDepthMax = 16;
  fs::path place = directory;
  for (int depth = 0; depth < kDepthMax; ++depth) {
    std::error_code failed;
    fs::path first_directory;
    bool has_files = false;
    bool has_shards = false;
    std::string kind;
    for (fs::directory_iterator entry(place, failed); !failed && entry != fs::end(entry);
         entry.increment(failed)) {
      if (is_hidden(entry->path())) continue;
      std::error_code unknown;
      if (entry->is_directory(unknown)) {
        if (first_directory.empty() || entry->path() < first_directory)
          first_directory = entry->path();
        continue;
      }
      has_files = has_files || !is_description(entry->path());
      has_shards = has_shards || is_shard(entry->path());
      if (kind.empty()) kind = kind_of_name(entry->path());
    }
    if (!kind.empty() && !has_shards) return kind;
    if (has_files || first_directory.empty()) return "";
    place = first_directory;
  }
  return "";
}

}  // namespace

std::span<const std::string_view> import_kinds() noexcept {
  static constexpr std::array<std::string_view, 7> kKinds = {"parquet", "petastorm", "arrow", "hf",
                                                             "hdf5",    "lmdb",      "text"};
  return kKinds;
}

std::string import_kind_of(const std::string& path) {
  std::error_code failed;
  if (fs::is_directory(path, failed)) {
    std::string kind = kind_of_directory(path);
    return kind == "parquet" && is_petastorm(path) ? "petastorm" : kind;
  }
  if (!fs::is_regular_file(path, failed)) return "";
  std::string kind = kind_of_bytes(path);
  return kind.empty() ? kind_of_name(path) : kind;
}

}  // namespace stoker
