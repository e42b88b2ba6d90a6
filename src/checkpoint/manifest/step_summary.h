/// \file
/// The summary of a checkpoint: what is needed to list it, to number the next one and to apply
/// retention. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/manifest/lineage.h"
#include "checkpoint/manifest/manifest.h"
#include "io/files/file_ops.h"

namespace stoker {

struct StepSummary {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
  std::string line = {};  ///< Identifies the checkpoint together with the generation (lineage.h).
  double time_s = 0;      ///< Seconds since 1970, UTC.
  std::uint32_t world_size = 1;
  std::uint64_t size_bytes = 0;    ///< Total size of the files.
  std::uint64_t linked_bytes = 0;  ///< Total size of the files that are links to older ones.
  std::optional<CheckpointParent> parent = {};
  Lineage lineage = {};
  std::map<std::string, double> reference = {};
  /// Number of non-finite values by tensor; tensors without any are left out.
  std::map<std::string, std::uint64_t> nonfinite = {};

  friend bool operator==(const StepSummary&, const StepSummary&) = default;
};

StepSummary summarize(const CheckpointManifest& manifest);

/// Whether `parent` refers to `step`.
bool is_parent(const CheckpointParent& parent, const StepSummary& step);

/// Whether `step` is `before`, or continues it directly or indirectly.
bool continues(const StepSummary& step, const StepSummary& before);

/// A line of the catalog: the summary of the checkpoint `name`, made from the manifest with this
/// inode, size and modification time.
struct CatalogLine {
  std::string name;
  std::uint64_t inode = 0;
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;
  StepSummary summary;

  bool is_of(const FileInfo& manifest) const noexcept {
    return manifest.kind == FileKind::regular && manifest.inode == inode &&
           manifest.size_bytes == size_bytes && manifest.modified_ns == modified_ns;
  }
  friend bool operator==(const CatalogLine&, const CatalogLine&) = default;
};

/// Lines by the name of the checkpoint. In the file a later line replaces an earlier one.
using CatalogLines = std::map<std::string, CatalogLine, std::less<>>;

/// Returns one line of text that begins with its checksum and ends with a line break.
std::string format_catalog_line(const CatalogLine& line);
/// The inverse, without the line break. Returns nothing for any other text.
std::optional<CatalogLine> parse_catalog_line(std::string_view text);

}  // namespace stoker
