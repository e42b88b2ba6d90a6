// Opens datasets by their directories: see shard_source.h.
#include <algorithm>

#include "base/shell_quote.h"
#include "dataset/shards/dataset_manifest.h"
#include "dataset/shards/shard_names.h"
#include "dataset/shards/shard_source.h"
#include "formats/litdata/litdata_format.h"
#include "formats/mds/mds_format.h"
#include "formats/table/shard_formats.h"

namespace stoker {
namespace {

constexpr std::size_t kIndexJsonBytesMax = std::size_t{256} << 20;

/// Counted arrays can be recognized only by the manifest that was packed with them. Only the
/// manifest has the dtype of counted and SHARD001 arrays. Options of the caller take precedence.
ShardSourceOptions as_packed(const std::string& directory, ShardSourceOptions options) {
  const Result<Manifest> manifest = read_manifest(directory, *options.store);
  if (!manifest.ok()) return options;
  const ShardFormat* const format = find_shard_format(manifest->format);
  if (format == nullptr || !format->lacks_dtype) return options;
  if (options.format.empty()) options.format = manifest->format;
  const Result<Dtype> dtype = parse_dtype(manifest->dtype);
  if (options.format == manifest->format && !options.dtype && dtype.ok()) options.dtype = *dtype;
  return options;
}

/// The contents of one directory.
struct Found {
  enum class Kind : std::uint8_t { files, mds, litdata };

