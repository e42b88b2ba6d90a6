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
#include "store/local_store.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

/// A folder is taken for what its files are called: opening each to look would cost an open for
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

/// The first bytes of a file; none if it is not there or no regular file.
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

/// Petastorm keeps its schema in the metadata of a file beside the data. Its key is looked for as
/// bytes; what stands under it is a pickle, and nobody opens that.
bool is_petastorm(const fs::path& directory) {
  constexpr std::size_t kBytesMax = std::size_t{16} << 20;
  const std::string bytes = head_of(directory / "_common_metadata", kBytesMax);
  return bytes.find("dataset-toolkit.unischema") != std::string::npos;
}

bool is_hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') || name.starts_with('_');
}

/// Of the files in it; if there are only folders, of the first file below the first of them.
std::string kind_of_directory(const fs::path& directory) {
  constexpr int kDepthMax = 16;
  fs::path place = directory;
  for (int depth = 0; depth < kDepthMax; ++depth) {
    std::error_code failed;
    fs::path first_directory;
    bool has_files = false;
    for (fs::directory_iterator entry(place, failed); !failed && entry != fs::end(entry);
         entry.increment(failed)) {
      if (is_hidden(entry->path())) continue;
      std::error_code unknown;
      if (entry->is_directory(unknown)) {
        if (first_directory.empty() || entry->path() < first_directory)
          first_directory = entry->path();
        continue;
      }
      has_files = true;
      if (std::string kind = kind_of_name(entry->path()); !kind.empty()) return kind;
    }
    if (has_files || first_directory.empty()) return "";
    place = first_directory;
  }
  return "";
}

}  // namespace

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
