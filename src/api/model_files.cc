#include "api/model_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "checkpoint/manifest/names.h"
#include "formats/json/strict_json.h"
#include "formats/plain_name.h"
#include "io/files/file_ops.h"
#include "io/files/text_file.h"

namespace stoker::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnd = ".safetensors";
constexpr std::string_view kIndexEnd = ".safetensors.index.json";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::size_t kIndexBytesMax = std::size_t{100} << 20;

Result<ModelFiles> read_index(const std::string& path) {
  const auto damaged = [&](const std::string& why) {
    return Status(Code::corrupt, path + ": " + why);
  };
  STOKER_ASSIGN(const std::string text, read_text_file(posix_file_ops(), path, kIndexBytesMax));
  STOKER_ASSIGN(const Json index,
                parse_strict_json(text, path, {.text_bytes_max = kIndexBytesMax}));
  const Json* const places = index.find("weight_map");
  if (places == nullptr || !places->is_object())
    return damaged("it has no weight_map from names to files");
  const fs::path folder = fs::path(path).parent_path();
  ModelFiles files;
  std::map<std::string, std::size_t> numbers;
  for (const auto& [name, place] : places->sorted_items()) {
    if (!place.is_string()) return damaged("it has no weight_map from names to files");
    if (!is_plain_file_name(place.get_string()))
      return damaged(quote_for_message(place.get_string()) +
                     " is not the name of a file in this folder");
    const std::string file = (folder / place.get_string()).string();
    const auto [number, is_new] = numbers.emplace(file, files.paths.size());
    std::error_code error;
    if (is_new && !fs::is_regular_file(file, error))
      return damaged("it names a missing file: " + file);
    if (is_new) files.paths.push_back(file);
    files.names.emplace_back(name, number->second);
  }
  return files;
}

}  // namespace

Result<std::optional<ModelFiles>> find_model_files(const std::string& path) {
  std::error_code error;
  if (path.ends_with(kIndexEnd)) {
    STOKER_ASSIGN(ModelFiles files, read_index(path));
    return std::optional(std::move(files));
  }
  if (fs::is_regular_file(path, error)) return std::optional(ModelFiles{.paths = {path}});
  if (!fs::is_directory(path, error)) return std::optional<ModelFiles>();
  if (parse_step_name(fs::weakly_canonical(path, error).filename().string()))
    return std::optional<ModelFiles>();  // a checkpoint, even without its manifest
  std::vector<std::string> names;
  for (fs::directory_iterator entry(path, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) return Status::from_errno(error.value(), "list", path);
  std::ranges::sort(names);
  std::vector<std::string> indexes;
  ModelFiles files;
  for (const std::string& name : names) {
    if (name == kManifestName || name == kLatestName || name == ".metadata" ||
        name.starts_with("step-"))
      return std::optional<ModelFiles>();
    if (name.ends_with(kIndexEnd)) indexes.push_back(name);
    if (name.ends_with(kEnd)) files.paths.push_back((fs::path(path) / name).string());
  }
  if (std::ranges::find(indexes, kIndex) != indexes.end()) indexes = {std::string(kIndex)};
  if (indexes.size() > 1)
    return Status(Code::invalid_argument,
                  path + ": it has several indexes: open one, such as " + indexes.front());
  if (!indexes.empty()) {
    STOKER_ASSIGN(files, read_index((fs::path(path) / indexes.front()).string()));
  }
  if (files.paths.empty()) return std::optional<ModelFiles>();
  return std::optional(std::move(files));
}

Status check_index(const ModelFiles& files, const CheckpointReader& reader) {
  for (const auto& [name, file] : files.names) {
    const TensorInfo* const tensor = reader.find(name);
    const bool is_there = tensor != nullptr &&
                          reader.manifest().tensors[reader.slices_of(*tensor).front()].file == file;
    if (!is_there)
      return {Code::corrupt,
              files.paths[file] + ": there is no " + name + ", which the index says is there"};
  }
  return {};
}

}  // namespace stoker::internal
