#include "dataset/shard_cache/chunk_id.h"

#include <fmt/format.h>

#include <charconv>

#include "base/checksum.h"

namespace stoker {
namespace {

constexpr std::size_t kObjectDigits = 32;

/// Reads all of `text` as a number that is written without leading zeros.
bool parse_number(std::string_view text, std::uint64_t& out) {
  if (text.empty() || (text.size() > 1 && text.front() == '0')) return false;
  for (const char c : text)
    if (c >= 'A' && c <= 'F') return false;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, out, 16);
  return error == std::errc() && at == end;
}

}  // namespace

Digest128 object_id(std::string_view identity, const ObjectInfo& info) {
  // The numbers come first: then no identity can be continued by them.
  const std::string text =
      fmt::format("stoker chunk 1\n{}\n{}\n{}", info.size_bytes, info.version, identity);
  return xxh3_128(std::as_bytes(std::span(text)));
}

std::string chunk_name(const ChunkId& id) {
  return fmt::format("{:016x}{:016x}-{:x}-{:x}", id.object.high, id.object.low, id.offset_bytes,
                     id.size_bytes);
}

std::optional<ChunkId> parse_chunk_name(std::string_view name) {
  const std::size_t second = name.rfind('-');
  if (name.size() < kObjectDigits + 4 || name[kObjectDigits] != '-' ||
      second == std::string_view::npos || second <= kObjectDigits)
    return std::nullopt;
  ChunkId id;
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < kObjectDigits; ++i) {
    const char c = name[i];
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && (c < 'a' || c > 'f')) return std::nullopt;
    std::uint64_t& half = i < kObjectDigits / 2 ? id.object.high : id.object.low;
    half = half << 4 | static_cast<std::uint64_t>(is_digit ? c - '0' : c - 'a' + 10);
  }
  if (!parse_number(name.substr(kObjectDigits + 1, second - kObjectDigits - 1), id.offset_bytes) ||
      !parse_number(name.substr(second + 1), size) || size == 0 || size > ChunkId::kSizeMax ||
      id.offset_bytes > UINT64_MAX - size)
    return std::nullopt;
  id.size_bytes = static_cast<std::uint32_t>(size);
  return id;
}

}  // namespace stoker
