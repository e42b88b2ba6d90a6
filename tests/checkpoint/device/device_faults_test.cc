// Each call of the driver fails in turn, in four ways: no wrong byte is ever committed.
#include <gtest/gtest.h>

#include "checkpoint/device/device_saves.h"

namespace stoker::testing {
namespace {

constexpr std::size_t kCallsMax = 1000;

class DeviceFaultsTest : public DeviceSaves,
                         public ::testing::WithParamInterface<FakeDriver::Fault> {
 protected:
  /// Saves once with the call of that number failing. Returns whether it was reached.
  bool save_with_fault(std::size_t number, bool with_device_memory) {
    const TempDir dir;
    {
      const auto saver = make_saver(options(dir.path()));
      SaveRequest request{.step = 1, .tensors = tensors_};
      if (with_device_memory) request.devices = with_snapshot(kMiB);
      request.devices.streams = {{.device = 0, .handle = current_}, {.device = 1}};
      fake_.fail_call(number, GetParam());
      Result<PendingSave> pending = saver->save(std::move(request));
      if (pending.ok()) static_cast<void>(pending->wait());
      static_cast<void>(saver->close());
    }
    const bool was_reached = fake_.calls().size() > number;
    fake_.heal();
    if (std::filesystem::exists(step_path(1, dir.path()))) {
      expect_saved(1, "a", iota(kMiB + 5, 1), dir.path());
      expect_saved(1, "b", iota(kMiB / 4, 2), dir.path());
      expect_saved(1, "s14", iota(77, 14), dir.path());
    } else {
      EXPECT_TRUE(was_reached);
    }
    for (const std::weak_ptr<void>& lent : lent_) EXPECT_TRUE(lent.expired());
    return was_reached;
  }

  void walk(bool with_device_memory) {
    tensors_ = {on_device("a", iota(kMiB + 5, 1), 0), on_device("b", iota(kMiB / 4, 2), 1)};
    for (int i = 10; i < 20; ++i)
      tensors_.push_back(on_device("s" + std::to_string(i), iota(77, float(i)), 0));
    std::size_t number = 0;
    while (number < kCallsMax && save_with_fault(number, with_device_memory)) {
      ++number;
      if (HasFailure()) FAIL() << "call " << number - 1;
    }
    EXPECT_GT(number, 30U);
    EXPECT_LT(number, kCallsMax);
  }

  std::vector<SaveTensor> tensors_;
  const CudaStream current_ = fake_.make_stream(0);
};

TEST_P(DeviceFaultsTest, a_save_through_the_host_commits_the_right_bytes_or_nothing) {
  walk(/*with_device_memory=*/false);
}

TEST_P(DeviceFaultsTest, a_save_by_way_of_a_snapshot_commits_the_right_bytes_or_nothing) {
  walk(/*with_device_memory=*/true);
}

INSTANTIATE_TEST_SUITE_P(Faults, DeviceFaultsTest,
                         ::testing::Values(FakeDriver::Fault::once, FakeDriver::Fault::sticky,
                                           FakeDriver::Fault::later, FakeDriver::Fault::no_memory));

}  // namespace
}  // namespace stoker::testing
