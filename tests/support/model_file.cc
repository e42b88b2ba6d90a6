#include "support/model_file.h"

#include <algorithm>
#include <cstring>

namespace stoker::testing {
namespace {

std::vector<std::byte> copy_of(const ModelBlock& block) {
  return block ? *block : std::vector<std::byte>(kModelBlockBytes);
}

ModelBlock find(const std::map<std::uint64_t, ModelBlock>& blocks, std::uint64_t block) {
  const auto found = blocks.find(block);
  return found == blocks.end() ? nullptr : found->second;
}

}  // namespace

std::vector<std::byte> FileImage::bytes() const {
  std::vector<std::byte> all(size_bytes);
  for (const auto& [number, block] : blocks) {
    const std::uint64_t begin = number * kModelBlockBytes;
    if (!block || begin >= size_bytes) continue;
    std::memcpy(all.data() + begin, block->data(),
                std::min<std::uint64_t>(kModelBlockBytes, size_bytes - begin));
  }
  return all;
}

void FileImage::trim() {
  std::erase_if(blocks, [&](const auto& entry) {
    return !entry.second || entry.first * kModelBlockBytes >= size_bytes;
  });
  const std::uint64_t tail_bytes = size_bytes % kModelBlockBytes;
  const auto last = blocks.find(size_bytes / kModelBlockBytes);
  if (tail_bytes == 0 || last == blocks.end()) return;
  std::vector<std::byte> cut = *last->second;
  std::fill(cut.begin() + static_cast<std::ptrdiff_t>(tail_bytes), cut.end(), std::byte{});
  last->second = std::make_shared<const std::vector<std::byte>>(std::move(cut));
}

ModelBlock ModelFile::live_block(std::uint64_t block) const {
  const auto found = dirty_.find(block);
  return found == dirty_.end() ? find(durable_.blocks, block) : found->second.back();
}

void ModelFile::put(std::uint64_t block, std::size_t begin_bytes,
                    std::span<const std::byte> bytes) {
  std::vector<std::byte> next = copy_of(live_block(block));
  std::copy(bytes.begin(), bytes.end(), next.begin() + static_cast<std::ptrdiff_t>(begin_bytes));
  dirty_[block].push_back(std::make_shared<const std::vector<std::byte>>(std::move(next)));
}

void ModelFile::write(std::uint64_t offset_bytes, std::span<const std::byte> bytes) {
  const std::uint64_t end = offset_bytes + bytes.size();
  if (!bytes.empty() && end > size_bytes()) sizes_.push_back(end);
  while (!bytes.empty()) {
    const std::size_t begin = offset_bytes % kModelBlockBytes;
    const std::size_t size = std::min(bytes.size(), kModelBlockBytes - begin);
    put(offset_bytes / kModelBlockBytes, begin, bytes.first(size));
    bytes = bytes.subspan(size);
    offset_bytes += size;
  }
}

void ModelFile::resize(std::uint64_t size_bytes) {
  if (size_bytes == this->size_bytes()) return;
  // What is cut off is gone even if the file grows again before the next sync.
  const FileImage before = live();
  for (const auto& [block, bytes] : before.blocks) {
    const std::uint64_t begin = block * kModelBlockBytes;
    if (!bytes || begin + kModelBlockBytes <= size_bytes) continue;
    const std::size_t kept = begin < size_bytes ? size_bytes - begin : 0;
    if (kept == 0) {
      dirty_[block].push_back(nullptr);
    } else {
      put(block, kept, std::vector<std::byte>(kModelBlockBytes - kept));
    }
  }
  sizes_.push_back(size_bytes);
}

void ModelFile::sync() {
  durable_ = live();
  dirty_.clear();
  sizes_.clear();
}

FileImage ModelFile::live() const {
  FileImage image = durable_;
  for (const auto& [block, versions] : dirty_) image.blocks[block] = versions.back();
  image.size_bytes = size_bytes();
  image.trim();
  return image;
}

ModelBlock ModelFile::version_of(std::uint64_t block, std::uint32_t choice) const {
  const ModelBlock old = find(durable_.blocks, block);
  const std::vector<ModelBlock>& versions = dirty_.at(block);
  if (choice == 0) return old;
  if (choice <= versions.size()) return versions[choice - 1];
  // Torn: the first sectors are new, the rest is old. Where it tears varies with the block, and is
  // the same in every run.
  std::vector<std::byte> torn = copy_of(old);
  const std::vector<std::byte> fresh = copy_of(versions.back());
  const std::uint64_t sectors = 1 + block * 5 % (kModelBlockBytes / kModelSectorBytes - 1);
  std::copy_n(fresh.begin(), sectors * kModelSectorBytes, torn.begin());
  return std::make_shared<const std::vector<std::byte>>(std::move(torn));
}

}  // namespace stoker::testing
