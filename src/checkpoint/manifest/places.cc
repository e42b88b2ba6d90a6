#include "checkpoint/manifest/places.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "checkpoint/manifest/manifest_check.h"
#include "checkpoint/manifest/names.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace {

using Slot = std::pair<std::string_view, std::span<const std::uint64_t>>;

struct IsBefore {
  bool operator()(const Slot& a, const Slot& b) const {
    if (a.first != b.first) return a.first < b.first;
    return std::ranges::lexicographical_compare(a.second, b.second);
  }
};

/// The tensors of a manifest, by name and offsets.
template <typename Tensors>
auto by_slot(Tensors& tensors) {
  std::map<Slot, decltype(tensors.data()), IsBefore> found;
  for (auto& tensor : tensors) found.emplace(Slot(tensor.name, tensor.offsets), &tensor);
  return found;
}

Status corrupt(std::string_view what, std::string_view message) {
  return {Code::corrupt, fmt::format("{}: {}", what, message)};
}

Status check_ranks(const CheckpointManifest& manifest, std::string_view what) {
  std::uint64_t count = 0;
  for (const CheckpointPlace& place : manifest.places) count += place.ranks.size();
  if (count != manifest.world_size)  // first: then a small text makes no large vector
    return corrupt(what, fmt::format("\"places\" have {} of {} ranks", count, manifest.world_size));
  std::vector<bool> is_placed(manifest.world_size);
  for (const CheckpointPlace& place : manifest.places) {
    for (const std::uint32_t rank : place.ranks) {
      if (rank >= manifest.world_size || is_placed[rank])
        return corrupt(
            what, fmt::format("\"places\": rank {} of {}, or twice", rank, manifest.world_size));
      is_placed[rank] = true;
    }
  }
  return {};
}

}  // namespace

Status check_places(const CheckpointManifest& manifest, std::string_view what) {
  const bool has_places = !manifest.places.empty();
  for (const CheckpointFile& file : manifest.files)
    if (file.place != 0 && file.place >= manifest.places.size())
      return corrupt(what,
                     fmt::format("the file {} is in place {} of {}", quote_for_message(file.name),
                                 file.place, manifest.places.size()));
  if (!has_places && manifest.duplicates.empty()) return {};
  if (has_places) STOKER_TRY(check_ranks(manifest, what));
  STOKER_TRY(internal::check_duplicate_entries(manifest.files, manifest.tensors,
                                               manifest.duplicates, what));
  const auto stored = by_slot(manifest.tensors);
  std::set<std::pair<const CheckpointTensor*, std::uint32_t>> taken;
  for (const CheckpointTensor& tensor : manifest.duplicates) {
    const auto found = stored.find(Slot(tensor.name, tensor.offsets));
    const CheckpointTensor* const first = found == stored.end() ? nullptr : found->second;
    const bool is_same = first != nullptr && first->type == tensor.type &&
                         first->shape == tensor.shape &&
                         first->global_shape == tensor.global_shape && first->digest &&
                         first->digest == tensor.digest;
    const std::uint32_t place = manifest.files[tensor.file].place;
    if (!is_same || manifest.files[first->file].place == place ||
        !taken.emplace(first, place).second)
      return corrupt(what, fmt::format("the duplicate of tensor {} in {} is not that of another "
                                       "place",
                                       quote_for_message(tensor.name),
                                       quote_for_message(manifest.files[tensor.file].name)));
  }
  return {};
}

Status find_places(CheckpointManifest& manifest, std::span<const std::string> names,
                   std::string_view what) {
  if (manifest.places.empty()) return {};
  std::set<std::uint32_t> here;
  for (const std::string& name : names) {
    const std::optional<std::uint32_t> place = parse_place_name(name);
    if (!place) continue;
    if (*place >= manifest.places.size())
      return corrupt(what, fmt::format("has {}, but only {} nodes have saved it", name,
                                       manifest.places.size()));
    here.insert(*place);
  }
  if (here.empty())
    return corrupt(what, fmt::format("no file {} says which node's files it has", place_name(0)));
  for (CheckpointFile& file : manifest.files) file.is_elsewhere = !here.contains(file.place);
  if (here.size() == manifest.places.size()) return {};
  const auto stored = by_slot(manifest.tensors);
  for (CheckpointTensor& duplicate : manifest.duplicates) {
    if (manifest.files[duplicate.file].is_elsewhere) continue;
    CheckpointTensor& tensor = *stored.at(Slot(duplicate.name, duplicate.offsets));
    if (!manifest.files[tensor.file].is_elsewhere) continue;
    std::swap(tensor.file, duplicate.file);
    std::swap(tensor.begin_bytes, duplicate.begin_bytes);
    std::swap(tensor.end_bytes, duplicate.end_bytes);
  }
  return {};
}

std::string place_text(const CheckpointManifest& manifest, const CheckpointFile& file) {
  const CheckpointPlace& place = manifest.places.at(file.place);
  return fmt::format("on the disk of {} ({} {})", quote_for_message(place.host),
                     place.ranks.size() == 1 ? "rank" : "ranks", fmt::join(place.ranks, ", "));
}

}  // namespace stoker
