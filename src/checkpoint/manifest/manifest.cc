#include "checkpoint/manifest/manifest.h"

#include <fmt/format.h>

#include <charconv>
#include <deque>
#include <limits>
#include <optional>

#include "checkpoint/manifest/manifest_check.h"
#include "checkpoint/manifest/manifest_json.h"
#include "checkpoint/manifest/sealed_json.h"
#include "checkpoint/manifest/state_references.h"
#include "formats/json/json_text.h"
#include "formats/json/plain_json.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace {

using internal::number_at;
using internal::text_at;

/// A hundred thousand tensors and a million chunks take about 60 MB.
constexpr StrictJsonLimits kLimits = {.text_bytes_max = std::size_t{512} << 20};
constexpr std::uint64_t kU32Max = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kU64Max = std::numeric_limits<std::uint64_t>::max();

/// Returns the major version of a text such as "1.0".
Result<std::uint64_t> major_of(const JsonView& version) {
  STOKER_ASSIGN(const std::string text, version.text());
  std::uint64_t major = 0;
  std::uint64_t minor = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, major);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == '.') {
    const auto second = std::from_chars(first.ptr + 1, end, minor);
    if (second.ec == std::errc() && second.ptr == end && major > 0) return major;
  }
  return version.corrupt("not a version: " + quote_for_message(text));
}

/// Checks format, version, checksum and chunk size, before anything else is parsed.
Status check_head(const JsonView& root, std::string_view format) {
  STOKER_ASSIGN(const std::string said, text_at(root, "format"));
  if (said != format) {
    return root.corrupt(fmt::format("is {}, not \"{}\"", quote_for_message(said), format));
  }
  STOKER_ASSIGN(const JsonView version, root.at("format_version"));
  STOKER_ASSIGN(const std::uint64_t major, major_of(version));
  if (major > internal::kManifestMajor) {
    return {Code::unsupported, fmt::format("{}: version {} was written by a newer Stoker; update "
                                           "this one to read it",
                                           root.path(), quote_for_message(*version.text()))};
  }
  STOKER_ASSIGN(const std::string checksum, text_at(root, "checksum"));
  STOKER_ASSIGN(const std::uint64_t chunk_bytes, number_at(root, "chunk_bytes"));
  if (checksum != internal::kManifestChecksum || chunk_bytes != kCheckpointChunkBytes) {
    return {Code::unsupported,
            fmt::format("{}: chunks of {} bytes with the checksum {}; only {} and {} are supported",
                        root.path(), chunk_bytes, quote_for_message(checksum),
                        kCheckpointChunkBytes, internal::kManifestChecksum)};
  }
  return {};
}

/// Returns the text of the member `key`; "null" if there is none.
std::string member_text(const std::vector<std::pair<std::string, std::string_view>>& members,
                        std::string_view key) {
  for (const auto& [name, text] : members) {
    if (name == key) return std::string(text);
  }
  return "null";
}

Status parse_numbers(const JsonView& root, CheckpointManifest& manifest) {
  STOKER_ASSIGN(manifest.tool, text_at(root, "tool"));
  STOKER_ASSIGN(manifest.step, number_at(root, "step", kU64Max));
  STOKER_ASSIGN(manifest.generation, number_at(root, "generation", kGenerationMax));
  STOKER_ASSIGN(manifest.line, internal::line_at(root));
  STOKER_ASSIGN(const JsonView time, root.at("time_s"));
  STOKER_ASSIGN(manifest.time_s, internal::double_of(time));
  STOKER_ASSIGN(const std::uint64_t world_size, number_at(root, "world_size", kU32Max));
  if (world_size == 0) return root.corrupt("\"world_size\" is 0");
  manifest.world_size = static_cast<std::uint32_t>(world_size);
  STOKER_TRY(
      internal::parse_ancestors(root, manifest.generation, manifest.parent, manifest.lineage));
  STOKER_ASSIGN(const JsonView reference, root.at_or_null("reference"));
  if (reference.is_null()) return {};
  STOKER_ASSIGN(manifest.reference, internal::doubles_of(reference));
  return {};
}

Status parse_trees(const JsonView& root, std::string_view text, std::size_t tree_count,
                   CheckpointManifest& manifest) {
  const auto members = json_member_texts(text);
  manifest.extra_json = member_text(members, "extra");
  manifest.cursor_json = member_text(members, "cursor");
  STOKER_ASSIGN(const JsonView state, root.at("state"));
  STOKER_TRY(state.array_size().status());
  if (tree_count != 0 && tree_count != manifest.world_size) {
    return state.corrupt(fmt::format("{} trees for {} ranks", tree_count, manifest.world_size));
  }
  const std::string trees = member_text(members, "state");
  for (const std::string_view tree : json_element_texts(trees)) {
    manifest.state_json.emplace_back(tree);
  }
  return {};
}

