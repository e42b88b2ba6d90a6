#include "checkpoint/manifest/manifest_file.h"

#include <cerrno>
#include <string>

#include "formats/json/strict_json.h"
#include "formats/plain_name.h"
#include "io/files/text_file.h"

namespace stoker {
namespace {

constexpr std::size_t kManifestBytesMax = std::size_t{1} << 30;

}  // namespace

Result<CheckpointManifest> read_checkpoint_manifest(FileOps& ops, const PathAt& step) {
  const PathAt path = step / kManifestName;
  STOKER_ASSIGN(const std::string text, read_text_file(ops, path, kManifestBytesMax));
  return parse_checkpoint_manifest(text, path.text());
}

bool is_dataset(FileOps& ops, const PathAt& directory) {
  const Result<std::string> text =
      read_text_file(ops, directory / kManifestName, kManifestBytesMax);
  // Most manifests of checkpoints do not contain this word and need not be parsed.
  if (!text.ok() || text->find("\"shards\"") == std::string::npos) return false;
  const Result<Json> manifest = parse_strict_json(*text, "", {.text_bytes_max = text->size()});
  if (!manifest.ok() || !manifest->is_object()) return false;
  const Json* const shards = manifest->find("shards");
  return shards != nullptr && shards->is_array();
}

bool is_damage(const Status& status) noexcept {
  // ENXIO: a socket has the name.
  return status.code() == Code::corrupt || status.os_error() == EIO || status.os_error() == ENXIO;
}

bool is_gone(const Status& status) noexcept {
  return status.code() == Code::not_found || status.os_error() == ESTALE;
}

}  // namespace stoker
