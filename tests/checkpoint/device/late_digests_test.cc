// Tensors that several ranks have are hashed before the ranks agree on a save. A device that does
// not answer then fails the save at its deadline, and nobody waits for it any longer.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "checkpoint/device/device_ranks.h"

namespace stoker::testing {
namespace {

class LateDigestsTest : public DeviceSaves {
 protected:
  const CudaStream current_ = fake_.make_stream(0);
};

TEST_F(LateDigestsTest, end_at_the_deadline_and_keep_their_memory_until_the_device_ends) {
  const auto copier = make_device_copier({.find_driver = [this] { return Result(&fake_.table()); },
                                          .memory = memory_,
                                          .thread_count = 2});
  const std::vector<float> values = iota(kMiB, 1);
  const std::vector<float> few = iota(3, 2);
  const std::vector<SaveTensor> tensors = {on_device("a", values, 0), on_device("b", values, 0),
                                           on_device("c", few, 1)};
  fake_.hold(0, current_);
  const DeviceUse use{.streams = {{.device = 0, .handle = current_}}};
  ASSERT_TRUE(copier->begin(tensors, use, deadline_after(std::chrono::milliseconds(20))).ok());
  CopyRest late;
  const Status failed = copier->digests(tensors, late).status();
  EXPECT_EQ(failed.code(), Code::unavailable);
  EXPECT_NE(failed.message().find("does not answer"), std::string_view::npos) << failed.message();
  ASSERT_TRUE(late);
  EXPECT_EQ(fake_.registered_count(), 1U);

  // Another device, and other memory.
  const std::vector<SaveTensor> others = {tensors[2]};
  CopyRest none;
  ASSERT_TRUE(copier->begin(others, {}, Deadline::max()).ok());
  const Result<std::vector<Digest128>> found = copier->digests(others, none);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->front(), xxh3_128(std::as_bytes(std::span(few))));
  EXPECT_FALSE(none);
  EXPECT_EQ(fake_.registered_count(), 2U);

  fake_.release();
  EXPECT_TRUE(late().ok());
  late = {};
  EXPECT_EQ(fake_.registered_count(), 1U);
}

/// A save of two ranks of which one has a device that does not answer.
class LateRanksTest : public DeviceRanks, public ::testing::WithParamInterface<std::int32_t> {
 protected:
  std::vector<Status> save(Savers& savers, std::uint64_t step, nanoseconds deadline) {
    return save_on_all(savers, [&](std::uint32_t rank) {
      return SaveRequest{.step = step, .tensors = {tensors_[rank]}, .deadline = deadline};
    });
  }
  /// Saves with a deadline, which the device lets pass, and closes.
  void expect_late(Savers& savers, std::uint64_t step) {
    fake_.hold(GetParam(), /*stream=*/nullptr);
    for (const Status& end : save(savers, step, std::chrono::milliseconds(500)))
      EXPECT_EQ(end.code(), Code::unavailable) << end.message();
    close_all(savers);
    EXPECT_FALSE(std::filesystem::exists(step_path(step)));
    fake_.release();
    // The threads that still wait have the copiers, which call the driver when they are destroyed.
    const auto is_in_use = [](const auto& copier) { return copier.use_count() > 1; };
    while (std::ranges::any_of(copiers_, is_in_use)) std::this_thread::yield();
    copiers_.clear();
  }

  const SaveTensor tensors_[kRanks] = {on_device("w", iota(kMiB, 1), 0),
                                       on_device("w", iota(kMiB, 1), 1)};
};

TEST_P(LateRanksTest, a_save_that_compares_checksums_fails_and_its_checkpointers_do_not_wait) {
  Savers savers = savers_in(dir_.path());
  expect_late(savers, 1);
  EXPECT_EQ(fake_.registered_count(), 0U);
}

/// The rank that stores it copies the tensor, and the other one hashes it.
TEST_P(LateRanksTest, so_does_one_that_knows_who_stores_the_tensor) {
  Savers savers = savers_in(dir_.path());
  for (const Status& end : save(savers, 1, std::chrono::hours(1)))
    ASSERT_TRUE(end.ok()) << end.message();
  expect_late(savers, 2);
  expect_whole(step_path(1));
}

INSTANTIATE_TEST_SUITE_P(Devices, LateRanksTest, ::testing::Values(0, 1));

}  // namespace
}  // namespace stoker::testing
