// Copies to a device: what crosses the link as one, and what does not.
#include "gpu/uploader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "gpu/fake_driver.h"

namespace stoker::testing {
namespace {

TEST(AddUploadTest, what_is_adjacent_in_both_memories_is_one_copy) {
  const std::vector<std::byte> host(100);
  std::vector<CudaUpload> uploads;
  add_upload(uploads, {.to = 1000, .from = host.data(), .size_bytes = 10});
  add_upload(uploads, {.to = 1010, .from = host.data() + 10, .size_bytes = 5});
  add_upload(uploads, {.to = 1015, .from = host.data() + 15, .size_bytes = 0});
  add_upload(uploads, {.to = 1016, .from = host.data() + 15, .size_bytes = 5});
  add_upload(uploads, {.to = 1021, .from = host.data() + 21, .size_bytes = 5});
  ASSERT_EQ(uploads.size(), 3U);
  EXPECT_EQ(uploads[0].size_bytes, 15U);
}

class UploaderTest : public ::testing::Test {
 protected:
  /// Copies pieces of `size` bytes, each `step` bytes behind the last one. Returns whether all are
  /// right.
  bool copy(std::size_t count, std::size_t size, std::size_t step) {
    std::vector<std::byte> host(count * step);
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<std::byte>(i * 7 + i / 251);
    std::vector<CudaUpload> uploads;
    for (std::size_t i = 0; i < count; ++i)
      uploads.push_back({.to = fake_.upload(std::vector<std::byte>(size)),
                         .from = host.data() + i * step,
                         .size_bytes = size});
    Result<std::unique_ptr<CudaUploader>> uploader = CudaUploader::make(fake_.table(), 1);
    EXPECT_TRUE(uploader.ok());
    Result<std::unique_ptr<OwnedCudaEvent>> event = (*uploader)->events().take();
    EXPECT_TRUE((*uploader)->enqueue(uploads, **event).ok());
    EXPECT_TRUE((*uploader)->synchronize().ok());
    (*uploader)->events().give_back(*std::move(event));
    return std::ranges::all_of(uploads, [&](const CudaUpload& upload) {
      return std::equal(upload.from, upload.from + size, FakeDriver::memory_at(upload.to));
    });
  }

  FakeDriver fake_;
};

TEST_F(UploaderTest, many_small_copies_cross_the_link_together) {
  EXPECT_TRUE(copy(1000, 333, 335));
  EXPECT_EQ(fake_.count_of("memcpy_htod_async"), 1U);
  EXPECT_EQ(fake_.count_of("launch_kernel"), 4U);
  EXPECT_EQ(fake_.allocated_bytes(), 0U);
}

TEST_F(UploaderTest, more_than_a_window_takes_several) {
  EXPECT_TRUE(copy(40, 200'000, 200'001));  // 8 MB
  EXPECT_EQ(fake_.count_of("memcpy_htod_async"), 2U);
}

TEST_F(UploaderTest, large_few_and_distant_copies_go_by_themselves) {
  EXPECT_TRUE(copy(10, CudaUploader::kSmallBytes, CudaUploader::kSmallBytes));
  EXPECT_TRUE(copy(CudaUploader::kRunMin - 1, 100, 100));
  EXPECT_TRUE(copy(20, 100, CudaUploader::kGapBytes + 101));
  EXPECT_EQ(fake_.count_of("launch_kernel"), 0U);
  EXPECT_EQ(fake_.count_of("module_load_data"), 0U) << "the kernel was loaded for nothing";
}

}  // namespace
}  // namespace stoker::testing
