#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/restore/reader.h"
#include "checkpoint/step_builder.h"
#include "gpu/fake_driver.h"
#include "support/temp_dir.h"

namespace stoker::testing {

inline constexpr std::byte kUntouched{0xEE};

/// Reads to the devices of a fake driver.
class DeviceReadsFixture : public ::testing::Test {
 protected:
  void write(std::vector<BuiltTensor> tensors) {
    tensors_ = std::move(tensors);
    write_built_step(posix_file_ops(), dir_.path(), {.step = 1, .ranks = {tensors_}});
  }

  std::string step_path() const { return dir_.file(step_name(1)); }

  CheckpointReader open(std::size_t thread_count = 2) const {
    CheckpointReader::Options options = plain_reader();
    options.thread_count = thread_count;
    options.depth = 1;
    return open_step(posix_file_ops(), step_path(), options);
  }

  /// Memory on a device for a tensor, filled with kUntouched.
  ReadTarget on_device(const BuiltTensor& tensor, int device = 0) {
    const CudaPointer pointer =
        fake_->upload(std::vector<std::byte>(tensor.bytes.size(), kUntouched));
    return {.name = tensor.name,
            .memory = {reinterpret_cast<std::byte*>(pointer), tensor.bytes.size()},
            .device = device};
  }

  std::vector<ReadTarget> all_on_device() {
    std::vector<ReadTarget> targets;
    for (const BuiltTensor& tensor : tensors_) targets.push_back(on_device(tensor));
    return targets;
  }

  static CudaPointer pointer_of(const ReadTarget& target) {
    return reinterpret_cast<CudaPointer>(target.memory.data());
  }
  static std::span<const std::byte> contents(const ReadTarget& target) {
    return {FakeDriver::memory_at(pointer_of(target)), target.memory.size()};
  }
  /// In one call: tests are hardly optimized, and byte by byte megabytes take seconds.
  static bool is_same(std::span<const std::byte> a, std::span<const std::byte> b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
  }
  static bool is_right(const ReadTarget& target, const BuiltTensor& tensor) {
    return is_same(contents(target), tensor.bytes);
  }
  void expect_all(std::span<const ReadTarget> targets) const {
    for (std::size_t i = 0; i < targets.size(); ++i)
      EXPECT_TRUE(is_right(targets[i], tensors_[i])) << targets[i].name;
  }

  CheckpointReader::ReadOptions options(CudaStream stream = nullptr) const {
    CheckpointReader::ReadOptions options;
    options.devices.find_driver = [this] { return Result(&fake_->table()); };
    options.devices.streams = {{0, stream}, {1, nullptr}};
    return options;
  }

  std::unique_ptr<FakeDriver> fake_ = std::make_unique<FakeDriver>();
  const TempDir dir_{fast_parent()};
  std::vector<BuiltTensor> tensors_;
};

/// Large tensors that end inside chunks, and many small ones between them.
inline std::vector<BuiltTensor> mixed_tensors() {
  std::vector<BuiltTensor> tensors;
  tensors.push_back(random_tensor("a", TensorType::u8, {(std::size_t{9} << 20) + 5}, 1));
  for (std::uint64_t i = 0; i < 300; ++i)
    tensors.push_back(random_tensor("s" + std::to_string(i), TensorType::u8,
                                    {i % 7 == 0 ? 200'000 + i : 1 + i * 37}, i));
  tensors.push_back(random_tensor("z", TensorType::f32, {1'500'000}, 2));
  return tensors;
}

}  // namespace stoker::testing
