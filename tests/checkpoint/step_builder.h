/// \file
/// Checkpoints for the tests of everything that reads them, made without the code that saves: the
/// layout is planned by the product, the bytes are written and hashed here.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/opened.h"
#include "checkpoint/restore/reader.h"
#include "checkpoint/save/commit.h"
#include "checkpoint/staging/layout.h"
#include "checkpoint/staging/nonfinite.h"
#include "io/files/file_ops.h"
#include "io/files/text_file.h"

namespace stoker::testing {

/// A tensor of one rank, or a slice of one.
struct BuiltTensor {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> global_shape = {};
  std::vector<std::uint64_t> offsets = {};
  std::vector<std::byte> bytes = {};
};

struct BuiltStep {
  std::uint64_t step = 0;
  std::uint64_t generation = 1;
  std::optional<CheckpointParent> parent = {};
  std::vector<std::vector<BuiltTensor>> ranks;
  std::string name = {};    ///< The step's own if empty.
  bool has_digests = true;  ///< Of tensors; version 0.1 wrote none.
  std::string line = {};
};

inline void must(const Status& status) {
  ASSERT_TRUE(status.ok()) << status.message();
}

inline std::vector<std::byte> random_bytes(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

inline std::vector<std::byte> float_bytes(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// A whole tensor of random bytes.
inline BuiltTensor random_tensor(std::string name, TensorType type,
                                 std::vector<std::uint64_t> shape, std::uint64_t seed) {
  BuiltTensor tensor{.name = std::move(name), .type = type, .shape = std::move(shape)};
  tensor.bytes = random_bytes(*tensor_bytes(type, tensor.shape), seed);
  return tensor;
}

inline void write_built_file(FileOps& ops, const std::string& path, std::string_view text) {
  Result<UniqueFd> fd = ops.open(path, O_WRONLY | O_CREAT | O_TRUNC);
  ASSERT_TRUE(fd.ok()) << fd.status().message();
  must(write_text(ops, fd->get(), text));
  must(ops.fsync(fd->get()));
}

/// One rank's files, written into `directory`.
inline CheckpointPart write_built_part(FileOps& ops, const std::string& directory,
                                       std::uint32_t rank, const std::vector<BuiltTensor>& built) {
  std::vector<SaveTensor> tensors;
  for (const BuiltTensor& tensor : built)
    tensors.push_back({.name = tensor.name,
                       .type = tensor.type,
                       .shape = tensor.shape,
                       .global_shape = tensor.global_shape,
                       .offsets = tensor.offsets,
                       .data = tensor.bytes.data()});
  const Result<CheckpointLayout> layout = plan_layout(rank, tensors);
  EXPECT_TRUE(layout.ok()) << layout.status().message();
  CheckpointPart part = describe(*layout, tensors);
  for (std::size_t f = 0; f < layout->files.size(); ++f) {
    std::string text = layout->files[f].header;
    for (const PlacedTensor& placed : layout->files[f].tensors) {
      const std::vector<std::byte>& bytes = built[placed.tensor].bytes;
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    const auto data = std::as_bytes(std::span(text));
    for (std::size_t at = 0; at < data.size(); at += kCheckpointChunkBytes)
      part.files[f].chunks.push_back(xxh3_128(
          data.subspan(at, std::min<std::size_t>(kCheckpointChunkBytes, data.size() - at))));
    write_built_file(ops, directory + "/" + layout->files[f].name, text);
  }
  for (CheckpointTensor& tensor : part.tensors)
    for (const BuiltTensor& source : built)
      if (source.name == tensor.name) {
        tensor.nonfinite_count = count_nonfinite(source.type, source.bytes);
        tensor.digest = xxh3_128(source.bytes);
      }
  return part;
}

/// Writes a whole checkpoint below `directory`, which must exist.
inline CheckpointManifest write_built_step(FileOps& ops, const std::string& directory,
                                           const BuiltStep& step) {
  const std::string name = step.name.empty() ? step_name(step.step) : step.name;
  const std::string path = directory + "/" + name;
  must(ops.mkdir(path));
  CheckpointManifest manifest;
  manifest.step = step.step;
  manifest.generation = step.generation;
  manifest.line = step.line;
  manifest.world_size = static_cast<std::uint32_t>(step.ranks.size());
  manifest.parent = step.parent;
  manifest.tool = "test";
  std::vector<CheckpointPart> parts;
  for (std::uint32_t rank = 0; rank < step.ranks.size(); ++rank)
    parts.push_back(write_built_part(ops, path, rank, step.ranks[rank]));
  must(merge_parts(manifest, parts));
  if (!step.has_digests)
    for (CheckpointTensor& tensor : manifest.tensors) tensor.digest.reset();
  write_built_file(ops, path + "/" + std::string(kManifestName),
                   format_checkpoint_manifest(manifest));
  must(ops.fsync_dir(path));
  must(ops.fsync_dir(directory));
  return manifest;
}

/// One small tensor, different for every seed.
inline BuiltStep small_step(std::uint64_t step, std::uint64_t generation, std::uint64_t seed = 1) {
  return {.step = step,
          .generation = generation,
          .ranks = {{random_tensor("model.weight", TensorType::i32, {3, 5}, seed + step)}}};
}

/// Reads on the calling thread, without io_uring: for tests that read thousands of times.
inline CheckpointReader::Options plain_reader() {
  CheckpointReader::Options options;
  options.file.policy = CachePolicy::buffered;
  options.engine = [] { return make_sync_engine({}); };
  options.thread_count = 1;
  return options;
}

inline CheckpointReader open_step(FileOps& ops, const std::string& path,
                                  const CheckpointReader::Options& options = plain_reader()) {
  Result<CheckpointReader> reader = CheckpointReader::open(ops, path, options);
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  return *std::move(reader);
}

inline std::vector<std::byte> read_whole(const CheckpointReader& reader, const std::string& name) {
  std::vector<std::byte> bytes(reader.find(name)->size_bytes);
  must(reader.read({.name = name, .memory = bytes}));
  return bytes;
}

}  // namespace stoker::testing
