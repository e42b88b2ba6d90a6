/// \file
/// `.catalog`: summaries of the checkpoints in a directory, so that their manifests need not be
/// read to list them. A cache: it may be deleted at any time, a line counts only for the very
/// manifest it was made from, and nothing is removed because of what it says.
#pragma once

#include <cstdint>

#include "base/unique_fd.h"
#include "checkpoint/directory/owner_directory.h"
#include "checkpoint/manifest/step_summary.h"

namespace stoker {

/// What the file says; nothing where it is missing, or cannot be read.
CatalogLines read_catalog_file(const CheckpointDirectory& directory);

/// Writes a catalog anew and adds lines to it. For the holder of the writer's lock. Failures are
/// not told: who has no catalog reads manifests.
///
/// Thread safety: none.
class CatalogWriter final : public CatalogKeeper {
 public:
  /// Stages a file in the owner's directory and renames it to `.catalog`.
  CatalogWriter(const OwnerDirectory& owner, const CatalogLines& lines);

  void add(const CatalogLine& line) override;

 private:
  FileOps& ops_;
  UniqueFd fd_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace stoker
