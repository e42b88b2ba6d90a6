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

/// What a writer must know of the checkpoints that are there, and were: the greatest generation,
/// and whether one is an ancestor of what is to be saved. Lists the directory; a manifest is read
/// once.
///
/// Thread safety: none.
class History {
 public:
  explicit History(StoreHandle store) : reader_(std::move(store)) {}

  /// Lists the directory again. A manifest that is damaged is no reason to stop saving; one that
  /// cannot be read for another reason is: it may have the greatest generation.
  Status refresh();

  /// Counts as one that was seen: something is said about a checkpoint of that generation, so that
  /// no other may get it.
  void learn_generation(std::uint64_t generation) noexcept;

  /// Of a checkpoint that the caller has just committed as the newest: it need not be looked for.
  Status add(const CatalogLine& line);

  /// As of the last refresh(), and with what was added.
  const Catalog& catalog() const noexcept { return catalog_; }
  /// Knows what was read.
  CatalogReader& reader() noexcept { return reader_; }

  /// The greatest that was ever seen: one that is gone still counts.
  std::uint64_t greatest_generation() const noexcept { return greatest_generation_; }
  /// The one under the step's own name; not one that was superseded.
  const CatalogStep* find(std::uint64_t step) const;
  /// `head` with its line; without one, that of the checkpoint of its step and generation.
  CheckpointParent with_line(CheckpointParent head) const;
  /// Whether `step` is `head` or one of the checkpoints that `head` continues.
  bool is_ancestor(const CatalogStep& step, const std::optional<CheckpointParent>& head) const;
  /// Of a checkpoint that continues `head`: that, and what it continues and is still there.
  Lineage lineage_after(const std::optional<CheckpointParent>& head) const;

 private:
  CatalogReader reader_;
  Catalog catalog_;
  const StepSummary* find_parent(const CheckpointParent& parent) const;

  /// By generation and line: what retention has removed, too.
  std::map<std::pair<std::uint64_t, std::string>, std::shared_ptr<const StepSummary>> ever_;
  std::uint64_t greatest_generation_ = 0;
};

}  // namespace stoker
