#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/restore/reader.h"
#include "stoker/status.h"
#include "stoker/tree.h"

namespace stoker::internal {

/// Matches saved trees with those in memory, before the first byte is read, as
/// python/stoker/_checkpoint/fit does: collects the memory to read tensors into, and the places
/// that do not fit. The trees in memory are not changed.
///
/// Thread safety: none.
class TreeFit {
 public:
  struct Options {
    std::string source = {};  ///< "step 100", for messages.
    bool is_strict = true;    ///< Names that were not saved do not fit; otherwise they stay.
    bool is_staged = false;   ///< Read into memory of its own; copy() fills that of the caller.
  };
  /// The reader is borrowed.
  TreeFit(const CheckpointReader& reader, Options options)
      : reader_(reader), options_(std::move(options)) {}

  /// Returns the tree as it will be in memory. `path` begins the names of places.
  Tree fit(const Tree& saved, const Tree& have, const std::string& path);
  /// Adds a place that does not fit.
  void refuse(std::string line) { lines_.push_back(std::move(line)); }

  /// `invalid_argument` with the first places that do not fit, and how many there are.
  Status check() const;
  /// What to read, after check().
  std::vector<ReadTarget> targets() const;
  /// Whether reading changes memory of the caller.
  bool fills_memory() const noexcept { return fills_memory_; }
  /// Fills memory of the caller from staged memory, after everything was read.
  void copy() const;

  /// Names in memory that were not saved, if it is not strict.
  const std::vector<std::string>& missing() const noexcept { return missing_; }

 private:
  struct Staged {
    std::shared_ptr<void> memory;
    TensorView into;
  };

  Tree create(const Tree& saved, const std::string& path);
  Tree create_tensor(const Tree& saved, const std::string& path);
  Tree fit_tensor(const Tree& saved, const Tree& have, const std::string& path);
  Tree fit_list(const Tree& saved, const Tree& have, const std::string& path);
  Tree fit_map(const Tree& saved, const Tree& have, const std::string& path);
  void add_target(const std::string& name, const TensorView& view, const std::string& path);
  void add_missing(const std::string& path, const std::string& name);

  const CheckpointReader& reader_;
  const Options options_;
  std::vector<std::string> lines_;
  std::vector<std::string> missing_;
  std::vector<ReadTarget> targets_;
  std::map<const std::byte*, std::size_t> places_;  // of targets, by the first element
  std::map<std::string, TensorView> made_;          // by the stored name
  std::vector<Staged> staged_;
  bool fills_memory_ = false;
};

}  // namespace stoker::internal
