#include "checkpoint/manifest/manifest.h"

#include <fmt/format.h>

#include <charconv>
#include <deque>
#include <limits>
#include <optional>

#include "checkpoint/manifest/manifest_check.h"
#include "checkpoint/manifest/manifest_json.h"
#include "checkpoint/manifest/places.h"
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
std::string member_text(const JsonMemberTexts& members, std::string_view key) {
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

/// A document. Its tensors, copies and trees are usually read one by one, and are then absent from
/// `root`.
struct Document {
  Json root;
  JsonMemberTexts members;
  std::vector<CheckpointTensor> tensors = {};
  std::vector<TensorCopy> copies = {};
  std::vector<CheckpointTensor> duplicates = {};
  std::deque<Json> trees = {};                    ///< Those that are different.
  std::vector<const Json*> tree_of = {};          ///< The tree of each rank.
  std::vector<std::string_view> tree_texts = {};  ///< The text of each.
};

Status parse_trees(const JsonView& root, const Document& document, CheckpointManifest& manifest) {
  manifest.extra_json = member_text(document.members, "extra");
  manifest.cursor_json = member_text(document.members, "cursor");
  STOKER_ASSIGN(const JsonView state, root.at("state"));
  STOKER_TRY(state.array_size().status());
  const std::size_t tree_count = document.tree_of.size();
  if (tree_count != 0 && tree_count != manifest.world_size) {
    return state.corrupt(fmt::format("{} trees for {} ranks", tree_count, manifest.world_size));
  }
  manifest.state_json.assign(document.tree_texts.begin(), document.tree_texts.end());
  return {};
}

/// Appends what `parse` makes of an element. Returns false if it fails.
template <typename Entry>
bool take_entry(const Json* element, Result<Entry> (*parse)(const JsonView&),
                std::vector<Entry>& entries) {
  if (element == nullptr) {
    entries.push_back(Entry(entries.back()));
    return true;
  }
  Result<Entry> parsed = parse(JsonView(*element, ""));
  if (!parsed.ok()) return false;
  entries.push_back(*std::move(parsed));
  return true;
}

/// Reads a document, with its tensors, copies and, of a manifest, its trees one by one. Returns
/// nothing if anything is wrong.
std::optional<Document> try_read_document(std::string_view text, bool has_trees) {
  Document read;
  ElementTakers takers = {{"tensors",
                           [&](const Json* one, std::string_view) {
                             return take_entry(one, internal::parse_tensor, read.tensors);
                           }},
                          {"duplicates",
                           [&](const Json* one, std::string_view) {
                             return take_entry(one, internal::parse_tensor, read.duplicates);
                           }},
                          {"copies", [&](const Json* one, std::string_view) {
                             return take_entry(one, internal::parse_copy, read.copies);
                           }}};
  if (has_trees)
    takers["state"] = [&](Json* tree, std::string_view tree_text) {
      if (tree != nullptr) read.trees.push_back(std::move(*tree));
      read.tree_of.push_back(&read.trees.back());
      read.tree_texts.push_back(tree_text);
      return true;
    };
  std::optional<PlainJson> plain = try_parse_json(text, kLimits, takers);
  if (!plain) return std::nullopt;
  read.root = std::move(plain->document);
  read.members = std::move(plain->members);
  return read;
}

/// Parses a manifest or a part manifest, and checks its checksum and head. If anything is wrong
/// with tensors, copies or trees, they are in the root, so that messages have their places.
Result<Document> parse_document(std::string_view text, std::string_view what,
                                std::string_view format) {
  STOKER_TRY(check_json_seal(text, what));
  const bool has_trees = format == internal::kManifestFormat;
  std::optional<Document> document = try_read_document(text, has_trees);
  if (!document) {
    STOKER_ASSIGN(Json root, parse_strict_json(text, what, kLimits));
    document = Document{.root = std::move(root), .members = json_member_texts(text)};
  }
  STOKER_TRY(check_head(JsonView(document->root, std::string(what)), format));
  return *std::move(document);
}

/// Finds trees that are in the root.
void find_trees(Document& document) {
  const Json* const state = document.root.find("state");
  if (state == nullptr || state->empty()) return;
  for (const Json& tree : state->elements()) document.tree_of.push_back(&tree);
  for (const auto& [name, text] : document.members)
    if (name == "state") document.tree_texts = json_element_texts(text);
}

}  // namespace

Status check_state_json(std::string_view text, std::string_view what) {
  const auto parsed = parse_strict_json(text, what, {.depth_max = kStateDepthMax});
  if (parsed.ok()) return {};
  return {Code::invalid_argument, std::string(parsed.status().message())};
}

Result<CheckpointManifest> parse_checkpoint_manifest(std::string_view text, std::string_view what) {
  STOKER_ASSIGN(Document document, parse_document(text, what, internal::kManifestFormat));
  find_trees(document);
  const JsonView root(document.root, std::string(what));
  CheckpointManifest manifest;
  manifest.tensors = std::move(document.tensors);
  manifest.duplicates = std::move(document.duplicates);
  STOKER_TRY(parse_numbers(root, manifest));
  STOKER_TRY(internal::parse_manifest_entries(root, manifest.files, manifest.tensors));
  STOKER_TRY(internal::check_manifest_entries(manifest.files, manifest.tensors, what));
  STOKER_TRY(internal::parse_places(root, manifest));
  STOKER_TRY(check_places(manifest, what));
  STOKER_TRY(parse_trees(root, document, manifest));
  STOKER_TRY(
      internal::check_references(root, document.tree_of, manifest.tensors, manifest.world_size));
  return manifest;
}

Result<CheckpointPart> parse_checkpoint_part(std::string_view text, std::string_view what) {
  STOKER_ASSIGN(Document document, parse_document(text, what, internal::kPartFormat));
  const JsonView root(document.root, std::string(what));
  CheckpointPart part;
  part.tensors = std::move(document.tensors);
  part.copies = std::move(document.copies);
  STOKER_ASSIGN(const std::uint64_t rank, number_at(root, "rank", kU32Max));
  part.rank = static_cast<std::uint32_t>(rank);
  STOKER_TRY(internal::parse_manifest_entries(root, part.files, part.tensors));
  STOKER_TRY(internal::check_manifest_entries(part.files, part.tensors, what));
  STOKER_TRY(internal::parse_copies(root, part.copies));
  part.state_json = member_text(document.members, "state");
  return part;
}

}  // namespace stoker
