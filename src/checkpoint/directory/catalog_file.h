/// \file
/// `.catalog`: summaries of the checkpoints in a directory, so that listing them need not read
/// their manifests. A cache: it may be deleted at any time, a line is valid only for the manifest
/// it was made from, and no checkpoint is removed because of it.
#pragma once

#include <cstdint>

#include "base/unique_fd.h"
#include "checkpoint/directory/owner_directory.h"
#include "checkpoint/manifest/step_summary.h"

namespace stoker {

/// Reads the file; returns no lines if it is missing or unreadable.
CatalogLines read_catalog_file(const CheckpointDirectory& directory);

/// Writes a new catalog and adds lines to it. For the holder of the writer's lock. Failures are
/// not reported: readers without a catalog read the manifests.
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
