// A device does not answer, and one call of its driver fails: the save and its checkpointer end by
// the deadline all the same, and what the device may still use is kept until it ends.
#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <tuple>

#include "checkpoint/device/device_saves.h"

namespace stoker::testing {
namespace {

using Fault = FakeDriver::Fault;

class HangingFaultsTest : public DeviceSaves,
                          public ::testing::WithParamInterface<std::tuple<Fault, std::size_t>> {
 protected:
  /// Saves once, with the device held and that call failing. Returns how many calls were made.
  std::size_t save_with_fault(std::size_t number, std::chrono::milliseconds deadline) {
    const TempDir dir;
    std::size_t count = 0;
    SaverOptions own = options(dir.path());
    std::shared_ptr<TensorCopier> copier = own.copier;
    {
      const auto saver = make_saver(std::move(own));
      SaveRequest request{.step = 1, .tensors = tensors_, .deadline = deadline};
      request.devices = with_snapshot(std::get<1>(GetParam()));
      request.devices.streams = {{.device = 0, .handle = current_}, {.device = 1}};
      fake_.hold(0, current_);
      fake_.fail_call(number, std::get<0>(GetParam()));
      const Result<PendingSave> pending = saver->save(std::move(request));
      if (pending.ok()) static_cast<void>(pending->wait());
      count = fake_.calls().size();
      fake_.heal();
    }
    EXPECT_FALSE(std::filesystem::exists(step_path(1, dir.path())));
    fake_.release();
    // Whoever destroys it calls the driver: that is this thread, after the one that has waited.
    while (copier.use_count() > 1) std::this_thread::yield();
    copier.reset();
    for (const std::weak_ptr<void>& lent : lent_) EXPECT_TRUE(lent.expired());
    return count;
  }

  const CudaStream current_ = fake_.make_stream(0);
  const std::vector<SaveTensor> tensors_ = {on_device("a", iota(kMiB + 5, 1), 0),
                                            on_device("b", iota(1000, 2), 1),
                                            on_device("c", iota(77, 3), 0)};
};

TEST_P(HangingFaultsTest, a_failing_call_keeps_nothing_past_the_deadline) {
  std::size_t calls = 0;
  for (std::chrono::milliseconds time(100); calls < 30; time *= 2)  // a busy machine needs longer
    calls = save_with_fault(std::numeric_limits<std::size_t>::max(), time);
  for (std::size_t number = 0; number < calls; ++number) {
    save_with_fault(number, std::chrono::milliseconds(30));
    if (HasFailure()) FAIL() << "call " << number;
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, HangingFaultsTest,
                         ::testing::Combine(::testing::Values(Fault::once, Fault::no_memory),
                                            ::testing::Values(0, 100 * kMiB)));

}  // namespace
}  // namespace stoker::testing
