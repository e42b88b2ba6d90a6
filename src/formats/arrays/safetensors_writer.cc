#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <iterator>
#include <unordered_set>

#include "formats/json/strict_json.h"
#include "formats/utf8.h"
#include "stoker/safetensors.h"

namespace stoker {
namespace {

constexpr std::string_view kMetadataName = "__metadata__";
constexpr std::size_t kLengthBytes = 8;

Status invalid(std::string message) {
  return {Code::invalid_argument, "safetensors header: " + std::move(message)};
}

Status append_metadata(const std::map<std::string, std::string>& metadata, std::string& json) {
  if (metadata.empty()) return {};
  json += quote_json(kMetadataName) + ":{";
  for (const auto& [key, value] : metadata) {
    if (!is_utf8(key) || !is_utf8(value)) {
      return invalid(fmt::format("metadata {} is not UTF-8", quote_for_message(key)));
    }
    if (json.back() != '{') json += ',';
    json += quote_json(key) + ":" + quote_json(value);
  }
  json += '}';
  return {};
}

}  // namespace

Result<std::string> format_safetensors(std::span<SafetensorsEntry> entries,
                                       const std::map<std::string, std::string>& metadata,
                                       std::size_t align_bytes) {
  if (align_bytes == 0) return invalid("data cannot be aligned to 0 bytes");
  std::string json = "{";
  STOKER_TRY(append_metadata(metadata, json));
  std::unordered_set<std::string_view> names;
  names.reserve(entries.size());
  std::uint64_t end = 0;
  for (SafetensorsEntry& entry : entries) {
    const auto shown = [&] { return quote_for_message(entry.name); };
    if (entry.name == kMetadataName)
      return invalid(fmt::format("the name {} is reserved", shown()));
    if (!is_utf8(entry.name)) return invalid(fmt::format("the name {} is not UTF-8", shown()));
    if (!names.insert(entry.name).second) {
      return invalid(fmt::format("duplicate name {}", shown()));
    }
    const Result<std::uint64_t> size = tensor_bytes(entry.type, entry.shape);
    if (!size.ok()) return size.status().with_context("tensor " + shown());
    entry.begin_bytes = end;
    if (__builtin_add_overflow(end, *size, &end)) {
      return invalid("the tensors have more than 2^64 bytes");
    }
    entry.end_bytes = end;
    fmt::format_to(std::back_inserter(json),
                   R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                   json.size() > 1 ? "," : "", quote_json(entry.name), tensor_type_name(entry.type),
                   fmt::join(entry.shape, ","), entry.begin_bytes, entry.end_bytes);
  }
  json += '}';
  const std::size_t over = (kLengthBytes + json.size()) % align_bytes;
  if (over != 0) json.append(align_bytes - over, ' ');
  if (json.size() > kSafetensorsJsonBytesMax) {
    return invalid(
        fmt::format("{} bytes, at most {} are read", json.size(), kSafetensorsJsonBytesMax));
  }
  const std::uint64_t length = json.size();
  std::string header(kLengthBytes, '\0');
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(header.data(), &length, kLengthBytes);
  return header + json;
}

}  // namespace stoker
