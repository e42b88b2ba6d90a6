#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/device/device_copier.h"
#include "checkpoint/save_support.h"
#include "gpu/fake_driver.h"
#include "gpu/pinned_memory.h"

namespace stoker::testing {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

inline std::vector<float> iota(std::size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

inline std::vector<std::byte> raw(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// Saves from the devices of a fake driver.
class DeviceSaves : public ::testing::Test {
 protected:
  SaverOptions options(const std::string& directory = {}) {
    SaverOptions options = quiet_options(directory.empty() ? dir_.path() : directory);
    options.copier = make_device_copier({.find_driver = [this] { return Result(&fake_.table()); },
                                         .memory = memory_,
                                         .thread_count = 2});
    options.staging_arena = memory_->maker();
    return options;
  }

  SaveTensor on_device(std::string name, const std::vector<float>& values, int device = 0) {
    return {
        .name = std::move(name),
        .type = TensorType::f32,
        .shape = {values.size()},
        .data = reinterpret_cast<const std::byte*>(fake_.upload(std::as_bytes(std::span(values)))),
        .device = device};
  }

  static CudaPointer pointer_of(const SaveTensor& tensor) {
    return reinterpret_cast<CudaPointer>(tensor.data);
  }

  /// Lends memory for snapshots: at most `most` bytes at a time on each device.
  DeviceUse with_snapshot(std::size_t most) {
    DeviceUse use;
    use.snapshot_memory = [this, most](std::int32_t, std::uint64_t size_bytes) {
      const std::size_t size = std::min<std::size_t>(most, size_bytes);
      auto owner = std::make_shared<std::vector<std::byte>>(size);
      lent_.push_back(owner);
      const CudaPointer bit = fake_.upload({}) & (CudaPointer{1} << 62);
      return DeviceMemory{
          .data = reinterpret_cast<std::byte*>(reinterpret_cast<CudaPointer>(owner->data()) | bit),
          .size_bytes = size,
          .owner = owner};
    };
    return use;
  }

  std::string step_path(std::uint64_t step, const std::string& directory = {}) const {
    return (directory.empty() ? dir_.path() : directory) + "/" + step_name(step);
  }

  void expect_saved(std::uint64_t step, const std::string& name, const std::vector<float>& values,
                    const std::string& directory = {}) const {
    const std::string at = step_path(step, directory);
    expect_whole(at);
    for (const CheckpointFile& file : manifest_in(at).files)
      EXPECT_EQ(read_plainly(at + "/" + file.name, name), values) << name;
  }

  FakeDriver fake_;
  const TempDir dir_;
  const std::shared_ptr<PinnedMemory> memory_ = PinnedMemory::make();
  std::vector<std::weak_ptr<void>> lent_;
};

}  // namespace stoker::testing
