#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "checkpoint/manifest/manifest_json.h"
#include "checkpoint/manifest/sealed_json.h"

namespace stoker {
namespace {

using internal::double_text;
using internal::string_text;

std::string time_text(double time_s) {
  const std::string text = calendar_text(time_s);
  return text.empty() ? "null" : '"' + text + '"';
}

std::string_view tree_text(std::string_view tree) {
  return tree.empty() ? "null" : tree;
}

void append_files(std::span<const CheckpointFile> files, std::string& out) {
  out += "\"files\": [\n";
  for (const CheckpointFile& file : files) {
    fmt::format_to(std::back_inserter(out), R"({{"name": {}, "size_bytes": {}, "link_count": {}, )",
                   string_text(file.name), file.size_bytes, file.link_count);
    if (file.place > 0) fmt::format_to(std::back_inserter(out), R"("place": {}, )", file.place);
    out += "\"chunks\": [";
    for (std::size_t i = 0; i < file.chunks.size(); ++i) {
      if (i > 0) out += ", ";
      out += '"' + file.chunks[i].hex() + '"';
    }
    out += &file == &files.back() ? "]}\n" : "]},\n";
  }
  out += "],\n";
}

void append_tensors(std::string_view key, std::span<const CheckpointTensor> tensors,
                    std::string& out) {
  out += fmt::format("\"{}\": [\n", key);
  const auto to = std::back_inserter(out);
  for (const CheckpointTensor& tensor : tensors) {
    fmt::format_to(to, R"({{"name": {}, "dtype": "{}", "shape": [{}])", string_text(tensor.name),
                   tensor_type_name(tensor.type), fmt::join(tensor.shape, ", "));
    // A whole tensor, the common case, has no "global_shape" and "offsets".
    const bool is_whole =
        tensor.shape == tensor.global_shape && tensor.offsets.size() == tensor.shape.size() &&
        std::ranges::all_of(tensor.offsets, [](auto begin) { return begin == 0; });
    if (!is_whole) {
      fmt::format_to(to, R"(, "global_shape": [{}], "offsets": [{}])",
                     fmt::join(tensor.global_shape, ", "), fmt::join(tensor.offsets, ", "));
    }
    fmt::format_to(to, R"(, "file": {}, "begin_bytes": {}, "end_bytes": {})", tensor.file,
                   tensor.begin_bytes, tensor.end_bytes);
    if (tensor.nonfinite_count > 0) {
      fmt::format_to(to, R"(, "nonfinite_count": {})", tensor.nonfinite_count);
    }
    if (tensor.digest) fmt::format_to(to, R"(, "digest": "{}")", tensor.digest->hex());
    out += &tensor == &tensors.back() ? "}\n" : "},\n";
  }
  out += "],\n";
}

void append_copies(std::span<const TensorCopy> copies, std::string& out) {
  out += "\"copies\": [\n";
  for (const TensorCopy& copy : copies) {
    fmt::format_to(std::back_inserter(out),
                   R"({{"name": {}, "offsets": [{}], "shape": [{}], "digest": "{}"}})",
                   string_text(copy.name), fmt::join(copy.offsets, ", "),
                   fmt::join(copy.shape, ", "), copy.digest.hex());
    out += &copy == &copies.back() ? "\n" : ",\n";
  }
  out += "],\n";
}

std::string begin_text(std::string_view format, std::string_view version) {
  return fmt::format("{{\n\"format\": \"{}\",\n\"format_version\": \"{}\",\n", format, version);
}

std::string_view version_of(const CheckpointManifest& manifest) {
  if (!manifest.places.empty()) return internal::kPlacesManifestVersion;
  return manifest.world_size > 1 ? internal::kRanksManifestVersion : internal::kManifestVersion;
}

void append_places(std::span<const CheckpointPlace> places, std::string& out) {
  out += "\"places\": [\n";
  for (const CheckpointPlace& place : places)
    fmt::format_to(std::back_inserter(out), "{{\"host\": {}, \"ranks\": [{}]}}{}\n",
                   string_text(place.host), fmt::join(place.ranks, ", "),
                   &place == &places.back() ? "" : ",");
  out += "],\n";
}

void append_entries(std::span<const CheckpointFile> files,
                    std::span<const CheckpointTensor> tensors, std::string& out) {
  fmt::format_to(std::back_inserter(out), "\"checksum\": \"{}\",\n\"chunk_bytes\": {},\n",
                 internal::kManifestChecksum, kCheckpointChunkBytes);
  append_files(files, out);
  append_tensors("tensors", tensors, out);
}

}  // namespace

std::string calendar_text(double time_s) {
  constexpr double kYear10000 = 253'402'300'800;
  if (!(time_s >= 0 && time_s < kYear10000)) return "";
  namespace chrono = std::chrono;
  const chrono::sys_time<chrono::milliseconds> time{
      chrono::milliseconds(static_cast<std::int64_t>(time_s * 1000))};
  const auto day = chrono::floor<chrono::days>(time);
  const chrono::year_month_day date(day);
  const chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

std::string format_checkpoint_manifest(const CheckpointManifest& manifest) {
  std::string out = begin_text(internal::kManifestFormat, version_of(manifest));
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "\"tool\": {},\n\"step\": {},\n\"generation\": {},\n",
                 string_text(manifest.tool), manifest.step, manifest.generation);
  if (!manifest.line.empty()) fmt::format_to(to, "\"line\": {},\n", string_text(manifest.line));
  fmt::format_to(to, "\"time\": {},\n\"time_s\": {},\n\"world_size\": {},\n",
                 time_text(manifest.time_s), double_text(manifest.time_s), manifest.world_size);
  fmt::format_to(to, "\"parent\": {},\n", internal::parent_text(manifest.parent));
  if (!manifest.lineage.empty())
    fmt::format_to(to, "\"ancestors\": {},\n", internal::lineage_text(manifest.lineage));
  if (!manifest.places.empty()) append_places(manifest.places, out);
  append_entries(manifest.files, manifest.tensors, out);
  if (!manifest.duplicates.empty()) append_tensors("duplicates", manifest.duplicates, out);
  fmt::format_to(to, "\"reference\": {},\n\"extra\": {},\n\"cursor\": {},\n\"state\": [\n",
                 internal::doubles_text(manifest.reference), tree_text(manifest.extra_json),
                 tree_text(manifest.cursor_json));
  for (const std::string& tree : manifest.state_json) {
    out += tree_text(tree);
    out += &tree == &manifest.state_json.back() ? "\n" : ",\n";
  }
  out += "],\n";
  return seal_json(std::move(out));
}

std::string format_checkpoint_part(const CheckpointPart& part) {
  std::string out = begin_text(internal::kPartFormat, internal::kManifestVersion);
  fmt::format_to(std::back_inserter(out), "\"rank\": {},\n", part.rank);
  append_entries(part.files, part.tensors, out);
  append_copies(part.copies, out);
  fmt::format_to(std::back_inserter(out), "\"state\": {},\n", tree_text(part.state_json));
  return seal_json(std::move(out));
}

}  // namespace stoker
