#include "dataset/shards/dataset_manifest.h"

#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

#include "base/hex.h"
#include "dataset/shards/dataset_manifest_json.h"
#include "dataset/shards/shard_files.h"
#include "dataset/shards/shard_source.h"
#include "io/files/publish.h"
#include "stoker/dtype.h"

namespace stoker {
namespace {

constexpr std::uint64_t kVersion = 1;
/// Maximum of sizes, counts and their sums, so that additions cannot overflow.
constexpr std::uint64_t kNumberMax = std::uint64_t{1} << 62;

/// Adds with a check for overflow.
Status add_to(std::uint64_t& sum, std::uint64_t value, const JsonView& at) {
  if (value > kNumberMax - sum) return at.corrupt("the sum of the numbers is too large");
  sum += value;
  return {};
}

Status check_sum(const JsonView& root, std::string_view key, std::uint64_t sum) {
  STOKER_ASSIGN(const JsonView total, root.at(key));
  STOKER_ASSIGN(const std::uint64_t said, total.u64());
  if (said != sum)
    return total.corrupt(fmt::format("is {}, but the shards add up to {}", said, sum));
  return {};
}

Status parse_entries(const JsonView& root, Manifest& manifest) {
  STOKER_ASSIGN(const JsonView shards, root.at("shards"));
  STOKER_ASSIGN(const std::size_t shard_count, shards.array_size());
  std::uint64_t sample_sum = 0;
  std::uint64_t size_sum = 0;
  for (std::size_t i = 0; i < shard_count; ++i) {
    const JsonView entry = shards.element(i);
    STOKER_ASSIGN(ManifestShard shard, internal::parse_manifest_shard(entry));
    STOKER_TRY(add_to(sample_sum, shard.sample_count, entry));
    STOKER_TRY(add_to(size_sum, shard.file.size_bytes, entry));
    manifest.shards.push_back(std::move(shard));
  }
  STOKER_TRY(check_sum(root, "samples", sample_sum));
  STOKER_TRY(check_sum(root, "size_bytes", size_sum));
  STOKER_ASSIGN(const JsonView files, root.at_or_null("files"));
  if (files.is_null()) return {};
  STOKER_ASSIGN(const std::size_t file_count, files.array_size());
  for (std::size_t i = 0; i < file_count; ++i) {
    STOKER_ASSIGN(ManifestFile file, internal::parse_manifest_file(files.element(i)));
    manifest.files.push_back(std::move(file));
  }
  return {};
}

Status parse_array_dtype(const JsonView& root, Manifest& manifest) {
  STOKER_ASSIGN(const JsonView dtype, root.at_or_null("dtype"));
  if (dtype.is_null()) return {};
  STOKER_ASSIGN(manifest.dtype, dtype.text());
  if (!parse_dtype(manifest.dtype).ok())
    return dtype.corrupt("unknown dtype " + quote_for_message(manifest.dtype));
  return {};
}

/// Whether the text is JSON of another tool, or lines of JSON, as in audio manifests.
bool is_foreign(std::string_view text) {
  return text.find("\"created_by\"") == std::string_view::npos &&
         (is_json(text) || is_json(text.substr(0, text.find('\n'))));
}

Status check_names(const JsonView& root, const Manifest& manifest) {
  std::unordered_set<std::string_view> seen;
  const auto check = [&](const ManifestFile& file) -> Status {
    if (seen.insert(file.name).second && file.name != kManifestName) return {};
    return root.corrupt(fmt::format("the file {} is a duplicate, or the manifest itself",
                                    quote_for_message(file.name)));
  };
  for (const ManifestShard& shard : manifest.shards) STOKER_TRY(check(shard.file));
  for (const ManifestFile& file : manifest.files) STOKER_TRY(check(file));
  return {};
}

/// Checks the shards of one directory.
Status check_directory(const std::string& directory, const ShardSource& source) {
  const std::string path = internal::key_in(directory, kManifestName);
  const Result<std::string> text = internal::read_whole(source.store(), path, kManifestBytesMax);
  if (text.status().code() == Code::not_found)
    return check_pack_finished(directory, source.store()).with_context(directory);
  STOKER_TRY(text.status());
  if (is_foreign(*text)) return {};
  const Result<Manifest> manifest = parse_manifest(*text);
  if (!manifest.ok()) return manifest.status().with_context(directory);
  std::unordered_map<std::string_view, std::uint64_t> sizes;
  const std::string prefix = internal::key_in(directory, "");
  for (const ShardFile& shard : source.shards()) {
    if (!shard.path.starts_with(prefix)) continue;
    const std::string_view name = std::string_view(shard.path).substr(prefix.size());
    if (name.find('/') == std::string_view::npos) sizes[name] = shard.size_bytes;
  }
  for (const ManifestShard& shard : manifest->shards) {
    const auto found = sizes.find(shard.file.name);
    const std::string name = internal::key_in(directory, shard.file.name);
    if (found == sizes.end())
      return Status(Code::not_found, name +
                                         ": missing, but listed in the manifest; restore it "
                                         "from its source");
    if (found->second != shard.file.size_bytes)
      return Status(Code::corrupt, fmt::format("{}: {} bytes, but the manifest says {}; restore it "
                                               "from its source",
                                               name, found->second, shard.file.size_bytes));
    sizes.erase(found);
  }
  if (sizes.empty()) return {};
  return Status(Code::invalid_argument,
                fmt::format("{}/{}: a shard that is not in the manifest; move it away, or name "
                            "the files to read",
                            directory, sizes.begin()->first));
}

}  // namespace

namespace internal {

Result<ManifestFile> parse_manifest_file(const JsonView& entry) {
  ManifestFile file;
  STOKER_ASSIGN(const JsonView name, entry.at("name"));
  STOKER_ASSIGN(file.name, name.text());
  if (!is_plain_file_name(file.name))
    return name.corrupt("not the name of a file in this directory: " +
                        quote_for_message(file.name));
  STOKER_ASSIGN(const JsonView size, entry.at("size_bytes"));
  STOKER_ASSIGN(file.size_bytes, size.u64(kNumberMax));
  STOKER_ASSIGN(const JsonView sha256, entry.at("sha256"));
  STOKER_ASSIGN(const std::string digits, sha256.text());
  const Result<Sha256Digest> digest = parse_sha256(digits);
  if (!digest.ok()) return sha256.corrupt("not 64 lower-case hexadecimal digits");
  file.sha256 = *digest;
  return file;
}

Result<ManifestShard> parse_manifest_shard(const JsonView& entry) {
  ManifestShard shard;
  STOKER_ASSIGN(shard.file, parse_manifest_file(entry));
  STOKER_ASSIGN(const JsonView samples, entry.at("samples"));
  STOKER_ASSIGN(shard.sample_count, samples.u64(kNumberMax));
  return shard;
}

Json manifest_file_json(const ManifestFile& file) {
  return {
      {"name", file.name}, {"size_bytes", file.size_bytes}, {"sha256", format_hex(file.sha256)}};
}

Json manifest_shard_json(const ManifestShard& shard) {
  return {{"name", shard.file.name},
          {"size_bytes", shard.file.size_bytes},
          {"samples", shard.sample_count},
          {"sha256", format_hex(shard.file.sha256)}};
}

}  // namespace internal

std::uint64_t Manifest::sample_count() const noexcept {
  std::uint64_t sum = 0;
  for (const ManifestShard& shard : shards) sum += shard.sample_count;
  return sum;
}

std::uint64_t Manifest::size_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const ManifestShard& shard : shards) sum += shard.file.size_bytes;
  return sum;
}

