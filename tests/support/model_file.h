#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace stoker::testing {

constexpr std::size_t kModelBlockBytes = 4096;
constexpr std::size_t kModelSectorBytes = 512;

/// One block's bytes, shared by all states that have it; null is a hole, which reads as zeros.
using ModelBlock = std::shared_ptr<const std::vector<std::byte>>;

/// What a file holds at one moment.
struct FileImage {
  std::map<std::uint64_t, ModelBlock> blocks;  ///< By number; what is missing is a hole.
  std::uint64_t size_bytes = 0;

  std::vector<std::byte> bytes() const;
  /// Drops what lies behind the end, so that a file which grows again grows zeros.
  void trim();
};

/// The bytes of one file of the model disk: those that are durable, and apart from them every
/// version of every block and of the size since the last sync. A power cut may keep any version of
/// each, independently of all others, or the durable one; a block can also be torn at a sector.
/// This is weaker than what the filesystems do which write a size only after its blocks.
///
/// Thread safety: none; ModelDisk provides it.
class ModelFile {
 public:
  ModelFile() = default;
  /// A file that is durable as it is.
  explicit ModelFile(FileImage image) : durable_(std::move(image)) {}

  void write(std::uint64_t offset_bytes, std::span<const std::byte> bytes);
  void resize(std::uint64_t size_bytes);
  /// fsync and fdatasync: bytes and size are durable.
  void sync();

  std::uint64_t size_bytes() const { return sizes_.empty() ? durable_.size_bytes : sizes_.back(); }
  /// What a reader sees while the power is on.
  FileImage live() const;

  const FileImage& durable() const { return durable_; }
  /// Versions since the last sync, oldest first.
  const std::map<std::uint64_t, std::vector<ModelBlock>>& dirty_blocks() const { return dirty_; }
  const std::vector<std::uint64_t>& sizes() const { return sizes_; }

  /// Version `choice` of a dirty block: 0 is the durable one, then the versions, then a torn one.
  ModelBlock version_of(std::uint64_t block, std::uint32_t choice) const;

 private:
  ModelBlock live_block(std::uint64_t block) const;
  void put(std::uint64_t block, std::size_t begin_bytes, std::span<const std::byte> bytes);

  FileImage durable_;
  std::map<std::uint64_t, std::vector<ModelBlock>> dirty_;
  std::vector<std::uint64_t> sizes_;
};

}  // namespace stoker::testing
