#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/manifest/manifest.h"

namespace stoker {

/// What a writer must know about existing and removed checkpoints: the greatest generation, and
/// which of them are ancestors of the next save. Reads each manifest once.
///
/// Thread safety: none.
class History {
 public:
  explicit History(StoreHandle store) : reader_(std::move(store)) {}

  /// Lists the store again. Damaged manifests are accepted. One that cannot be read for another
  /// reason is an error, if its generation is unknown: it may be the greatest.
  Status refresh();

  /// Adds a generation that must not be used again, for example because a note refers to it.
  void learn_generation(std::uint64_t generation) noexcept;

  /// Adds a checkpoint that the caller has just committed as the newest.
  Status add(const CatalogLine& line);

  /// The catalog of the last refresh(), with the checkpoints added since.
  const Catalog& catalog() const noexcept { return catalog_; }
  /// The reader that has read the manifests.
  CatalogReader& reader() noexcept { return reader_; }

  /// The greatest generation ever seen, including removed checkpoints.
  std::uint64_t greatest_generation() const noexcept { return greatest_generation_; }
  /// Returns the checkpoint with the step's own name, never a superseded one; null if none.
  const CatalogStep* find(std::uint64_t step) const;
  /// Returns `head`; if it has no line, with that of the checkpoint of its step and generation.
  CheckpointParent with_line(CheckpointParent head) const;
  /// Whether `step` is `head` or one of the checkpoints that `head` continues.
  bool is_ancestor(const CatalogStep& step, const std::optional<CheckpointParent>& head) const;
  /// Returns the lineage of a checkpoint that continues `head`: `head` and what it continues,
  /// without the ranges that retention no longer needs.
  Lineage lineage_after(const std::optional<CheckpointParent>& head) const;

 private:
  CatalogReader reader_;
  Catalog catalog_;
  const StepSummary* find_parent(const CheckpointParent& parent) const;

  /// Every checkpoint seen, including removed ones, by generation and line.
  std::map<std::pair<std::uint64_t, std::string>, std::shared_ptr<const StepSummary>> ever_;
  std::uint64_t greatest_generation_ = 0;
};

}  // namespace stoker
