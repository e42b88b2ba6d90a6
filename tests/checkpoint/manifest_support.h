/// \file
/// A small manifest that has one of everything, and ways to spoil its text.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "checkpoint/manifest/manifest.h"
#include "checkpoint/manifest/sealed_json.h"

namespace stoker::testing {

/// Two ranks; `w` in two slices, `b` whole, an empty and a scalar tensor; every kind of reference
/// value but NaN, which is not equal to itself. tests/golden/checkpoint holds its text.
inline CheckpointManifest example_manifest() {
  CheckpointManifest manifest;
  manifest.step = 1000;
  manifest.generation = kGenerationMax;
  manifest.time_s = 1763241668.25;
  manifest.world_size = 2;
  manifest.tool = "stoker 0.1.0";
  manifest.line = "00112233445566778899aabbccddeeff";
  manifest.parent = CheckpointParent{
      .step = 900, .generation = kGenerationMax - 1, .line = "ffeeddccbbaa99887766554433221100"};
  const Digest128 one{.low = 0x0123456789abcdef, .high = 0xfedcba9876543210};
  const Digest128 two{.low = 2, .high = 0};
  manifest.files = {{.name = "rank-00000.safetensors",
                     .size_bytes = kCheckpointChunkBytes + 1,
                     .chunks = {one, two},
                     .link_count = 3},
                    {.name = "rank-00001.safetensors", .size_bytes = 4160, .chunks = {two}}};
  const auto tensor = [](std::string name, TensorType type) {
    CheckpointTensor made;
    made.name = std::move(name);
    made.type = type;
    return made;
  };
  CheckpointTensor upper = tensor("w", TensorType::f32);
  upper.global_shape = {4, 4};
  upper.offsets = {0, 0};
  upper.shape = {2, 4};
  upper.begin_bytes = 4096;
  upper.end_bytes = 4128;
  upper.nonfinite_count = 1;
  CheckpointTensor lower = upper;
  lower.offsets = {2, 0};
  lower.file = 1;
  lower.nonfinite_count = 0;
  CheckpointTensor bias = tensor("b \"\xc3\xa9\"", TensorType::bf16);
  bias.global_shape = bias.shape = {3};
  bias.offsets = {0};
  bias.begin_bytes = 4128;
  bias.end_bytes = 4134;
  bias.digest = one;
  CheckpointTensor empty = tensor("empty", TensorType::f8_e4m3);
  empty.global_shape = empty.shape = {0, 7};
  empty.offsets = {0, 0};
  empty.begin_bytes = empty.end_bytes = 4134;
  CheckpointTensor scalar = tensor("scalar", TensorType::i64);
  scalar.file = 1;
  scalar.begin_bytes = 4128;
  scalar.end_bytes = 4136;
  manifest.tensors = {upper, lower, bias, empty, scalar};
  manifest.state_json = {R"({"z": 1, "a": {"!tuple": [1.0, 9007199254740993]}})", "null"};
  manifest.reference = {
      {"grad_norm", std::numeric_limits<double>::infinity()}, {"loss", 0.1}, {"tokens", 3}};
  manifest.extra_json = R"({"note": "x, \"y\" ]}"})";
  manifest.cursor_json = "\"AAAA\"";
  return manifest;
}

/// The text with its first `from` replaced by `to`, and sealed again.
inline std::string respelled(std::string text, std::string_view from, std::string_view to) {
  text.resize(text.rfind("\"xxh3_128\": "));
  const std::size_t at = text.find(from);
  if (at == std::string::npos) return "the text does not have " + std::string(from);
  return seal_json(text.replace(at, from.size(), to));
}

}  // namespace stoker::testing