  Kind kind = Kind::files;
  std::string index = {};               ///< index.json, for mds and litdata.
  std::vector<std::string> paths = {};  ///< The shards, for files.
  std::string_view format = {};         ///< Format of their names, for files.
  ShardSourceOptions options = {};
};

/// Finds the shards of a directory: the files of the first format whose names match any file.
Result<Found> look_into(const std::string& directory, const ShardSourceOptions& options) {
  const ShardFormat* const format = find_shard_format(options.format);
  ObjectStore& store = *options.store;
  const bool has_index_json = format != nullptr && format->has_index_json;
  const std::string index = internal::key_in(directory, "index.json");
  std::optional<Found> indexed;
  bool is_known = false;
  if (has_index_json || (options.format.empty() && store.look(index).ok())) {
    STOKER_ASSIGN(std::string text, internal::read_whole(store, index, kIndexJsonBytesMax));
    const bool has_chunks = text.find("\"chunks\"") != std::string::npos;
    const bool has_shards = text.find("\"shards\"") != std::string::npos;
    const bool is_litdata =
        format == &litdata_format() || (format == nullptr && has_chunks && !has_shards);
    indexed = Found{.kind = is_litdata ? Found::Kind::litdata : Found::Kind::mds,
                    .index = std::move(text),
                    .options = options};
    if (has_index_json) return *std::move(indexed);
    is_known = has_chunks || has_shards;
    // Other tools write an index.json too: that of MDS or LitData is damaged if there are no other
    // shards.
  }
  std::vector<std::string> names;
  std::vector<std::string> files;
  const Status listed = store.list(directory, [&](const std::string& name, ObjectStore::Kind kind) {
    names.push_back(name);
    if (kind != ObjectStore::Kind::folder) files.push_back(name);
    return true;
  });
  // A web server has no lists, but the index.json may be all that is needed.
  if (is_known && listed.code() == Code::unsupported) return *std::move(indexed);
  STOKER_TRY(listed);
  const auto paths_of = [&](auto&& is_shard) {
    std::vector<std::string> paths;
    for (const std::string& name : names)
      if (is_shard(name) && !name.starts_with('.'))
        paths.push_back(internal::key_in(directory, name));
    return paths;
  };
  // A dataset that silently lost shards would be worse than an error.
  const auto refuse_left_out = [&](const ShardFormat* chosen) -> Status {
    const std::vector<std::string> left_out = left_out_shards(files, chosen, format != nullptr);
    return left_out.empty() ? Status() : refuse_mixed_directory(directory, left_out);
  };
  if (is_known) {
    const bool is_mds = indexed->kind == Found::Kind::mds;
    STOKER_TRY(refuse_left_out(is_mds ? &mds_format() : &litdata_format()));
    return *std::move(indexed);
  }
  for (const ShardFormat* const named : shard_formats()) {
    if (named->is_shard_name == nullptr || (format != nullptr && format != named)) continue;
    std::vector<std::string> paths = paths_of(named->is_shard_name);
    if (paths.empty()) continue;
    STOKER_TRY(refuse_left_out(named));
    return Found{.paths = std::move(paths), .format = named->name, .options = options};
  }
  // Arrays; their kind is recognized by content.
  std::vector<std::string> paths =
      paths_of([](std::string_view name) { return name.ends_with(".bin"); });
  if (!paths.empty()) {
    STOKER_TRY(refuse_left_out(format));
    return Found{.paths = std::move(paths), .options = as_packed(directory, options)};
  }
  if (std::ranges::any_of(names, is_compressed_tar_name))
    return Status(Code::unsupported,
                  directory +
                      ": compressed tars cannot be read at random; unpack them, or convert them: "
                      "stoker convert " +
                      shell_quote(directory) + " OUT --format tar");
  if (indexed) return *std::move(indexed);
  // A pack that was killed before its first shard.
  if (const Status finished = check_pack_finished(directory, store); !finished.ok())
    return finished.with_context(directory);
  return Status(Code::not_found,
                directory +
                    ": it contains no shards (looked for index.json, *.tar, "
                    "*.tfrecord, *.idx, *.npy, *.bin); name the files themselves, or "
                    "make shards of other files: stoker pack");
}

bool same_kind(const Found& a, const Found& b) {
  return a.kind == b.kind && a.format == b.format && a.options.format == b.options.format &&
         a.options.dtype == b.options.dtype;
}

Result<std::unique_ptr<ShardSource>> open_found(const std::vector<std::string>& directories,
                                                std::vector<Found> found) {
  switch (found.front().kind) {
    case Found::Kind::litdata:
      if (found.size() > 1)
        return Status(
            Code::unsupported,
            directories[1] +
                ": several LitData datasets cannot be opened as one; open them separately");
      return internal::open_litdata(directories.front(), found.front().index,
                                    found.front().options);
    case Found::Kind::mds: {
      std::vector<internal::IndexedDirectory> indexed;
      for (std::size_t i = 0; i < found.size(); ++i)
        indexed.push_back({.path = directories[i], .index = std::move(found[i].index)});
      return internal::open_mds(indexed, found.front().options);
    }
    case Found::Kind::files: break;
  }
  std::vector<std::string> paths;
  for (const Found& one : found) paths.insert(paths.end(), one.paths.begin(), one.paths.end());
  return internal::open_shard_files(paths, found.front().options);
}

}  // namespace

namespace internal {

Result<std::unique_ptr<ShardSource>> open_directories(const std::vector<std::string>& directories,
                                                      const ShardSourceOptions& options) {
  std::vector<Found> found;
  for (const std::string& directory : directories) {
    STOKER_ASSIGN(Found one, look_into(directory, options));
    if (!found.empty() && !same_kind(found.front(), one))
      return Status(Code::invalid_argument,
                    directory + ": contains shards of another format than " + directories.front() +
                        "; name directories of one format");
    found.push_back(std::move(one));
  }
  Result<std::unique_ptr<ShardSource>> opened = open_found(directories, std::move(found));
  // Shards of an unfinished pack lack the files that identify their format, which are written last.
  for (std::size_t i = 0; !opened.ok() && i < directories.size(); ++i)
    STOKER_TRY(check_pack_finished(directories[i], *options.store).with_context(directories[i]));
  STOKER_ASSIGN(std::unique_ptr<ShardSource> source, std::move(opened));
  source->set_whole_directories(directories);
  return source;
}

}  // namespace internal
}  // namespace stoker