Result<Manifest> parse_manifest(std::string_view text) {
  STOKER_ASSIGN(const Json document,
                parse_strict_json(text, kManifestName,
                                  {.text_bytes_max = kManifestBytesMax, .depth_max = 8}));
  const JsonView root(document, std::string(kManifestName));
  STOKER_ASSIGN(const JsonView version, root.at("version"));
  STOKER_ASSIGN(const std::uint64_t number, version.u64());
  if (number == 0) return version.corrupt("there is no version 0");
  if (number > kVersion)
    return Status(Code::unsupported, fmt::format("{}: version {} was written by a newer Stoker; "
                                                 "update this one to read it",
                                                 kManifestName, number));
  Manifest manifest;
  STOKER_ASSIGN(const JsonView format, root.at("format"));
  STOKER_ASSIGN(manifest.format, format.text());
  STOKER_TRY(parse_array_dtype(root, manifest));
  STOKER_ASSIGN(const JsonView types, root.at_or_null("types"));
  if (!types.is_null()) {
    STOKER_ASSIGN(manifest.types, parse_field_types(types));
  }
  STOKER_ASSIGN(const JsonView created_by, root.at("created_by"));
  STOKER_ASSIGN(manifest.created_by, created_by.text());
  STOKER_TRY(parse_entries(root, manifest));
  STOKER_TRY(check_names(root, manifest));
  return manifest;
}

std::string format_manifest(const Manifest& manifest) {
  Json shards = Json::array();
  for (const ManifestShard& shard : manifest.shards)
    shards.push_back(internal::manifest_shard_json(shard));
  Json files = Json::array();
  for (const ManifestFile& file : manifest.files)
    files.push_back(internal::manifest_file_json(file));
  Json document = {{"version", kVersion}, {"format", manifest.format}};
  if (!manifest.dtype.empty()) document["dtype"] = manifest.dtype;
  if (!manifest.types.empty()) document["types"] = field_types_json(manifest.types);
  document["shards"] = std::move(shards);
  document["files"] = std::move(files);
  document["samples"] = manifest.sample_count();
  document["size_bytes"] = manifest.size_bytes();
  document["created_by"] = manifest.created_by;
  return document.dump({.indent_spaces = 1}) + "\n";
}

Result<Manifest> read_manifest(const std::string& directory, ObjectStore& store) {
  STOKER_ASSIGN(
      const std::string text,
      internal::read_whole(store, internal::key_in(directory, kManifestName), kManifestBytesMax));
  Result<Manifest> manifest = parse_manifest(text);
  if (!manifest.ok()) return manifest.status().with_context(directory);
  return manifest;
}

PathAt pack_parts_directory(const PathAt& directory) {
  return directory / ".stoker/pack";
}

Status check_pack_finished(const std::string& directory, ObjectStore& store) {
  // An object that cannot be looked up counts as missing.
  if (store.look(internal::key_in(directory, kManifestName)).ok() ||
      !store.look(pack_parts_directory(directory).text()).ok())
    return {};
  return Status(Code::invalid_argument,
                "packing was not finished: run the same stoker pack again, or stoker pack --merge "
                "for one of several tasks");
}

Status check_against_manifest(const ShardSource& source) {
  for (const std::string& directory : source.whole_directories())
    STOKER_TRY(check_directory(directory, source));
  return {};
}

Status publish_manifest(FileOps& ops, const PathAt& directory, const Manifest& manifest) {
  const std::string text = format_manifest(manifest);
  return publish_file(ops, directory / kManifestName, std::as_bytes(std::span(text)));
}

}  // namespace stoker
