// Any bytes as a safetensors file: nothing crashes, the tensors of an accepted file are contiguous
// up to its end, and its header must survive a round trip.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fuzz/json_text_mutator.h"
#include "stoker/safetensors.h"

namespace stoker {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void read_file(std::span<const std::byte> file) {
  const Result<SafetensorsHeader> header = parse_safetensors(file, file.size());
  if (!header.ok()) {
    const std::string_view message = header.status().message();
    require(std::ranges::all_of(message, [](char c) { return c >= ' ' && c <= '~'; }));
    return;
  }
  std::uint64_t end = 0;
  for (const SafetensorsEntry& entry : header->entries) {
    require(entry.begin_bytes == end && entry.end_bytes >= end);
    end = entry.end_bytes;
  }
  require(header->data_offset_bytes + end == file.size());
  std::vector<SafetensorsEntry> entries = header->entries;
  const Result<std::string> text = format_safetensors(entries, header->metadata, 64);
  require(text.ok() && text->size() % 64 == 0 && entries == header->entries);
  const Result<SafetensorsHeader> again =
      parse_safetensors(std::as_bytes(std::span(*text)), text->size() + end);
  require(again.ok() && again->entries == entries && again->metadata == header->metadata);
}

}  // namespace
}  // namespace stoker

/// Reads every input twice: as it is, and with a correct header length.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  stoker::read_file(bytes);
  if (size < 8) return 0;
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  const auto end = std::find(file.rbegin(), file.rend(), std::byte{'}'});
  const auto length =
      static_cast<std::uint64_t>(std::max<std::ptrdiff_t>(file.rend() - end - 8, 0));
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<std::byte>(length >> (8 * i));
  stoker::read_file(file);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  constexpr std::size_t kLength = 8;  // of the header, which the target corrects
  if (size <= kLength) return stoker::mutate_json_input(data, size, max_size, seed, 16);
  return kLength +
         stoker::mutate_json_input(data + kLength, size - kLength, max_size - kLength, seed, 8);
}
