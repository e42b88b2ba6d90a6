#include "dataset/pack/pack_part.h"

#include <utility>

#include "dataset/index/index.h"
#include "dataset/pack/pack_paths.h"
#include "dataset/shards/dataset_manifest_json.h"
#include "dataset/shards/shard_source.h"
#include "formats/json/strict_json.h"
#include "io/files/publish.h"

namespace stoker {
namespace {

constexpr std::size_t kPartBytesMax = std::size_t{16} << 20;

/// The members of a part that list fields, which are left out if empty.
constexpr std::pair<const char*, FieldLosses::Names FieldLosses::*> kLosses[] = {
    {"rounded", &FieldLosses::rounded}, {"flattened", &FieldLosses::flattened}};

PathAt part_path(const PathAt& directory, const std::string& shard_name) {
  return pack_parts_directory(directory) / (shard_name + ".json");
}

}  // namespace

PathAt pack_part_index(const PathAt& directory, const std::string& shard_name) {
  return pack_parts_directory(directory) / (shard_name + ".index");
}

Status publish_pack_part(FileOps& ops, const PathAt& directory, const PackPart& part,
                         std::span<const ByteRange> records,
                         std::span<const std::uint32_t> checksums) {
  const std::string& name = part.shard.file.name;
  IndexWriter index("part", true);
  index.add_shard(name, part.shard.file.size_bytes, part.shard.file.size_bytes, 0);
  for (std::size_t i = 0; i < records.size(); ++i)
    STOKER_TRY(index.add_sample(records[i], checksums[i]).with_context(name));
  STOKER_TRY(publish_file(ops, pack_part_index(directory, name), index.finish()));

  Json files = Json::array();
  for (const ManifestFile& file : part.files) files.push_back(internal::manifest_file_json(file));
  Json document = {{"plan", part.plan_hash},
                   {"shard", internal::manifest_shard_json(part.shard)},
                   {"files", std::move(files)},
                   {"mds_index", part.mds_index}};
  if (part.types) document["types"] = field_types_json(*part.types);
  for (const auto& [name, fields] : kLosses)
    if (const FieldLosses::Names& names = part.losses.*fields; !names.empty())
      document[name] = Json::array_of(names);
  const std::string text = document.dump() + "\n";
  return publish_file(ops, part_path(directory, name), std::as_bytes(std::span(text)));
}

Result<PackPart> read_pack_part(const PathAt& directory, const std::string& shard_name) {
  const PathAt file = part_path(directory, shard_name);
  const std::string& path = file.text();
  STOKER_ASSIGN(const std::string text, read_own_file(file, kPartBytesMax));
  STOKER_ASSIGN(const Json document, parse_strict_json(text, path));
  const JsonView root(document, path);
  PackPart part;
  STOKER_ASSIGN(const JsonView plan, root.at("plan"));
  STOKER_ASSIGN(part.plan_hash, plan.text());
  STOKER_ASSIGN(const JsonView shard, root.at("shard"));
  STOKER_ASSIGN(part.shard, internal::parse_manifest_shard(shard));
  if (part.shard.file.name != shard_name) return shard.corrupt("describes another shard");
  STOKER_ASSIGN(const JsonView files, root.at("files"));
  STOKER_ASSIGN(const std::size_t count, files.array_size());
  for (std::size_t i = 0; i < count; ++i) {
    STOKER_ASSIGN(ManifestFile named, internal::parse_manifest_file(files.element(i)));
    part.files.push_back(std::move(named));
  }
  STOKER_ASSIGN(const JsonView types, root.at_or_null("types"));
  if (!types.is_null()) {
    STOKER_ASSIGN(part.types, parse_field_types(types));
  }
  for (const auto& [name, fields] : kLosses) {
    STOKER_ASSIGN(const JsonView names, root.at_or_null(name));
    const std::size_t name_count = names.value().size();
    for (std::size_t i = 0; i < name_count; ++i) {
      STOKER_ASSIGN(std::string field, names.element(i).text());
      (part.losses.*fields).insert(std::move(field));
    }
  }
  STOKER_ASSIGN(const JsonView mds_index, root.at("mds_index"));
  STOKER_ASSIGN(part.mds_index, mds_index.text());
  return part;
}

void remove_pack_part(FileOps& ops, const PathAt& directory, const std::string& shard_name) {
  static_cast<void>(ops.unlink(part_path(directory, shard_name)));
  static_cast<void>(ops.unlink(pack_part_index(directory, shard_name)));
}

}  // namespace stoker
