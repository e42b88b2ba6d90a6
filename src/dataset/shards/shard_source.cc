#include "dataset/shards/shard_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/shell_quote.h"
#include "dataset/shards/field_types.h"
#include "dataset/shards/shard_names.h"
#include "dataset/shards/shard_places.h"
#include "formats/decompress.h"
#include "formats/table/shard_formats.h"
#include "store/local_store.h"

namespace stoker {
namespace {

constexpr std::size_t kHeadBytes = 512;

/// Formats whose shards are self-contained.
class PlainSource final : public ShardSource {
 public:
  PlainSource(const ShardFormat& format, ShardFiles files, std::unique_ptr<ShardReader> reader)
      : ShardSource(format, std::move(files)), reader_(std::move(reader)) {}
  const ShardReader& reader() const noexcept override { return *reader_; }

 private:
  std::unique_ptr<ShardReader> reader_;
};

bool starts_with(std::span<const std::byte> head, std::string_view magic) {
  return head.size() >= magic.size() && std::memcmp(head.data(), magic.data(), magic.size()) == 0;
}

/// Files with the same ending usually have the same format, and opening ten thousand shards to
/// check would cost more than the index saves. A scan finds the exceptions.
Status check_one_format(ObjectStore& store, const std::vector<std::string>& paths,
                        const ShardFormat& format) {
  const std::filesystem::path first_ending = std::filesystem::path(paths.front()).extension();
  for (const std::string& path : paths) {
    if (std::filesystem::path(path).extension() == first_ending) continue;
    STOKER_ASSIGN(const ShardFormat* const other, internal::recognise_shard(store, path));
    if (other != &format)
      return Status(Code::invalid_argument,
                    fmt::format("{}: its format is {}, that of {} is {}; name shards of one format",
                                path, other->name, paths.front(), format.name));
  }
  return {};
}

/// Removes redundant parts of a path ("a//b/", "./a/b"), so that a directory has the same index
/// however it is written.
std::string clean_path(const std::string& path) {
  std::string clean;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    const std::string_view part = std::string_view(path).substr(at, slash - at);
    if (!part.empty() && part != ".") {
      if (!clean.empty() && !clean.ends_with('/')) clean += '/';
      clean += part;
    }
    if (at == 0 && slash == 0) clean = "/";
    at = slash + 1;
  }
  return clean.empty() ? "." : clean;
}

}  // namespace

namespace internal {

Result<std::unique_ptr<ShardSource>> open_shard_files(const std::vector<std::string>& paths,
                                                      const ShardSourceOptions& options) {
  const ShardFormat* format = find_shard_format(options.format);
  if (format != nullptr && format->has_index_json)
    return Status(
        Code::invalid_argument,
        fmt::format("{}: datasets of the format {} are opened by their directory: name the "
                    "directory",
                    paths.front(), format->name));
  if (format == nullptr) {
    STOKER_ASSIGN(format, recognise_shard(*options.store, paths.front()));
    STOKER_TRY(check_one_format(*options.store, paths, *format));
  }
  if (format->is_array) return open_tokens(*format, paths, options);
  ShardFiles files{.store = options.store, .directory = common_directory(paths), .shards = {}};
  STOKER_ASSIGN(files.shards, stat_shards(*options.store, paths, files.directory));
  std::unique_ptr<ShardReader> reader = format->make_reader();
  if (format->has_name_types)
    if (FieldTypes types = read_field_types(*options.store, paths); !types.empty())
      reader = make_typed_reader(std::move(reader), std::move(types));
  return std::unique_ptr<ShardSource>(
      std::make_unique<PlainSource>(*format, std::move(files), std::move(reader)));
}

Result<const ShardFormat*> recognise_shard(ObjectStore& store, const std::string& path) {
  STOKER_ASSIGN(const std::vector<std::byte> head, read_head(store, path, kHeadBytes));
  const std::span<const std::byte> bytes(head);
  const bool is_mds = std::filesystem::path(path).filename().string().find(".mds") !=
                      std::string::npos;  // MDS shards may be compressed
  if (const auto codec = recognise_codec(bytes); codec && !is_mds)
    return Status(Code::unsupported,
                  path + ": " + (*codec == Codec::zstd ? "zstd" : "gzip") +
                      " cannot be read at random; unpack it, or convert it: stoker convert " +
                      shell_quote(path) + " OUT --format tar");
  if (starts_with(bytes, "BZh") || starts_with(bytes,
                                               "\xfd"
                                               "7zXZ"))
    return Status(Code::unsupported,
                  path + ": bzip2 and xz cannot be read at random; unpack it first");
  if (const ShardFormat* const format = recognise_shard_head(bytes)) return format;
  const std::filesystem::path name = std::filesystem::path(path).filename();
  for (const ShardFormat* const format : shard_formats())
    if (!format->ending.empty() && format->make_reader != nullptr &&
        name.extension() == "." + std::string(format->ending))
      return format;
  if (name == "index.json" || name.string().find(".mds") != std::string::npos)
    return Status(
        Code::invalid_argument,
        path + ": datasets with an index.json are opened by their directory: name the directory");
  return Status(Code::invalid_argument,
                path +
                    ": not a shard of a known format; raw and counted arrays cannot be "
                    "recognised by content: name the format and the dtype, as --format raw --dtype "
                    "uint16 (in "
                    "Python stoker.Dataset(..., format=\"raw\", dtype=\"uint16\"), which Tokens "
                    "and Loader take)");
}

Status check_digests(const ShardSource& source, std::size_t shard) {
  if (source.is_compressed(shard) || !source.has_digests(shard)) return {};
  const ShardFile& file = source.shards()[shard];
  STOKER_ASSIGN(const std::vector<std::byte> bytes, read_packed(source.store(), file));
  return source.check_digests(shard, bytes).with_context(file.path);
}

}  // namespace internal

Result<std::unique_ptr<ShardSource>> open_shards(std::span<const std::string> patterns,
                                                 const ShardSourceOptions& options) {
  if (!options.format.empty()) STOKER_TRY(parse_shard_format(options.format).status());
  ShardSourceOptions opened = options;
  if (std::ranges::any_of(patterns, &std::string::empty))
    return Status(Code::invalid_argument,
                  "an empty name matches no shards; use \".\" for this directory");
  STOKER_ASSIGN(const ShardPlaces places, open_places(patterns, options.s3, options.store));
  opened.store = places.store;
  ObjectStore& store = *opened.store;
  std::vector<std::string> paths;
  for (const std::string& pattern : places.keys) {
    STOKER_ASSIGN(const std::vector<std::string> found, find_shards(pattern, store));
    for (const std::string& path : found) paths.push_back(clean_path(path));
  }
  if (paths.empty()) return Status(Code::not_found, "no shards were named");
  // A path that cannot be looked up fails with the reason when it is opened.
  const std::vector<Result<ObjectStore::Entry>> entries = internal::look_all(store, paths);
  const auto is_directory = [](const Result<ObjectStore::Entry>& entry) {
    return entry.ok() && entry->kind == ObjectStore::Kind::folder;
  };
  const auto first = std::ranges::find_if(entries, is_directory);
  if (first == entries.end()) return internal::open_shard_files(paths, opened);
  if (!std::ranges::all_of(entries, is_directory))
    return Status(Code::invalid_argument, paths[static_cast<std::size_t>(first - entries.begin())] +
                                              ": name either directories or shard files, not both");
  return internal::open_directories(paths, opened);
}

}  // namespace stoker
