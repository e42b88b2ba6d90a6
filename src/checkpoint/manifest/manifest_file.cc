#include "checkpoint/manifest/manifest_file.h"

#include <cerrno>
#include <string>

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

bool is_damage(const Status& status) noexcept {
  // ENXIO: a socket has the name.
  return status.code() == Code::corrupt || status.os_error() == EIO || status.os_error() == ENXIO;
}

bool is_gone(const Status& status) noexcept {
  return status.code() == Code::not_found || status.os_error() == ESTALE;
}

}  // namespace stoker
