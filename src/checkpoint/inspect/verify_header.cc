#include "checkpoint/inspect/verify_header.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json/strict_json.h"
#include "stoker/safetensors.h"

namespace stoker {

namespace {

/// Keeps the bytes of one range.
class KeptRange final : public ChunkHandler {
 public:
  Status chunk_read(std::size_t /*index*/, std::span<const std::byte> bytes) override {
    bytes_.assign(bytes.begin(), bytes.end());
    return {};
  }
  Status chunk_failed(std::size_t /*index*/, const Status& status) override { return status; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads the first bytes of a file.
Status read_front(StoredFiles& files, std::uint32_t number, std::size_t size_bytes,
                  KeptRange& kept) {
  const ChunkRead read{.file = number, .offset_bytes = 0, .size_bytes = size_bytes};
  return files.read(std::span(&read, 1), kept, {.thread_count = 1});
}

}  // namespace

Status check_header(StoredFiles& files, std::uint64_t size_bytes,
                    const CheckpointManifest& manifest, std::uint32_t number) {
  constexpr std::size_t kLengthBytes = 8;
  if (size_bytes < kLengthBytes) return Status(Code::corrupt, "the file is too short for a header");
  KeptRange kept;
  STOKER_TRY(read_front(files, number, kLengthBytes, kept));
  STOKER_ASSIGN(const std::uint64_t size, safetensors_header_bytes(kept.bytes(), size_bytes));
  STOKER_TRY(read_front(files, number, size, kept));
  STOKER_ASSIGN(const SafetensorsHeader header, parse_safetensors(kept.bytes(), size_bytes));
  std::map<std::string_view, const SafetensorsEntry*> entries;
  for (const SafetensorsEntry& entry : header.entries) entries[entry.name] = &entry;
  std::vector<const CheckpointTensor*> stored;
  for (const auto* tensors : {&manifest.tensors, &manifest.duplicates})
    for (const CheckpointTensor& tensor : *tensors)
      if (tensor.file == number) stored.push_back(&tensor);
  for (const CheckpointTensor* const one : stored) {
    const CheckpointTensor& tensor = *one;
    const auto found = entries.find(tensor.name);
    const bool is_equal =
        found != entries.end() && found->second->type == tensor.type &&
        found->second->shape == tensor.shape &&
        header.data_offset_bytes + found->second->begin_bytes == tensor.begin_bytes;
    if (!is_equal)
      return Status(Code::corrupt, "the file's header contradicts the manifest about tensor " +
                                       quote_for_message(tensor.name));
    entries.erase(found);
  }
  if (entries.empty()) return {};
  return Status(Code::corrupt,
                "the manifest does not have tensor " + quote_for_message(entries.begin()->first));
}

}  // namespace stoker
