#include "checkpoint/inspect/diff.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "checkpoint/inspect/element_values.h"
#include "checkpoint/restore/tensor_boxes.h"

namespace stoker {
namespace {

/// Whether both slices have the same offset in their files, and all their chunks equal checksums.
bool is_slice_equal(const CheckpointManifest& a, const CheckpointTensor& in_a,
                    const CheckpointManifest& b, const CheckpointTensor& in_b) {
  if (in_a.offsets != in_b.offsets || in_a.shape != in_b.shape) return false;
  if (in_a.begin_bytes == in_a.end_bytes) return true;
  if (in_a.begin_bytes != in_b.begin_bytes) return false;
  const CheckpointFile& file_a = a.files[in_a.file];
  const CheckpointFile& file_b = b.files[in_b.file];
  const std::uint64_t last = (in_a.end_bytes - 1) / kCheckpointChunkBytes;
  for (std::uint64_t i = in_a.begin_bytes / kCheckpointChunkBytes; i <= last; ++i)
    if (file_a.chunks[i] != file_b.chunks[i]) return false;
  return true;
}

bool is_equal_by_checksums(const CheckpointReader& before, const TensorInfo& old,
                           const CheckpointReader& after, const TensorInfo& now) {
  const std::span<const std::uint32_t> old_slices = before.slices_of(old);
  const std::span<const std::uint32_t> slices = after.slices_of(now);
  if (old_slices.size() != slices.size()) return false;
  std::map<std::vector<std::uint64_t>, const CheckpointTensor*> by_offset;
  for (const std::uint32_t i : old_slices)
    by_offset[before.manifest().tensors[i].offsets] = &before.manifest().tensors[i];
  return std::ranges::all_of(slices, [&](std::uint32_t i) {
    const CheckpointTensor& tensor = after.manifest().tensors[i];
    const auto found = by_offset.find(tensor.offsets);
    return found != by_offset.end() &&
           is_slice_equal(before.manifest(), *found->second, after.manifest(), tensor);
  });
}

/// Accumulates the differences of one tensor, piece by piece.
class Comparison {
 public:
  Comparison(const TensorInfo& tensor, TensorChange& change) : tensor_(tensor), change_(change) {
    change_.has_norms = has_element_values(tensor.type);
    const std::size_t bits = tensor_type_bits(tensor.type);
    element_bytes_ = bits % 8 == 0 ? bits / 8 : 0;
    if (element_bytes_ > 0) change_.element_count = tensor.size_bytes / element_bytes_;
  }

  bool has_changed() const { return has_changed_; }

  void add(std::span<const std::byte> old, std::span<const std::byte> now) {
    if (std::memcmp(old.data(), now.data(), old.size()) == 0) return;
    has_changed_ = true;
    for (std::size_t at = 0; element_bytes_ > 0 && at < old.size(); at += element_bytes_)
      if (std::memcmp(old.data() + at, now.data() + at, element_bytes_) != 0)
        ++change_.changed_count;
    if (change_.has_norms) add_norms(old, now);
  }

  /// Computes the norm, after all pieces were added.
  void finish() { change_.l2 = std::sqrt(squares_); }

 private:
  void add_norms(std::span<const std::byte> old, std::span<const std::byte> now) {
    constexpr std::size_t kTurn = 256;
    const std::size_t size = element_value_bytes(tensor_.type);
    double before[kTurn];
    double after[kTurn];
    for (std::size_t at = 0; at < old.size(); at += kTurn * size) {
      const std::size_t bytes = std::min(old.size() - at, kTurn * size);
      const std::size_t count = bytes / size;
      element_values(tensor_.type, old.subspan(at, bytes), std::span(before, count));
      element_values(tensor_.type, now.subspan(at, bytes), std::span(after, count));
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t place = at + i * size;
        if (std::memcmp(old.data() + place, now.data() + place, size) == 0) continue;
        const double difference = std::abs(after[i] - before[i]);
        if (!std::isfinite(difference)) {
          ++change_.nonfinite_count;
          continue;
        }
        squares_ += difference * difference;
        change_.max_abs = std::max(change_.max_abs, difference);
      }
    }
  }

  const TensorInfo& tensor_;
  TensorChange& change_;
  std::size_t element_bytes_ = 0;
  double squares_ = 0;
  bool has_changed_ = false;
};

class Differ {
 public:
  Differ(const CheckpointReader& before, const CheckpointReader& after, const DiffOptions& options)
      : before_(before), after_(after), options_(options) {}

  Result<CheckpointDiff> run() {
    for (const TensorInfo& now : after_.tensors()) total_bytes_ += now.size_bytes;
    for (const TensorInfo& old : before_.tensors())
      if (after_.find(old.name) == nullptr) diff_.removed.push_back(old.name);
    for (const TensorInfo& now : after_.tensors()) {
      const TensorInfo* old = before_.find(now.name);
      if (old == nullptr)
        diff_.added.push_back(now.name);
      else
        STOKER_TRY(compare(*old, now));
      tensors_bytes_ += now.size_bytes;
      show(0);
    }
    return std::move(diff_);
  }

 private:
  void show(std::uint64_t piece_bytes) const {
    if (options_.progress) options_.progress(tensors_bytes_ + piece_bytes, total_bytes_);
  }

  Status compare(const TensorInfo& old, const TensorInfo& now) {
    TensorChange change{.name = now.name};
    if (old.type != now.type || old.shape != now.shape) {
      change.is_reshaped = true;
      diff_.changed.push_back(std::move(change));
      return {};
    }
    if (is_equal_by_checksums(before_, old, after_, now)) {
      ++diff_.unchanged_count;
      return {};
    }
    Comparison comparison(now, change);
    std::uint64_t done_bytes = 0;
    STOKER_TRY(for_each_box(now.type, now.shape, options_.piece_bytes, [&](const TensorBox& box) {
      const Status status = compare_box(now, box, comparison);
      show(done_bytes += box.size_bytes);
      return status;
    }));
    comparison.finish();
    if (comparison.has_changed())
      diff_.changed.push_back(std::move(change));
    else
      ++diff_.unchanged_count;
    return {};
  }

  Status compare_box(const TensorInfo& tensor, const TensorBox& box, Comparison& comparison) {
    old_bytes_.resize(box.size_bytes);
    now_bytes_.resize(box.size_bytes);
    ReadTarget target{.name = tensor.name, .offsets = box.offsets, .shape = box.shape};
    target.memory = old_bytes_;
    STOKER_TRY(before_.read(target));
    target.memory = now_bytes_;
    STOKER_TRY(after_.read(target));
    diff_.compared_bytes += box.size_bytes;
    comparison.add(old_bytes_, now_bytes_);
    return {};
  }

  const CheckpointReader& before_;
  const CheckpointReader& after_;
  const DiffOptions& options_;
  CheckpointDiff diff_;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t tensors_bytes_ = 0;  // of the finished tensors
  std::vector<std::byte> old_bytes_;
  std::vector<std::byte> now_bytes_;
};

}  // namespace

Result<CheckpointDiff> diff_checkpoints(const CheckpointReader& before,
                                        const CheckpointReader& after, const DiffOptions& options) {
  return Differ(before, after, options).run();
}

}  // namespace stoker
