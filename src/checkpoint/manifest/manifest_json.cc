#include "checkpoint/manifest/manifest_json.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <limits>

namespace stoker::internal {
namespace {

constexpr std::uint64_t kU32Max = std::numeric_limits<std::uint32_t>::max();

/// Returns the member `key`; 0 if it is absent or null.
Result<std::uint64_t> number_or_zero(const JsonView& view, std::string_view key,
                                     std::uint64_t value_max = kManifestNumberMax) {
  STOKER_ASSIGN(const JsonView member, view.at_or_null(key));
  if (member.is_null()) return std::uint64_t{0};
  return member.u64(value_max);
}

Result<std::vector<std::uint64_t>> numbers_of(const JsonView& view) {
  STOKER_ASSIGN(const std::size_t count, view.array_size());
  std::vector<std::uint64_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    STOKER_ASSIGN(numbers[i], view.element(i).u64(kManifestNumberMax));
  }
  return numbers;
}

Result<Digest128> digest_of(const JsonView& view) {
  STOKER_ASSIGN(const std::string text, view.text());
  const Result<Digest128> parsed = Digest128::from_hex(text);
  if (!parsed.ok()) return view.corrupt("not 32 lower-case hexadecimal digits");
  return *parsed;
}

Result<CheckpointFile> parse_file(const JsonView& view) {
  CheckpointFile file;
  STOKER_ASSIGN(file.name, text_at(view, "name"));
  STOKER_ASSIGN(file.size_bytes, number_at(view, "size_bytes"));
  STOKER_ASSIGN(const std::uint64_t link_count, number_or_zero(view, "link_count", kU32Max));
  file.link_count = static_cast<std::uint32_t>(link_count);
  STOKER_ASSIGN(const std::uint64_t place, number_or_zero(view, "place", kU32Max));
  file.place = static_cast<std::uint32_t>(place);
  STOKER_ASSIGN(const JsonView chunks, view.at("chunks"));
  STOKER_ASSIGN(const std::size_t count, chunks.array_size());
  file.chunks.reserve(count);
  // Up to a million entries: no path is built for each.
  for (const Json& chunk : chunks.value().elements()) {
    const Result<Digest128> digest = Digest128::from_hex(chunk.get_string());
    if (!digest.ok()) {
      return chunks.corrupt(
          fmt::format("checksum {} is not 32 lower-case hexadecimal digits", file.chunks.size()));
    }
    file.chunks.push_back(*digest);
  }
  return file;
}

}  // namespace

Result<std::uint64_t> number_at(const JsonView& view, std::string_view key,
                                std::uint64_t value_max) {
  STOKER_ASSIGN(const JsonView member, view.at(key));
  return member.u64(value_max);
}

Result<std::string> text_at(const JsonView& view, std::string_view key) {
  STOKER_ASSIGN(const JsonView member, view.at(key));
  return member.text();
}

Result<double> double_of(const JsonView& view) {
  if (view.value().is_number()) return view.value().get_double();
  STOKER_ASSIGN(const std::string text, text_at(view, "!float"));
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return view.corrupt("not a number");
}

std::string double_text(double value) {
  if (std::isnan(value)) return R"({"!float": "nan"})";
  if (std::isinf(value)) return value > 0 ? R"({"!float": "inf"})" : R"({"!float": "-inf"})";
  return Json(value).dump();
}

std::string string_text(std::string_view text) {
  return quote_json(text);
}

std::string doubles_text(const std::map<std::string, double>& values) {
  std::string out = "{";
  std::string_view separator;
  for (const auto& [name, value] : values) {
    out.append(separator).append(string_text(name)).append(": ").append(double_text(value));
    separator = ", ";
  }
  return out + "}";
}

Result<std::map<std::string, double>> doubles_of(const JsonView& view) {
  if (!view.value().is_object()) return view.corrupt("not an object");
  std::map<std::string, double> values;
  for (const auto& [name, value] : view.value().sorted_items()) {
    const JsonView member(value, fmt::format("{}[{}]", view.path(), quote_for_message(name)));
    STOKER_ASSIGN(values[name], double_of(member));
  }
  return values;
}

