#include "gpu/gather.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gpu/fake_driver.h"

namespace stoker::testing {
namespace {

TEST(CudaGatherTest, the_pieces_lie_in_the_block_where_they_were_asked_for) {
  FakeDriver fake;
  const auto device = CudaDevice::retain(fake.table(), 0);
  ASSERT_TRUE(device.ok());
  const auto gather = CudaGather::make(*device);
  ASSERT_TRUE(gather.ok());
  const std::string text = "abcdef";
  const CudaPointer from = fake.upload(std::as_bytes(std::span(text)));
  const CudaPointer block = fake.upload(std::vector<std::byte>(6));
  const std::vector<CudaGather::Piece> pieces = {{.from = from + 4, .to_bytes = 0, .size_bytes = 2},
                                                 {.from = from, .to_bytes = 2, .size_bytes = 4}};
  const CudaScope scope(**device);
  ASSERT_TRUE((*gather)->enqueue(block, pieces, nullptr).ok());
  fake.finish(0, nullptr);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(FakeDriver::memory_at(block)), 6), "efabcd");
}

TEST(CudaGatherTest, a_kernel_that_cannot_be_loaded_is_an_error) {
  FakeDriver fake;
  const auto device = CudaDevice::retain(fake.table(), 0);
  ASSERT_TRUE(device.ok());
  fake.fail_call(1);
  const auto gather = CudaGather::make(*device);
  ASSERT_FALSE(gather.ok());
  EXPECT_EQ(gather.status().message(), "cuModuleLoadData: CUDA_ERROR_LAUNCH_FAILED (719)");
}

}  // namespace
}  // namespace stoker::testing
