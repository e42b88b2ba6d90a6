#include "bench/checkpoint/bench_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "bench/scratch.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::stoker::testing::TempDir;

constexpr std::uint64_t kSizeBytes = (std::uint64_t{65} << 20) + 12;  // a second, odd tensor
constexpr std::size_t kPageBytes = 4096;

std::vector<std::byte> bytes_of(const std::vector<SaveTensor>& tensors) {
  std::vector<std::byte> bytes;
  for (const SaveTensor& tensor : tensors)
    bytes.insert(bytes.end(), tensor.data, tensor.data + tensor.shape[0] * sizeof(float));
  return bytes;
}

TEST(BenchTensorsTest, every_page_of_every_tensor_changes_and_stays_finite) {
  Result<BenchTensors> tensors = BenchTensors::make(kSizeBytes);
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  EXPECT_EQ(tensors->count(), 2U);
  EXPECT_EQ(tensors->size_bytes(), kSizeBytes - 4) << "whole words";
  tensors->change(1);
  const std::vector<std::byte> before = bytes_of(tensors->to_save());
  ASSERT_EQ(before.size(), tensors->size_bytes());
  tensors->change(2);
  const std::vector<std::byte> after = bytes_of(tensors->to_save());
  std::size_t same_pages = 0;
  for (std::size_t at = 0; at < after.size(); at += kPageBytes) {
    const std::size_t size = std::min(kPageBytes, after.size() - at);
    if (std::memcmp(before.data() + at, after.data() + at, size) == 0) ++same_pages;
  }
  EXPECT_EQ(same_pages, 0U);
  std::size_t nonfinite = 0;
  for (std::size_t at = 0; at < after.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, after.data() + at, sizeof value);
    if (!std::isfinite(value)) ++nonfinite;
  }
  EXPECT_EQ(nonfinite, 0U);
}

TEST(BenchTensorsTest, more_than_the_machine_has_is_refused) {
  const Result<BenchTensors> tensors = BenchTensors::make(std::uint64_t{1} << 60);
  ASSERT_FALSE(tensors.ok());
  EXPECT_EQ(tensors.status().code(), Code::no_space);
  EXPECT_NE(tensors.status().message().find("--size"), std::string_view::npos);
}

TEST(ScratchDirectoryTest, directories_in_it_are_removed_too) {
  const TempDir dir;
  {
    const Result<ScratchDirectory> scratch = ScratchDirectory::create(posix_file_ops(), dir.path());
    ASSERT_TRUE(scratch.ok()) << scratch.status().message();
    std::filesystem::create_directories(scratch->path() + "/a/b");
    std::ofstream(scratch->path() + "/a/b/file") << "x";
  }
  EXPECT_EQ(dir.entry_count(), 0);
}

}  // namespace
}  // namespace stoker
