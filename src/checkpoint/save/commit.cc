#include "checkpoint/save/commit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "checkpoint/manifest/slices.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace {

/// Tensors that have become different on two ranks.
class Differences {
 public:
  void add(const CheckpointTensor& tensor, std::uint32_t one, std::uint32_t other) {
    if (names_.empty()) {
      first_ = fmt::format("ranks {} and {}", one, other);
      name_ = tensor.name;
      is_slice_ = tensor.shape != tensor.global_shape;
    }
    names_.insert(tensor.name);
  }
  /// Names the first one, and how many there are; OK if there are none.
  Status status() const {
    if (names_.empty()) return {};
    const std::size_t more = names_.size() - 1;
    const std::string advice =
        is_slice_ ? "They have the same slice of it, of which one is stored: make them equal, or "
                    "restore the last checkpoint"
                  : fmt::format(
                        "If this is intended, continue: the next save stores {} for each "
                        "rank",
                        more == 0 ? "it" : "them");
    return {Code::invalid_argument,
            fmt::format("tensor {}{}: {} had the same bytes at an earlier save, and differ now: "
                        "nothing was saved. {}",
                        quote_for_message(name_),
                        more == 0 ? "" : fmt::format(" and {} more", more), first_, advice)};
  }

 private:
  std::set<std::string, std::less<>> names_;
  std::string name_;
  std::string first_;
  bool is_slice_ = false;  // the first one
};

/// Checks that what several ranks have, and one has stored, is the same on all of them.
Status check_copies(std::span<const CheckpointPart> parts) {
  struct Stored {
    const CheckpointTensor* tensor = nullptr;
    std::uint32_t rank = 0;
  };
  std::unordered_multimap<std::string_view, Stored> stored;
  const bool has_copies =
      std::ranges::any_of(parts, [](const CheckpointPart& part) { return !part.copies.empty(); });
  if (!has_copies) return {};
  Differences differences;
  for (const CheckpointPart& part : parts)
    for (const CheckpointTensor& tensor : part.tensors)
      stored.emplace(tensor.name, Stored{.tensor = &tensor, .rank = part.rank});
  for (const CheckpointPart& part : parts) {
    for (const TensorCopy& copy : part.copies) {
      const auto [begin, end] = stored.equal_range(copy.name);
      const auto found = std::find_if(begin, end, [&](const auto& one) {
        return one.second.tensor->offsets == copy.offsets && one.second.tensor->shape == copy.shape;
      });
      if (found == end)
        return Status(
            Code::corrupt,
            fmt::format("rank {} expects that another rank stores tensor {}, and none does",
                        part.rank, quote_for_message(copy.name)));
      if (found->second.tensor->digest != copy.digest)
        differences.add(*found->second.tensor, found->second.rank, part.rank);
    }
  }
  return differences.status();
}

}  // namespace

namespace {

/// Returns the place of each rank; empty if there are no places.
std::vector<std::uint32_t> places_of(const CheckpointManifest& manifest) {
  std::vector<std::uint32_t> places(manifest.places.empty() ? 0 : manifest.world_size);
  for (std::uint32_t place = 0; place < manifest.places.size(); ++place)
    for (const std::uint32_t rank : manifest.places[place].ranks) places.at(rank) = place;
  return places;
}

/// Moves the tensors of a part to the manifest; those that it has become duplicates.
void add_tensors(CheckpointManifest& manifest, CheckpointPart& part,
                 std::map<std::pair<std::string, std::vector<std::uint64_t>>,
                          std::pair<std::size_t, std::uint32_t>>& stored,
                 Differences& differences) {
  for (CheckpointTensor& tensor : part.tensors) {
    const auto [found, is_new] =
        stored.try_emplace({tensor.name, tensor.offsets}, manifest.tensors.size(), part.rank);
    if (is_new) {
      manifest.tensors.push_back(std::move(tensor));
      continue;
    }
    const auto& [index, rank] = found->second;
    const CheckpointTensor& first = manifest.tensors[index];
    if (first.shape != tensor.shape || first.digest != tensor.digest)
      differences.add(first, rank, part.rank);
    manifest.duplicates.push_back(std::move(tensor));
  }
}

}  // namespace