/// What is read one by one from a document, and is then absent from it.
struct Entries {
  std::vector<CheckpointTensor> tensors;
  std::vector<TensorCopy> copies;
  std::deque<Json> trees;            ///< Those that are different.
  std::vector<const Json*> tree_of;  ///< The tree of each rank.
};

/// Appends what `parse` makes of an element. Returns false if it fails.
template <typename Entry>
bool take_entry(const Json* element, Result<Entry> (*parse)(const JsonView&),
                std::vector<Entry>& entries) {
  if (element == nullptr) {
    entries.push_back(Entry(entries.back()));
    return true;
  }
  Result<Entry> parsed = parse(JsonView(*element, ""));
  if (parsed.ok()) entries.push_back(*std::move(parsed));
  return parsed.ok();
}

/// Parses a manifest or a part manifest, and checks its checksum and head. Tensors, copies and the
/// trees of a manifest are usually read one by one; if anything is wrong with them, all of them are
/// in the result, so that messages have their places.
Result<Json> parse_document(std::string_view text, std::string_view what, std::string_view format,
                            Entries& entries) {
  STOKER_TRY(check_json_seal(text, what));
  ElementTakers takers = {
      {"tensors",
       [&](Json* one) { return take_entry(one, internal::parse_tensor, entries.tensors); }},
      {"copies", [&](Json* one) { return take_entry(one, internal::parse_copy, entries.copies); }}};
  if (format == internal::kManifestFormat)
    takers["state"] = [&](Json* tree) {
      if (tree != nullptr) entries.trees.push_back(std::move(*tree));
      entries.tree_of.push_back(&entries.trees.back());
      return true;
    };
  std::optional<Json> document = try_parse_json(text, kLimits, takers);
  if (!document) {
    entries = {};
    STOKER_ASSIGN(document, parse_strict_json(text, what, kLimits));
  }
  STOKER_TRY(check_head(JsonView(*document, std::string(what)), format));
  return *std::move(document);
}

}  // namespace

Status check_state_json(std::string_view text, std::string_view what) {
  const auto parsed = parse_strict_json(text, what, {.depth_max = kStateDepthMax});
  if (parsed.ok()) return {};
  return {Code::invalid_argument, std::string(parsed.status().message())};
}

Result<CheckpointManifest> parse_checkpoint_manifest(std::string_view text, std::string_view what) {
  Entries entries;
  STOKER_ASSIGN(const Json document,
                parse_document(text, what, internal::kManifestFormat, entries));
  const JsonView root(document, std::string(what));
  if (const Json* const state = document.find("state"))
    for (const Json& tree : state->elements()) entries.tree_of.push_back(&tree);
  CheckpointManifest manifest;
  manifest.tensors = std::move(entries.tensors);
  STOKER_TRY(parse_numbers(root, manifest));
  STOKER_TRY(internal::parse_manifest_entries(root, manifest.files, manifest.tensors));
  STOKER_TRY(internal::check_manifest_entries(manifest.files, manifest.tensors, what));
  STOKER_TRY(parse_trees(root, text, entries.tree_of.size(), manifest));
  STOKER_TRY(
      internal::check_references(root, entries.tree_of, manifest.tensors, manifest.world_size));
  return manifest;
}

Result<CheckpointPart> parse_checkpoint_part(std::string_view text, std::string_view what) {
  Entries entries;
  STOKER_ASSIGN(const Json document, parse_document(text, what, internal::kPartFormat, entries));
  const JsonView root(document, std::string(what));
  CheckpointPart part;
  part.tensors = std::move(entries.tensors);
  part.copies = std::move(entries.copies);
  STOKER_ASSIGN(const std::uint64_t rank, number_at(root, "rank", kU32Max));
  part.rank = static_cast<std::uint32_t>(rank);
  STOKER_TRY(internal::parse_manifest_entries(root, part.files, part.tensors));
  STOKER_TRY(internal::check_manifest_entries(part.files, part.tensors, what));
  STOKER_TRY(internal::parse_copies(root, part.copies));
  part.state_json = member_text(json_member_texts(text), "state");
  return part;
}

}  // namespace stoker
