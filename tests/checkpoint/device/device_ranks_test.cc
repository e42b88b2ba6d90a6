// Two ranks, each with a device, that have a tensor in common: they compare checksums of it before
// they save. Each call of the driver fails in turn: both ranks end alike, and neither waits for its
// deadline.
#include "checkpoint/device/device_ranks.h"

namespace stoker::testing {
namespace {

using Fault = FakeDriver::Fault;

constexpr std::size_t kRankCallsMax = 1000;

class DeviceRanksTest : public DeviceRanks, public ::testing::WithParamInterface<Fault> {
 protected:
  /// Saves twice, or until that call of the driver has failed a save. Returns whether it was
  /// reached.
  bool save_with_fault(std::size_t number) {
    const TempDir dir;
    Savers savers = savers_in(dir.path());
    fake_.fail_call(number, GetParam());
    for (std::uint64_t step = 1; step <= 2; ++step) {
      const std::vector<Status> ends = save_on_all(savers, [&](std::uint32_t rank) {
        return SaveRequest{.step = step, .tensors = {shared_[rank], own_[rank]}};
      });
      EXPECT_EQ(ends[0].ok(), ends[1].ok()) << ends[0].message() << "\n" << ends[1].message();
      for (const Status& end : ends)
        EXPECT_EQ(end.message().find("did not answer"), std::string_view::npos) << end.message();
      EXPECT_EQ(std::filesystem::exists(step_path(step, dir.path())), ends[0].ok());
      if (!ends[0].ok()) break;
      expect_whole(step_path(step, dir.path()));
    }
    close_all(savers);
    copiers_.clear();
    const bool was_reached = fake_.calls().size() > number;
    fake_.heal();
    return was_reached;
  }

  const SaveTensor shared_[kRanks] = {on_device("w", iota(kMiB / 2, 1), 0),
                                      on_device("w", iota(kMiB / 2, 1), 1)};
  const SaveTensor own_[kRanks] = {on_device("a", iota(1000, 2), 0),
                                   on_device("b", iota(1000, 3), 1)};
};

TEST_P(DeviceRanksTest, a_failing_call_of_one_rank_ends_the_save_of_both_at_once) {
  std::size_t number = 0;
  while (number < kRankCallsMax && save_with_fault(number)) {
    ++number;
    if (HasFailure()) FAIL() << "call " << number - 1;
  }
  EXPECT_GT(number, 60U);
  EXPECT_LT(number, kRankCallsMax);
}

INSTANTIATE_TEST_SUITE_P(Faults, DeviceRanksTest, ::testing::Values(Fault::once, Fault::no_memory));

}  // namespace
}  // namespace stoker::testing