Status merge_parts(CheckpointManifest& manifest, std::vector<CheckpointPart> parts) {
  if (parts.size() != manifest.world_size)
    return Status(Code::corrupt, std::to_string(parts.size()) + " parts from " +
                                     std::to_string(manifest.world_size) + " ranks");
  std::set<std::string> names;
  const std::vector<std::uint32_t> places = places_of(manifest);
  for (std::uint32_t rank = 0; rank < parts.size(); ++rank) {
    CheckpointPart& part = parts[rank];
    if (part.rank != rank)
      return Status(Code::corrupt, "the part of rank " + std::to_string(rank) + " is of rank " +
                                       std::to_string(part.rank));
    const auto first = static_cast<std::uint32_t>(manifest.files.size());
    for (const CheckpointFile& file : part.files) {
      if (!names.insert(file.name).second)
        return Status(Code::corrupt, "two ranks have written " + file.name);
      manifest.files.push_back(file);
      if (!places.empty()) manifest.files.back().place = places[rank];
    }
    for (CheckpointTensor& tensor : part.tensors) tensor.file += first;
    manifest.state_json.push_back(std::move(part.state_json));
  }
  STOKER_TRY(check_copies(parts));
  if (!places.empty()) {
    std::map<std::pair<std::string, std::vector<std::uint64_t>>,
             std::pair<std::size_t, std::uint32_t>>
        stored;
    Differences differences;
    for (CheckpointPart& part : parts) add_tensors(manifest, part, stored, differences);
    return differences.status();
  }
  for (CheckpointPart& part : parts)
    std::ranges::move(part.tensors, std::back_inserter(manifest.tensors));
  return {};
}

namespace {

/// Returns the first tensor, by name, whose slices have too few bytes; null if there is none.
Result<const CheckpointTensor*> find_incomplete(const CheckpointManifest& manifest) {
  struct Sliced {
    const CheckpointTensor* any = nullptr;
    std::uint64_t size_bytes = 0;
  };
  std::unordered_map<std::string_view, Sliced> sliced;
  for (const CheckpointTensor& tensor : manifest.tensors) {
    if (tensor.shape == tensor.global_shape) continue;
    Sliced& all = sliced[tensor.name];
    all.any = &tensor;
    all.size_bytes += tensor.end_bytes - tensor.begin_bytes;
  }
  const CheckpointTensor* least = nullptr;
  for (const auto& [name, all] : sliced) {
    STOKER_ASSIGN(const std::uint64_t whole_bytes,
                  tensor_bytes(all.any->type, all.any->global_shape));
    if (all.size_bytes < whole_bytes && (least == nullptr || name < least->name)) least = all.any;
  }
  return least;
}

}  // namespace

Status check_no_gaps(const CheckpointManifest& manifest) {
  STOKER_ASSIGN(const CheckpointTensor* const incomplete, find_incomplete(manifest));
  if (incomplete == nullptr) return {};
  std::vector<Slice> slices;
  for (const CheckpointTensor& tensor : manifest.tensors) {
    if (tensor.name == incomplete->name)
      slices.push_back({.offsets = tensor.offsets, .shape = tensor.shape});
  }
  const std::optional<Gap> gap = find_gap(slices, incomplete->global_shape);
  if (!gap) return {};
  std::string where;
  for (std::size_t d = 0; d < gap->begin.size(); ++d)
    where += fmt::format("{}{}:{}", d == 0 ? "" : ", ", gap->begin[d], gap->end[d]);
  return Status(Code::invalid_argument,
                fmt::format("tensor {} of shape [{}]: no rank has saved its elements [{}]",
                            quote_for_message(incomplete->name),
                            fmt::join(incomplete->global_shape, ", "), where));
}

}  // namespace stoker
