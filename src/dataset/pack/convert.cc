#include "dataset/pack/convert.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "dataset/input/number_lists.h"
#include "dataset/pack/pack_directory.h"
#include "dataset/pack/pack_paths.h"
#include "dataset/pack/shard_output.h"
#include "dataset/shards/shard_names.h"
#include "dataset/shards/shard_places.h"
#include "formats/decompress.h"
#include "formats/table/shard_formats.h"
#include "formats/webdataset/webdataset_format.h"
#include "io/files/directories.h"
#include "io/files/exact_transfer.h"
#include "io/files/regular_file.h"
#include "store/local_store.h"

namespace stoker {
namespace {

/// Maximum decompressed size of a tar.
constexpr std::uint64_t kInflatedBytesMax = std::uint64_t{1} << 50;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

bool is_folder(ObjectStore& store, const std::string& path) {
  const Result<ObjectStore::Entry> entry = store.look(path);
  return entry.ok() && entry->kind == ObjectStore::Kind::folder;
}

/// The codec that a file is compressed with as a whole; nothing if it is not compressed.
Result<std::optional<Codec>> codec_of(ObjectStore& store, const std::string& path) {
  const std::filesystem::path name = std::filesystem::path(path).filename();
  if (is_folder(store, path) || name.string().find(".mds") != std::string::npos)
    return std::optional<Codec>();  // errors of MDS shards are reported elsewhere
  STOKER_ASSIGN(const std::vector<std::byte> head, internal::read_head(store, path, 4));
  return recognise_codec(head);
}

/// Replaces a directory of compressed tars by the tars, in the order of their names; returns any
/// other path unchanged. A directory of which opening would leave out some files is refused there.
Result<std::vector<std::string>> compressed_shards(ObjectStore& store, const std::string& path) {
  if (!is_folder(store, path)) return std::vector<std::string>{path};
  std::vector<std::string> names;
  bool has_index_json = false;
  STOKER_TRY(store.list(path, [&](const std::string& name, ObjectStore::Kind kind) {
    has_index_json |= name == "index.json";
    if (kind != ObjectStore::Kind::folder) names.push_back(name);
    return true;
  }));
  std::vector<std::string> shards;
  for (const std::string& name : names)
    if (is_compressed_tar_name(name)) shards.push_back(internal::key_in(path, name));
  if (has_index_json || shards.empty()) return std::vector<std::string>{path};
  const bool has_tars =
      std::ranges::any_of(names, [](const std::string& name) { return name.ends_with(".tar"); });
  std::erase_if(names, is_compressed_tar_name);
  const std::vector<std::string> others = left_out_shards(names, &webdataset_format(), false);
  if (!others.empty()) return refuse_mixed_directory(path, others);
  return has_tars ? std::vector<std::string>{path} : shards;
}

/// Copies the modification time. The plan of a conversion includes the times of its shards, so a
/// later run that decompresses them again must see the same time.
Status take_times(FileOps& ops, const struct stat& from, const PathAt& to) {
  STOKER_ASSIGN(const UniqueFd fd, open_regular(ops, to));
  const timespec times[2] = {from.st_mtim, from.st_mtim};
  if (::futimens(fd.get(), times) != 0) return Status::from_errno(errno, "futimens", to.text());
  return {};
}

/// Creates the directory for decompressed tars, below the destination.
Result<PathAt> make_inflated_directory(FileOps& ops, const std::string& directory) {
  STOKER_TRY(make_directories(ops, directory));
  STOKER_ASSIGN(std::shared_ptr<const RootDirectory> root, open_root(ops, directory));
  const PathAt own(std::move(root), ".stoker");
  STOKER_TRY(make_own_directory(ops, own));
  STOKER_TRY(make_own_directory(ops, own / kInflatedName));
  return own / kInflatedName;
}

/// After a failure: removes the decompressed tars, which a later run makes again. They stay if they
/// may be in use: by other tasks, or by a process that has the directory's lock. They also stay
/// after an interrupt, so that the next run has less to do.
void drop_inflated(FileOps& ops, const std::string& directory, const PackOptions& options,
                   const Status& failure) {
  if (options.task_count != 1 || failure.code() == Code::cancelled) return;
  Result<std::shared_ptr<const RootDirectory>> root = open_root(ops, directory);
  if (!root.ok()) return;
  const PathAt place(*std::move(root), "");
  const Result<UniqueFd> lock = internal::lock_pack(ops, place, LockMode::exclusive);
  if (!lock.ok()) return;
  static_cast<void>(remove_tree(ops, place / ".stoker" / kInflatedName));
  static_cast<void>(ops.unlink(place / ".stoker/pack.lock"));
  static_cast<void>(ops.rmdir(place / ".stoker"));  // stays if it is not empty
}

/// The name of a file after decompression, which is the shard's name: keys may begin with it.
std::string plain_name(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  for (const std::string_view ending : {".gz", ".zst", ".zstd"})
    if (name.size() > ending.size() && name.ends_with(ending))
      return name.substr(0, name.size() - ending.size());
  if (name.ends_with(".tgz")) name.replace(name.size() - 3, 3, "tar");
  return name;
}

/// A name that differs for each file and each version of it.
Result<std::string> inflated_place(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return Status::from_errno(errno, "stat", path);
  const std::string text =
      std::filesystem::absolute(path).string() + " " + std::to_string(info.st_size) + " " +
      std::to_string(info.st_mtim.tv_sec) + " " + std::to_string(info.st_mtim.tv_nsec);
  return xxh3_128(std::as_bytes(std::span(text))).hex();
}

Status inflate(FileOps& ops, const std::string& path, Codec codec, const PathAt& to,
               const std::stop_token& stop) {
  STOKER_ASSIGN(const UniqueFd fd, open_regular(ops, path));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return Status::from_errno(errno, "stat", path);
  STOKER_ASSIGN(const std::unique_ptr<ShardOutput> output, ShardOutput::make(ops, to));
  STOKER_ASSIGN(Decompressor plain,
                Decompressor::make(codec, {.output_bytes_max = kInflatedBytesMax}));
  const auto size_bytes = static_cast<std::uint64_t>(info.st_size);
  std::vector<std::byte> piece(kPieceBytes);
  for (std::uint64_t at = 0; at < size_bytes;) {
    if (stop.stop_requested()) return Status(Code::cancelled, "stopped while inflating " + path);
    const auto bytes =
        std::span(piece).first(std::min<std::uint64_t>(kPieceBytes, size_bytes - at));
    STOKER_TRY(read_exactly(fd.get(), at, bytes, path));
    STOKER_TRY(plain.feed(bytes, *output).with_context(path));
    at += bytes.size();
  }
  STOKER_TRY(plain.finish().with_context(path));
  STOKER_TRY(output->sync());
  STOKER_TRY(output->publish());
  return take_times(ops, info, to);
}

/// Decompresses the tar `path`, unless an earlier run has; returns the path of the result.
Result<std::string> inflate_into(FileOps& ops, const PathAt& directory, const std::string& path,
                                 Codec codec, const std::stop_token& stop) {
  STOKER_ASSIGN(const std::string place, inflated_place(path));
  STOKER_TRY(make_own_directory(ops, directory / place));
  const PathAt plain = directory / place / plain_name(path);
  const Result<FileKind> kind = ops.kind_of(plain);
  if (kind.ok() && *kind != FileKind::regular)
    return Status(Code::invalid_argument, plain.text() + ": not a regular file; remove it");
  if (!kind.ok()) STOKER_TRY(inflate(ops, path, codec, plain, stop));
  return plain.text();
}

/// The path of a decompressed file, and the user's path.
using Inflated = std::pair<std::string, std::string>;

/// Replaces the paths of decompressed files in a message by the user's paths.
Status in_users_names(const Status& status, std::span<const Inflated> inflated) {
  if (status.ok()) return status;
  std::string message(status.message());
  for (const auto& [plain, path] : inflated) {
    const std::string name = path + " (inflated)";
    for (std::size_t at = 0; (at = message.find(plain, at)) != std::string::npos; at += name.size())
      message.replace(at, plain.size(), name);
  }
  return {status.code(), std::move(message), status.os_error()};
}

Result<PackReport> convert_files(FileOps& ops, const std::vector<std::string>& paths,
                                 const std::string& directory, const ShardDataset::Options& source,
                                 const PackOptions& options) {
  ShardDataset::Options open_options = source;
  open_options.index.stop = options.stop;
  Result<std::shared_ptr<const ShardDataset>> dataset = ShardDataset::open(paths, open_options);
  if (!dataset.ok()) return dataset.status();
  const bool is_untold = (*dataset)->source().shard_format().has_lists;
  STOKER_ASSIGN(const ShardFormat* const format, parse_written_format(options.plan.format));
  STOKER_ASSIGN(std::unique_ptr<PackInput> samples, make_dataset_input(*std::move(dataset)));
  if (is_untold && !format->has_lists && !format->is_array) {
    STOKER_ASSIGN(samples, internal::with_number_lists(std::move(samples), options.thread_count,
                                                       options.stop));
  }
  return pack(ops, *samples, directory, options);
}

}  // namespace

Result<PackReport> convert(FileOps& ops, std::span<const std::string> patterns,
                           const std::string& directory, const ShardDataset::Options& source,
                           const PackOptions& options) {
  STOKER_ASSIGN(const ShardPlaces places,
                open_places(patterns, source.source.s3, source.source.store));
  const std::shared_ptr<ObjectStore>& store = places.store;
  std::vector<std::string> paths;
  for (const std::string& pattern : places.keys) {
    STOKER_ASSIGN(const std::vector<std::string> found, find_shards(pattern, *store));
    for (const std::string& path : found) {
      STOKER_ASSIGN(const std::vector<std::string> shards, compressed_shards(*store, path));
      paths.insert(paths.end(), shards.begin(), shards.end());
    }
  }
  std::optional<PathAt> scratch;
  std::vector<Inflated> inflated;
  const auto inflate_and_convert = [&]() -> Result<PackReport> {
    for (std::string& path : paths) {
      STOKER_ASSIGN(const std::optional<Codec> codec, codec_of(*store, path));
      if (!codec) continue;
      if (!store->is_local())
        return Status(Code::unsupported,
                      path + ": a compressed tar is converted from a local file; copy it first");
      if (!scratch) {
        STOKER_ASSIGN(scratch, make_inflated_directory(ops, directory));
      }
      STOKER_ASSIGN(std::string plain, inflate_into(ops, *scratch, path, *codec, options.stop));
      inflated.emplace_back(plain, std::exchange(path, plain));
    }
    ShardDataset::Options found = source;
    found.source.store = store;  // the paths are its keys
    return convert_files(ops, paths, directory, found, options);
  };
  Result<PackReport> report = inflate_and_convert();
  if (report.ok()) return report;
  if (scratch) drop_inflated(ops, directory, options, report.status());
  return in_users_names(report.status(), inflated);
}

}  // namespace stoker
