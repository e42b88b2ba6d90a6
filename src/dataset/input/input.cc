#include "dataset/input/input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "dataset/input/import_kind.h"
#include "dataset/input/tree_shape.h"
#include "dataset/shards/shard_names.h"
#include "formats/table/shard_formats.h"
#include "formats/webdataset/webdataset_names.h"
#include "io/files/exact_transfer.h"

namespace stoker {
namespace {

constexpr std::size_t kNamesShown = 5;
constexpr std::string_view kTokensKind = "tokens";

/// The kind by name. The kind of a directory is detected later, from its files.
Result<std::string> kind_of(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".jsonl" || extension == ".ndjson") return std::string("jsonl");
  if (is_sample_shard_name(path)) return internal::already_shards(path);
  if (internal::is_array_name(path)) return std::string(kTokensKind);
  return Status(
      Code::invalid_argument,
      path +
          ": pack takes directories, and files named .jsonl, .npy, .bin, .parquet, .arrow or "
          ".h5; --from names the kind of another one. Text needs --tokenizer FILE. For "
          "everything else there is stoker.ingest() in Python");
}

/// Whether the format has to be named, because no ending of a file is its own.
bool is_kind(const ShardFormat& format) {
  return format.is_array && format.is_shard_name == nullptr;
}

bool is_array_kind(std::string_view kind) {
  const ShardFormat* const format = find_shard_format(kind);
  return kind == kTokensKind || (format != nullptr && is_kind(*format));
}

}  // namespace

Result<std::unique_ptr<PackInput>> open_input(const std::string& path,
                                              const PackInputOptions& options) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return Status::from_errno(errno, "open", path);
  const bool is_directory = S_ISDIR(info.st_mode);
  std::string kind = options.kind;
  if (kind.empty() && !is_directory) {
    STOKER_ASSIGN(kind, kind_of(path));
  }
  const bool is_tree = is_directory && (kind.empty() || kind == "classes" || kind == "tree");
  if (!is_tree && options.with_hidden)
    return Status(Code::invalid_argument, path + ": --hidden is for directories of files");
  if (!options.classes.empty() && (!is_tree || kind == "tree"))
    return Status(Code::invalid_argument, path + ": --classes is for directories of classes");
  if (is_array_kind(kind)) return internal::open_token_arrays(path, options);
  if (options.dtype || options.sequence_length != 0)
    return Status(Code::invalid_argument,
                  "dtype and sequence length are for arrays, and " + path + " is packed as " +
                      (kind.empty() ? "files; say --from tokens for the arrays in it" : kind));
  if (kind.empty()) return internal::open_tree(path, std::nullopt, options);
  if (kind == "jsonl") return internal::open_jsonl(path);
  if (kind != "classes" && kind != "tree")
    return Status(Code::invalid_argument,
                  "source \"" + kind + "\" is not known: " + list_pack_kinds());
  if (!is_directory)
    return Status(Code::invalid_argument, path + ": not a directory, as --from " + kind + " needs");
  return internal::open_tree(path, kind == "classes", options);
}

std::vector<std::string> pack_kinds() {
  std::vector<std::string> kinds = {"classes", "tree", "jsonl", std::string(kTokensKind)};
  for (const ShardFormat* const format : shard_formats())
    if (is_kind(*format)) kinds.emplace_back(format->name);
  kinds.insert(kinds.end(), import_kinds().begin(), import_kinds().end());
  return kinds;
}

std::string list_pack_kinds() {
  const std::vector<std::string> kinds = pack_kinds();
  return fmt::format("{} or {}", fmt::join(kinds.begin(), kinds.end() - 1, ", "), kinds.back());
}

std::vector<std::string> remarks_on(const PackInput& input) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const LeftOut& file : input.left_out()) {
    auto reason = std::ranges::find(reasons, file.why, [](const auto& r) { return r.first; });
    if (reason == reasons.end()) reason = reasons.insert(reason, {file.why, {}});
    reason->second.push_back(file.name);
  }
  std::vector<std::string> lines;
  for (const auto& [why, names] : reasons) {
    std::string line = "left out: ";
    for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i)
      line += (i == 0 ? "" : ", ") + names[i];
    if (names.size() > kNamesShown) line += fmt::format(" and {} more", names.size() - kNamesShown);
    lines.push_back(line + ": " + why);
  }
  for (std::string& note : input.notes()) lines.push_back("note: " + std::move(note));
  return lines;
}

namespace internal {

bool is_array_name(std::string_view name) {
  return std::ranges::any_of(shard_formats(), [&](const ShardFormat* format) {
    if (!format->is_array) return false;
    const bool is_named = format->is_shard_name != nullptr && format->sidecar_ending.empty() &&
                          format->is_shard_name(name);
    return is_named ||
           (!format->ending.empty() && name.ends_with("." + std::string(format->ending)));
  });
}

std::string mds_encoding_of_extension(std::string_view extension) {
  if (extension == "jpg" || extension == "jpeg") return "jpeg";
  if (extension == "png") return "png";
  const FieldType type = type_of_extension(extension);
  if (type == FieldType::text) return "str";
  return type == FieldType::json ? "json" : "bytes";
}

Status read_input(int fd, std::uint64_t offset_bytes, std::span<std::byte> out,
                  const std::string& path) {
  Status status = read_exactly(fd, offset_bytes, out, path);
  if (status.code() != Code::corrupt) return status;
  return Status(Code::unavailable, path +
                                       ": shorter than when it was listed; pack it again "
                                       "when no other process writes to it");
}

}  // namespace internal
}  // namespace stoker
