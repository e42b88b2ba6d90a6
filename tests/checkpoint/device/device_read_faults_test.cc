// Each call of the driver fails in turn, in four ways: a read fails, or all its bytes are right.
#include <gtest/gtest.h>

#include <new>

#include "checkpoint/device/device_reads.h"

namespace stoker::testing {
namespace {

constexpr std::size_t kReadCallsMax = 1000;

class DeviceReadFaultsTest : public DeviceReadsFixture,
                             public ::testing::WithParamInterface<FakeDriver::Fault> {
 protected:
  /// Reads once with the call of that number failing. Returns whether it was reached.
  bool read_with_fault(std::size_t number) {
    fake_ = std::make_unique<FakeDriver>();
    std::vector<ReadTarget> targets = all_on_device();
    targets[0].device = 1;
    fake_->fail_call(number, GetParam());
    Status status;
    try {
      status = open(/*thread_count=*/1).read_all(targets, options());
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(GetParam(), FakeDriver::Fault::no_memory);
      status = Status(Code::unavailable, "no memory");
    }
    const bool was_reached = fake_->calls().size() > number;
    if (status.ok())
      expect_all(targets);
    else
      EXPECT_TRUE(was_reached) << status.message();
    return was_reached;
  }
};

TEST_P(DeviceReadFaultsTest, a_read_fails_or_its_bytes_are_right) {
  std::vector<BuiltTensor> tensors = {
      random_tensor("a", TensorType::u8, {std::size_t{9} << 20}, 1)};
  for (std::uint64_t i = 0; i < 20; ++i)
    tensors.push_back(random_tensor("s" + std::to_string(i), TensorType::u8, {100 + i}, i));
  write(std::move(tensors));
  std::size_t number = 0;
  while (number < kReadCallsMax && read_with_fault(number)) {
    ++number;
    if (HasFailure()) FAIL() << "call " << number - 1;
  }
  EXPECT_GT(number, 30U);
  EXPECT_LT(number, kReadCallsMax);
}

INSTANTIATE_TEST_SUITE_P(Faults, DeviceReadFaultsTest,
                         ::testing::Values(FakeDriver::Fault::once, FakeDriver::Fault::sticky,
                                           FakeDriver::Fault::later, FakeDriver::Fault::no_memory));

}  // namespace
}  // namespace stoker::testing
