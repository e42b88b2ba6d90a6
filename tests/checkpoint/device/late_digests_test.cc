// Tensors that several ranks have are hashed before the ranks agree on a save. A device that does
// not answer then fails the save at its deadline, and nobody waits for it any longer.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "checkpoint/device/device_saves.h"
#include "checkpoint/opened.h"

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

TEST_F(LateDigestsTest, a_save_of_two_ranks_fails_and_its_checkpointers_do_not_wait) {
  std::vector<std::unique_ptr<CheckpointSaver>> savers;
  std::vector<std::shared_ptr<TensorCopier>> copiers;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    SaverOptions own = options();
    own.deadline = std::chrono::seconds(30);
    auto made = make_shared_directory_coordinator({.place = opened(dir_.path()),
                                                   .word = "job",
                                                   .session = "1",
                                                   .rank = rank,
                                                   .world_size = 2});
    ASSERT_TRUE(made.ok());
    own.coordinator = *std::move(made);
    copiers.push_back(own.copier);
    savers.push_back(make_saver(std::move(own)));
  }
  const std::vector<float> values = iota(kMiB, 1);
  const auto save_on_all = [&](std::uint64_t step, nanoseconds deadline) {
    std::vector<Status> ends(2);
    {
      std::vector<std::jthread> ranks;
      for (std::uint32_t rank = 0; rank < 2; ++rank)
        ranks.emplace_back([&, rank] {
          SaveRequest request{.step = step,
                              .tensors = {on_device("w", values, static_cast<int>(rank))}};
          if (rank == 0) request.devices.streams = {{.device = 0, .handle = current_}};
          request.deadline = deadline;
          Result<PendingSave> pending = savers[rank]->save(std::move(request));
          ends[rank] = pending.ok() ? pending->wait() : pending.status();
        });
    }
    return ends;
  };
  fake_.hold(0, current_);
  for (const Status& end : save_on_all(1, std::chrono::milliseconds(500)))
    EXPECT_EQ(end.code(), Code::unavailable) << end.message();
  {
    std::vector<std::jthread> closing;
    for (auto& saver : savers) closing.emplace_back([&saver] { saver.reset(); });
  }
  EXPECT_FALSE(std::filesystem::exists(step_path(1)));
  fake_.release();
  // The threads that still wait have the copiers, which call the driver when they are destroyed.
  const auto is_in_use = [](const auto& copier) { return copier.use_count() > 1; };
  while (std::ranges::any_of(copiers, is_in_use)) std::this_thread::yield();
  copiers.clear();
  EXPECT_EQ(fake_.registered_count(), 0U);
}

}  // namespace
}  // namespace stoker::testing
