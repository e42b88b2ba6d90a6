#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/manifest/manifest.h"
#include "checkpoint/staging/chunk_scan.h"
#include "checkpoint/staging/layout.h"
#include "io/files/file_ops.h"

namespace stoker {

/// The checkpoint whose files may be linked: the last committed one.
struct LinkParent {
  std::string step;  ///< Name of the checkpoint.
  std::vector<CheckpointFile> files = {};
  std::vector<FileInfo> infos = {};  ///< One for each file, when this process wrote or linked it.

  /// Returns the file with that name and size if it may be linked once more; null otherwise.
  const CheckpointFile* find(std::string_view name, std::uint64_t size_bytes) const noexcept;
  /// Whether `info` is that of the regular file that was committed as `file`, and the file was not
  /// written to since. `file` must be a result of find().
  bool is_as_committed(const CheckpointFile& file, const FileInfo& info) const noexcept;
};

/// After this many links in a row a file is written again, so that one bad block does not affect
/// every checkpoint.
inline constexpr std::uint32_t kLinksMax = 16;

/// Predicts which tensors will be unchanged, and keeps them in the same groups from save to save,
/// so that a whole file can be linked. The prediction may be wrong: checksums decide.
///
/// Thread safety: none.
class GroupPlanner {
 public:
  struct Limits {
    std::uint64_t group_bytes_max = std::uint64_t{1} << 30;
    std::uint64_t group_bytes_min = std::uint64_t{1}
                                    << 20;  ///< Smaller groups are faster to write than to link.
  };
  GroupPlanner() : GroupPlanner(Limits()) {}
  explicit GroupPlanner(const Limits& limits) : limits_(limits) {}

  /// Returns the group of each tensor, or kNoGroup. Grouped are tensors that were equal in the last
  /// two saves; those marked `likely_unchanged` that have not changed so far; and, in the second
  /// save, those with the fingerprint of the first, so that the third can link them. `plain` is the
  /// layout without groups. `may_look`: SaveTensor::data can be read now.
  std::vector<std::uint32_t> plan(std::span<const SaveTensor> tensors,
                                  const CheckpointLayout& plain, bool may_look = true);

  /// Records the scans of a save, for later plans.
  void record(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
              std::span<const TensorScan> scans);

 private:
  struct Known {
    TensorType type = TensorType::f32;
    std::vector<std::uint64_t> shape = {};
    std::vector<std::uint64_t> offsets = {};
    std::uint64_t fingerprint = 0;
    bool is_recorded = false;
    bool was_grouped = false;  ///< At the time of `fingerprint`, which depends on it.
    bool has_changed = false;  ///< In the last save.
    bool looks_equal = false;  ///< Same fingerprint as in the only earlier save.
    std::uint32_t equal_count = 0;
    std::uint32_t group = kNoGroup;
  };

  static bool is_same(const Known& known, const SaveTensor& tensor);
  /// `known_of` has an entry for each tensor.
  static void look_again(std::span<const SaveTensor> tensors, std::span<Known* const> known_of,
                         const CheckpointLayout& plain);
  void dissolve(std::uint32_t group);

  const Limits limits_;
  std::unordered_map<std::string, Known> known_;
  std::map<std::uint32_t, std::size_t> member_counts_;  // by group
  std::uint32_t next_group_ = 0;
};

}  // namespace stoker
