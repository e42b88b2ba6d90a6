#include "checkpoint/manifest/step_summary.h"

#include <fmt/format.h>

#include <limits>
#include <span>

#include "base/checksum.h"
#include "checkpoint/manifest/manifest_json.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace {

using internal::number_at;

constexpr std::size_t kDigestChars = 32;
constexpr StrictJsonLimits kLimits = {
    .text_bytes_max = std::size_t{16} << 20, .depth_max = 4, .value_count_max = 1'000'000};
constexpr std::uint64_t kU32Max = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kU64Max = std::numeric_limits<std::uint64_t>::max();

std::string digest_of(std::string_view text) {
  return xxh3_128(std::as_bytes(std::span(text.data(), text.size()))).hex();
}

std::string counts_text(const std::map<std::string, std::uint64_t>& counts) {
  std::string out = "{";
  std::string_view separator;
  for (const auto& [name, count] : counts) {
    fmt::format_to(std::back_inserter(out), "{}{}: {}", separator, internal::string_text(name),
                   count);
    separator = ", ";
  }
  return out + "}";
}

Result<CatalogLine> parse(std::string_view text) {
  STOKER_ASSIGN(const Json document, parse_strict_json(text, "catalog", kLimits));
  const JsonView root(document, "catalog");
  CatalogLine line;
  STOKER_ASSIGN(line.name, internal::text_at(root, "name"));
  STOKER_ASSIGN(line.inode, number_at(root, "inode", kU64Max));
  STOKER_ASSIGN(line.size_bytes, number_at(root, "manifest_bytes"));
  STOKER_ASSIGN(const std::uint64_t modified_ns, number_at(root, "modified_ns"));
  line.modified_ns = static_cast<std::int64_t>(modified_ns);
  StepSummary& summary = line.summary;
  STOKER_ASSIGN(summary.step, number_at(root, "step", kU64Max));
  STOKER_ASSIGN(summary.generation, number_at(root, "generation", kGenerationMax));
  STOKER_ASSIGN(summary.line, internal::line_at(root));
  STOKER_ASSIGN(const JsonView time, root.at("time_s"));
  STOKER_ASSIGN(summary.time_s, internal::double_of(time));
  STOKER_ASSIGN(const std::uint64_t world_size, number_at(root, "world_size", kU32Max));
  summary.world_size = static_cast<std::uint32_t>(world_size);
  STOKER_ASSIGN(summary.size_bytes, number_at(root, "size_bytes", kU64Max));
  STOKER_ASSIGN(summary.linked_bytes, number_at(root, "linked_bytes", kU64Max));
  STOKER_TRY(internal::parse_ancestors(root, summary.generation, summary.parent, summary.lineage));
  STOKER_ASSIGN(const JsonView reference, root.at("reference"));
  STOKER_ASSIGN(summary.reference, internal::doubles_of(reference));
  STOKER_ASSIGN(const JsonView nonfinite, root.at("nonfinite"));
  if (!nonfinite.value().is_object()) return nonfinite.corrupt("not an object");
  for (const auto& [name, count] : nonfinite.value().sorted_items()) {
    STOKER_ASSIGN(summary.nonfinite[name], JsonView(count, "nonfinite").u64());
  }
  return line;
}

}  // namespace

StepSummary summarize(const CheckpointManifest& manifest) {
  StepSummary summary{.step = manifest.step,
                      .generation = manifest.generation,
                      .line = manifest.line,
                      .time_s = manifest.time_s,
                      .world_size = manifest.world_size,
                      .parent = manifest.parent,
                      .lineage = manifest.lineage,
                      .reference = manifest.reference};
  for (const CheckpointFile& file : manifest.files) {
    summary.size_bytes += file.size_bytes;
    if (file.link_count != 0) summary.linked_bytes += file.size_bytes;
  }
  for (const CheckpointTensor& tensor : manifest.tensors)
    if (tensor.nonfinite_count > 0) summary.nonfinite[tensor.name] += tensor.nonfinite_count;
  return summary;
}

bool is_parent(const CheckpointParent& parent, const StepSummary& step) {
  return parent.generation == step.generation &&
         (parent.line.empty() ? parent.step == step.step : parent.line == step.line);
}

bool continues(const StepSummary& step, const StepSummary& before) {
  return (step.generation == before.generation && step.line == before.line) ||
         (step.parent && is_parent(*step.parent, before)) ||
         is_in_lineage(step.lineage, before.line, before.generation);
}

std::string format_catalog_line(const CatalogLine& line) {
  const StepSummary& summary = line.summary;
  const std::string body = fmt::format(
      R"({{"name": {}, "inode": {}, "manifest_bytes": {}, "modified_ns": {}, "step": {}, )"
      R"("generation": {}, "line": {}, "time_s": {}, "world_size": {}, "size_bytes": {}, "linked_bytes": {}, )"
      R"("parent": {}, "ancestors": {}, "reference": {}, "nonfinite": {}}})",
      internal::string_text(line.name), line.inode, line.size_bytes, line.modified_ns, summary.step,
      summary.generation, internal::string_text(summary.line),
      internal::double_text(summary.time_s), summary.world_size, summary.size_bytes,
      summary.linked_bytes, internal::parent_text(summary.parent),
      internal::lineage_text(summary.lineage), internal::doubles_text(summary.reference),
      counts_text(summary.nonfinite));
  return digest_of(body) + " " + body + "\n";
}

std::optional<CatalogLine> parse_catalog_line(std::string_view text) {
  if (text.size() < kDigestChars + 1 || text[kDigestChars] != ' ') return std::nullopt;
  const std::string_view body = text.substr(kDigestChars + 1);
  if (text.substr(0, kDigestChars) != digest_of(body)) return std::nullopt;
  Result<CatalogLine> line = parse(body);
  if (!line.ok()) return std::nullopt;
  return *std::move(line);
}

}  // namespace stoker
