#include "checkpoint/commit.h"

#include <set>
#include <utility>

#include "checkpoint/commit_names.h"
#include "checkpoint/names.h"
#include "checkpoint/text_file.h"

namespace stoker {
namespace {

// Steps 8 and 9.
Status seal(const CommitRequest& request) {
  FileOps& ops = request.ops;
  const std::string path = request.staging + "/" + std::string(kManifestName);
  STOKER_TRY(create_durable_file(ops, path, format_checkpoint_manifest(request.manifest), true));
  ops.reached("checkpoint.manifest_written");
  for (std::uint32_t rank = 0; rank < request.manifest.world_size; ++rank)
    STOKER_TRY(ops.unlink(request.staging + "/" + part_name(rank)));
  STOKER_TRY(ops.fsync_dir(request.staging));
  ops.reached("checkpoint.directory_synced");
  return {};
}

}  // namespace

Status merge_parts(CheckpointManifest& manifest, std::span<const CheckpointPart> parts) {
  if (parts.size() != manifest.world_size)
    return Status(Code::corrupt, std::to_string(parts.size()) + " parts of " +
                                     std::to_string(manifest.world_size) + " ranks");
  std::set<std::string> names;
  for (std::uint32_t rank = 0; rank < parts.size(); ++rank) {
    const CheckpointPart& part = parts[rank];
    if (part.rank != rank)
      return Status(Code::corrupt, "the part of rank " + std::to_string(rank) + " is of rank " +
                                       std::to_string(part.rank));
    const auto first = static_cast<std::uint32_t>(manifest.files.size());
    for (const CheckpointFile& file : part.files) {
      if (!names.insert(file.name).second)
        return Status(Code::corrupt, "two ranks have written " + file.name);
      manifest.files.push_back(file);
    }
    for (CheckpointTensor tensor : part.tensors) {
      tensor.file += first;
      manifest.tensors.push_back(std::move(tensor));
    }
    manifest.state_json.push_back(part.state_json);
  }
  return {};
}

// 8. Write and fsync manifest.json; remove the part manifests.  9. fsync the staging directory.
// 10. Rename it to its final name without replacing; what a rewound run has left there is renamed
// before.  11. fsync the parent, and the directory it came from.  12. Move `latest`: a temporary
// link, renamed over it, then fsync of both. Before step 10 nothing has the final name, and after
// it everything under it is durable: a reader who sees the name sees all of it.
CommitResult commit_checkpoint(const CommitRequest& request) {
  FileOps& ops = request.ops;
  const CommitPlaces places{.ops = ops, .directory = request.directory, .owner = request.owner};
  const std::uint64_t step = request.manifest.step;
  CommitResult result;
  result.status = seal(request);
  if (result.status.ok() && request.superseded != nullptr)
    result.status = supersede(places, step, request.superseded->generation);
  if (result.status.ok())
    result.status =
        rename_without_replacing(ops, request.staging, request.directory + "/" + step_name(step));
  if (!result.status.ok()) return result;
  ops.reached("checkpoint.renamed");
  result.stage = CommitStage::visible;
  result.status = fsync_places(places);
  if (!result.status.ok()) return result;
  ops.reached("checkpoint.parent_synced");
  result.stage = CommitStage::durable;
  result.status = move_latest(places, step_name(step));
  if (result.status.ok()) result.stage = CommitStage::complete;
  return result;
}

}  // namespace stoker
