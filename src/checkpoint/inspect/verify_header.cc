#include "checkpoint/inspect/verify_header.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/arrays/safetensors.h"
#include "formats/json/strict_json.h"
#include "io/files/exact_transfer.h"

namespace stoker {

Status check_header(const File& file, const CheckpointManifest& manifest, std::uint32_t number) {
  std::vector<std::byte> bytes(8);
  if (file.size_bytes() < bytes.size())
    return Status(Code::corrupt, "the file is too short for a header");
  STOKER_TRY(read_exactly(file.buffered_fd(), 0, bytes, file.path()));
  STOKER_ASSIGN(const std::uint64_t size, safetensors_header_bytes(bytes, file.size_bytes()));
  bytes.resize(size);
  STOKER_TRY(read_exactly(file.buffered_fd(), 0, bytes, file.path()));
  STOKER_ASSIGN(const SafetensorsHeader header, parse_safetensors(bytes, file.size_bytes()));
  std::map<std::string_view, const SafetensorsEntry*> entries;
  for (const SafetensorsEntry& entry : header.entries) entries[entry.name] = &entry;
  for (const CheckpointTensor& tensor : manifest.tensors) {
    if (tensor.file != number) continue;
    const auto found = entries.find(tensor.name);
    const bool is_equal =
        found != entries.end() && found->second->type == tensor.type &&
        found->second->shape == tensor.shape &&
        header.data_offset_bytes + found->second->begin_bytes == tensor.begin_bytes;
    if (!is_equal)
      return Status(Code::corrupt, "the file's header tells otherwise about tensor " +
                                       quote_for_message(tensor.name));
    entries.erase(found);
  }
  if (entries.empty()) return {};
  return Status(Code::corrupt,
                "the manifest does not know tensor " + quote_for_message(entries.begin()->first));
}

}  // namespace stoker
