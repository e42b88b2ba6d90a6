#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest/manifest.h"
#include "checkpoint/staging/chunk_scan.h"
#include "checkpoint/staging/layout.h"
#include "io/files/file_ops.h"

namespace stoker {

/// The checkpoint whose files may be used once more: the last one that was committed.
struct LinkParent {
  std::string step;  ///< Its name.
  std::vector<CheckpointFile> files = {};
  std::vector<FileInfo> infos = {};  ///< Of each file, when this process wrote or linked it.

  /// The file of that name if its bytes may be linked once more; null otherwise.
  const CheckpointFile* find(std::string_view name, std::uint64_t size_bytes) const noexcept;
  /// Whether `info` is of the regular file that was committed as `file`, and nobody has written to
  /// it since. `file` is what find() has returned.
  bool is_as_committed(const CheckpointFile& file, const FileInfo& info) const noexcept;
};

/// After so many links the bytes are written anew: one bad block must not be in every step.
inline constexpr std::uint32_t kLinksMax = 16;

/// Predicts which tensors will not have changed and keeps them in the same groups from save to
/// save, so that a whole file can be linked. It may be wrong: checksums decide.
///
/// Thread safety: none.
class GroupPlanner {
 public:
  struct Limits {
    std::uint64_t group_bytes_max = std::uint64_t{1} << 30;
    std::uint64_t group_bytes_min = std::uint64_t{1}
                                    << 20;  ///< Less is written faster than linked.
  };
  GroupPlanner() : GroupPlanner(Limits()) {}
  explicit GroupPlanner(const Limits& limits) : limits_(limits) {}

  /// For each tensor its group, or kNoGroup: those that were equal in the last two saves, those
  /// that are likely unchanged and were not caught changing, and in the second save those that look
  /// as in the first, so that the third can link them. `plain` is the layout without groups.
  /// `may_look`: the tensors' data is memory that can be read now.
  std::vector<std::uint32_t> plan(std::span<const SaveTensor> tensors,
                                  const CheckpointLayout& plain, bool may_look = true);

  /// What a save has found, for the plans to come.
  void record(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
              std::span<const TensorScan> scans);

 private:
  struct Known {
    TensorType type = TensorType::f32;
    std::vector<std::uint64_t> shape = {};
    std::vector<std::uint64_t> offsets = {};
    std::uint64_t fingerprint = 0;
    bool is_recorded = false;
    bool was_grouped = false;  ///< When the fingerprint was taken: the two kinds do not compare.
    bool has_changed = false;  ///< In its last save.
    bool looks_equal = false;  ///< To the one save before this one.
    std::uint32_t equal_count = 0;
    std::uint32_t group = kNoGroup;
  };

  static bool is_same(const Known& known, const SaveTensor& tensor);
  void look_again(std::span<const SaveTensor> tensors, const CheckpointLayout& plain);
  void dissolve(std::uint32_t group);

  const Limits limits_;
  std::map<std::string, Known, std::less<>> known_;
  std::map<std::uint32_t, std::size_t> member_counts_;  // of each group
  std::uint32_t next_group_ = 0;
};

}  // namespace stoker