Result<std::string> line_at(const JsonView& view) {
  STOKER_ASSIGN(const JsonView said, view.at_or_null("line"));
  if (said.is_null()) return std::string();
  STOKER_ASSIGN(const std::string line, said.text());
  if (!is_line(line)) return said.corrupt("not 32 hexadecimal digits");
  return line;
}

std::string parent_text(const std::optional<CheckpointParent>& parent) {
  if (!parent) return "null";
  if (parent->line.empty())
    return fmt::format(R"({{"step": {}, "generation": {}}})", parent->step, parent->generation);
  return fmt::format(R"({{"step": {}, "generation": {}, "line": "{}"}})", parent->step,
                     parent->generation, parent->line);
}

std::string lineage_text(const Lineage& lineage) {
  std::string out = "[";
  std::string_view separator;
  for (const GenerationRange& range : lineage) {
    fmt::format_to(std::back_inserter(out), "{}[\"{}\", {}, {}]", separator, range.line,
                   range.first, range.last);
    separator = ", ";
  }
  return out + "]";
}

Status parse_ancestors(const JsonView& root, std::uint64_t generation,
                       std::optional<CheckpointParent>& parent, Lineage& lineage) {
  constexpr std::uint64_t kU64Max = std::numeric_limits<std::uint64_t>::max();
  STOKER_ASSIGN(const JsonView said, root.at_or_null("parent"));
  if (!said.is_null()) {
    parent.emplace();
    STOKER_ASSIGN(parent->step, number_at(said, "step", kU64Max));
    STOKER_ASSIGN(parent->generation, number_at(said, "generation", kGenerationMax));
    STOKER_ASSIGN(parent->line, line_at(said));
  }
  STOKER_ASSIGN(JsonView ranges, root.at_or_null("ancestors"));
  const bool has_lines = !ranges.is_null();
  if (!has_lines) {
    STOKER_ASSIGN(ranges, root.at_or_null("lineage"));  // version 0.1
  }
  if (ranges.is_null()) return {};
  STOKER_ASSIGN(const std::size_t count, ranges.array_size());
  for (std::size_t i = 0; i < count; ++i) {
    const JsonView range = ranges.element(i);
    STOKER_ASSIGN(const std::size_t members, range.array_size());
    if (members != (has_lines ? 3U : 2U)) return range.corrupt("not a range of generations");
    GenerationRange& added = lineage.emplace_back();
    if (has_lines) {
      STOKER_ASSIGN(added.line, range.element(0).text());
    }
    STOKER_ASSIGN(added.first, range.element(members - 2).u64());
    STOKER_ASSIGN(added.last, range.element(members - 1).u64());
  }
  if (!is_lineage_of(lineage, generation))
    return ranges.corrupt("not ascending ranges of generations before this one");
  return {};
}

Result<CheckpointTensor> parse_tensor(const JsonView& view) {
  CheckpointTensor tensor;
  STOKER_ASSIGN(tensor.name, text_at(view, "name"));
  STOKER_ASSIGN(const std::string dtype, text_at(view, "dtype"));
  const Result<TensorType> type = parse_tensor_type(dtype);
  if (!type.ok()) return type.status().with_context(view.path());
  tensor.type = *type;
  STOKER_ASSIGN(const JsonView shape, view.at("shape"));
  STOKER_ASSIGN(tensor.shape, numbers_of(shape));
  STOKER_ASSIGN(const JsonView global_shape, view.at_or_null("global_shape"));
  STOKER_ASSIGN(const JsonView offsets, view.at_or_null("offsets"));
  if (global_shape.is_null() != offsets.is_null()) {
    return view.corrupt("a slice needs both \"global_shape\" and \"offsets\"");
  }
  if (global_shape.is_null()) {
    tensor.global_shape = tensor.shape;
    tensor.offsets.resize(tensor.shape.size());
  } else {
    STOKER_ASSIGN(tensor.global_shape, numbers_of(global_shape));
    STOKER_ASSIGN(tensor.offsets, numbers_of(offsets));
  }
  STOKER_ASSIGN(const std::uint64_t file, number_at(view, "file", kU32Max));
  tensor.file = static_cast<std::uint32_t>(file);
  STOKER_ASSIGN(tensor.begin_bytes, number_at(view, "begin_bytes"));
  STOKER_ASSIGN(tensor.end_bytes, number_at(view, "end_bytes"));
  STOKER_ASSIGN(tensor.nonfinite_count, number_or_zero(view, "nonfinite_count"));
  STOKER_ASSIGN(const JsonView digest, view.at_or_null("digest"));
  if (!digest.is_null()) {
    STOKER_ASSIGN(tensor.digest, digest_of(digest));
  }
  return tensor;
}

