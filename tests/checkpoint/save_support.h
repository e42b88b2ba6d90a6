#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/opened.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "stoker/safetensors.h"
#include "support/temp_dir.h"

namespace stoker::testing {

/// Floats that a test owns, to be saved as a tensor.
struct OwnedTensor {
  std::string name;
  std::vector<float> values;

  SaveTensor view() const {
    return {.name = name,
            .type = TensorType::f32,
            .shape = {values.size()},
            .data = reinterpret_cast<const std::byte*>(values.data())};
  }
};

inline OwnedTensor counted(std::string name, std::size_t count, float first) {
  OwnedTensor tensor{.name = std::move(name), .values = std::vector<float>(count)};
  std::iota(tensor.values.begin(), tensor.values.end(), first);
  return tensor;
}

inline EngineFactory engine_of(EngineKind kind) {
  return [kind] { return make_engine(kind, {.depth = 8}); };
}

/// Quiet options: synchronous engine, buffered files, no heart that beats.
inline SaverOptions quiet_options(const std::string& directory) {
  SaverOptions options;
  options.directory = directory;
  options.engine = engine_of(EngineKind::sync);
  options.file.policy = CachePolicy::buffered;
  options.lock.ttl = nanoseconds(0);
  options.copy_threads = 2;
  return options;
}

inline std::unique_ptr<CheckpointSaver> make_saver(SaverOptions options) {
  Result<std::unique_ptr<CheckpointSaver>> saver = CheckpointSaver::make(std::move(options));
  EXPECT_TRUE(saver.ok()) << saver.status().message();
  return *std::move(saver);
}

inline SaveRequest request_of(std::uint64_t step, const std::vector<OwnedTensor>& tensors) {
  SaveRequest request;
  request.step = step;
  for (const OwnedTensor& tensor : tensors) request.tensors.push_back(tensor.view());
  request.state_json = "{\"step\":" + std::to_string(step) + "}";
  return request;
}

inline CheckpointManifest manifest_in(const std::string& step_directory) {
  Result<CheckpointManifest> manifest = read_checkpoint_manifest(posix_file_ops(), step_directory);
  EXPECT_TRUE(manifest.ok()) << manifest.status().message();
  return manifest.ok() ? *manifest : CheckpointManifest();
}

/// The tensor's bytes by way of the file's own header, as any reader of safetensors finds them.
inline std::vector<float> read_plainly(const std::string& path, const std::string& name) {
  const std::string text = contents_of(path);
  const auto bytes = std::as_bytes(std::span(text));
  const Result<std::uint64_t> size = safetensors_header_bytes(bytes.first(8), bytes.size());
  EXPECT_TRUE(size.ok());
  if (!size.ok()) return {};
  const Result<SafetensorsHeader> header = parse_safetensors(bytes.first(*size), bytes.size());
  EXPECT_TRUE(header.ok()) << header.status().message();
  if (!header.ok()) return {};
  EXPECT_EQ(header->data_offset_bytes % 4096, 0U);
  for (const SafetensorsEntry& entry : header->entries) {
    if (entry.name != name) continue;
    std::vector<float> values((entry.end_bytes - entry.begin_bytes) / sizeof(float));
    std::memcpy(values.data(), bytes.data() + header->data_offset_bytes + entry.begin_bytes,
                values.size() * sizeof(float));
    return values;
  }
  ADD_FAILURE() << name << " is not in " << path;
  return {};
}

/// Every chunk of every file has the checksum that the manifest says.
inline void expect_whole(const std::string& step_directory) {
  const CheckpointManifest manifest = manifest_in(step_directory);
  for (const CheckpointFile& file : manifest.files) {
    const std::string text = contents_of(step_directory + "/" + file.name);
    ASSERT_EQ(text.size(), file.size_bytes) << file.name;
    const auto bytes = std::as_bytes(std::span(text));
    for (std::size_t i = 0; i < file.chunks.size(); ++i) {
      const std::size_t begin = i * kCheckpointChunkBytes;
      const std::size_t size = std::min<std::size_t>(kCheckpointChunkBytes, bytes.size() - begin);
      ASSERT_EQ(xxh3_128(bytes.subspan(begin, size)), file.chunks[i]) << file.name << " " << i;
    }
  }
}

}  // namespace stoker::testing