Result<TensorCopy> parse_copy(const JsonView& view) {
  TensorCopy copy;
  STOKER_ASSIGN(copy.name, text_at(view, "name"));
  STOKER_ASSIGN(const JsonView offsets, view.at("offsets"));
  STOKER_ASSIGN(copy.offsets, numbers_of(offsets));
  STOKER_ASSIGN(const JsonView shape, view.at("shape"));
  STOKER_ASSIGN(copy.shape, numbers_of(shape));
  STOKER_ASSIGN(const JsonView digest, view.at("digest"));
  STOKER_ASSIGN(copy.digest, digest_of(digest));
  return copy;
}

Status parse_copies(const JsonView& root, std::vector<TensorCopy>& copies) {
  STOKER_ASSIGN(const JsonView list, root.at_or_null("copies"));
  if (list.is_null()) return {};
  STOKER_ASSIGN(const std::size_t count, list.array_size());
  for (std::size_t i = 0; i < count; ++i) {
    STOKER_ASSIGN(TensorCopy copy, parse_copy(list.element(i)));
    copies.push_back(std::move(copy));
  }
  return {};
}

Status parse_places(const JsonView& root, CheckpointManifest& manifest) {
  STOKER_ASSIGN(const JsonView places, root.at_or_null("places"));
  if (!places.is_null()) {
    STOKER_ASSIGN(const std::size_t count, places.array_size());
    for (std::size_t i = 0; i < count; ++i) {
      CheckpointPlace& place = manifest.places.emplace_back();
      STOKER_ASSIGN(place.host, text_at(places.element(i), "host"));
      STOKER_ASSIGN(const JsonView list, places.element(i).at("ranks"));
      STOKER_ASSIGN(const std::size_t rank_count, list.array_size());
      for (std::size_t r = 0; r < rank_count; ++r) {
        STOKER_ASSIGN(const std::uint64_t rank, list.element(r).u64(kU32Max));
        place.ranks.push_back(static_cast<std::uint32_t>(rank));
      }
    }
  }
  STOKER_ASSIGN(const JsonView duplicates, root.at_or_null("duplicates"));
  if (duplicates.is_null()) return {};
  STOKER_ASSIGN(const std::size_t count, duplicates.array_size());
  for (std::size_t i = 0; i < count; ++i) {
    STOKER_ASSIGN(CheckpointTensor tensor, parse_tensor(duplicates.element(i)));
    manifest.duplicates.push_back(std::move(tensor));
  }
  return {};
}

Status parse_manifest_entries(const JsonView& root, std::vector<CheckpointFile>& files,
                              std::vector<CheckpointTensor>& tensors) {
  STOKER_ASSIGN(const JsonView file_list, root.at("files"));
  STOKER_ASSIGN(const std::size_t file_count, file_list.array_size());
  for (std::size_t i = 0; i < file_count; ++i) {
    STOKER_ASSIGN(CheckpointFile file, parse_file(file_list.element(i)));
    files.push_back(std::move(file));
  }
  STOKER_ASSIGN(const JsonView tensor_list, root.at("tensors"));
  STOKER_ASSIGN(const std::size_t tensor_count, tensor_list.array_size());
  tensors.reserve(tensors.size() + tensor_count);
  for (std::size_t i = 0; i < tensor_count; ++i) {
    STOKER_ASSIGN(CheckpointTensor tensor, parse_tensor(tensor_list.element(i)));
    tensors.push_back(std::move(tensor));
  }
  return {};
}

}  // namespace stoker::internal
