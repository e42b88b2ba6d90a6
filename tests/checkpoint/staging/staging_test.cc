#include "checkpoint/staging/staging.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "checkpoint/save_support.h"
#include "checkpoint/staging/staging_memory.h"
#include "checkpoint/staging/tensor_copier.h"

namespace stoker {
namespace {

using testing::counted;
using testing::OwnedTensor;

constexpr std::size_t kChunk = kCheckpointChunkBytes;

struct Save {
  explicit Save(std::size_t count) : owned{counted("w", count, 1)} {
    tensors.push_back(owned[0].view());
    Result<CheckpointLayout> planned = plan_layout(0, tensors);
    EXPECT_TRUE(planned.ok());
    layout = *std::move(planned);
  }
  std::vector<OwnedTensor> owned;
  std::vector<SaveTensor> tensors;
  CheckpointLayout layout;
};

TEST(StagingTest, an_arena_holds_the_file_as_it_will_be) {
  const Save save(3'000'000);
  std::vector<std::byte> memory(staging_bytes(save.layout));
  Staging staging(save.layout, memory);
  EXPECT_FALSE(staging.is_ring());
  ASSERT_TRUE(make_host_copier(3)->copy(save.layout, save.tensors, staging).ok());
  const LayoutFile& file = save.layout.files[0];
  EXPECT_EQ(std::memcmp(memory.data(), file.header.data(), file.header.size()), 0);
  EXPECT_EQ(std::memcmp(memory.data() + file.header.size(), save.owned[0].values.data(),
                        save.owned[0].values.size() * sizeof(float)),
            0);
  std::set<std::size_t> taken;
  while (const auto chunk = staging.try_take()) taken.insert(chunk->index);
  EXPECT_EQ(taken.size(), 3U);
  EXPECT_FALSE(staging.take(Deadline::max()).has_value());  // all are taken: nothing to wait for
}

TEST(StagingTest, a_ring_of_two_passes_any_number_of_chunks) {
  const Save save(12'000'000);
  std::vector<std::byte> memory(2 * kChunk);
  Staging staging(save.layout, memory);
  EXPECT_TRUE(staging.is_ring());
  std::string file(save.layout.files[0].size_bytes, '\0');
  std::jthread writer([&] {
    while (const auto chunk = staging.take(Deadline::max())) {
      std::memcpy(file.data() + chunk->index * kChunk, chunk->memory.data(), chunk->size_bytes);
      staging.release(*chunk);
    }
  });
  ASSERT_TRUE(make_host_copier(4)->copy(save.layout, save.tensors, staging).ok());
  writer.join();
  EXPECT_EQ(staging.filled_bytes(), file.size());
  EXPECT_EQ(std::memcmp(file.data() + save.layout.files[0].header.size(),
                        save.owned[0].values.data(), save.owned[0].values.size() * sizeof(float)),
            0);
}

TEST(StagingTest, a_chunk_is_tried_for_without_a_wait) {
  const Save save(6'000'000);
  std::vector<std::byte> memory(2 * kChunk);
  Staging staging(save.layout, memory);
  const auto first = staging.try_next_to_fill();
  ASSERT_TRUE(first.has_value());
  ASSERT_TRUE(staging.try_next_to_fill().has_value());
  EXPECT_FALSE(staging.try_next_to_fill().has_value());  // both are in use
  staging.filled(*first);
  staging.release(*staging.try_take());
  EXPECT_EQ(staging.try_next_to_fill()->index, 2U);
  staging.fail(Status(Code::io_error, "lost"));
  EXPECT_FALSE(staging.try_next_to_fill().has_value());
}

TEST(StagingTest, a_writer_that_gives_up_ends_the_copy) {
  const Save save(12'000'000);
  std::vector<std::byte> memory(2 * kChunk);
  Staging staging(save.layout, memory);
  std::jthread writer([&] {
    static_cast<void>(staging.take(Deadline::max()));
    staging.fail(Status(Code::io_error, "first"));
    staging.fail(Status(Code::no_space, "second"));
  });
  EXPECT_EQ(make_host_copier(4)->copy(save.layout, save.tensors, staging).message(), "first");
  EXPECT_FALSE(staging.take(Deadline::max()).has_value());
}

TEST(StagingMemoryTest, arenas_are_used_again_and_the_budget_holds) {
  StagingMemory memory(3 * kChunk);
  EXPECT_EQ(memory.grant_bytes(kChunk), kChunk);
  EXPECT_EQ(memory.grant_bytes(100 * kChunk), 3 * kChunk);
  auto first = memory.take(2 * kChunk, Deadline::max());
  ASSERT_TRUE(first.ok());
  const std::byte* where = (*first)->bytes().data();
  EXPECT_TRUE(memory.is_short_of(2 * kChunk));
  EXPECT_EQ(memory.take(2 * kChunk, Clock::now()).status().code(), Code::unavailable);
  memory.give_back(*std::move(first));
  auto again = memory.take(kChunk, Deadline::max());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->bytes().data(), where);
  memory.give_back(*std::move(again));
  auto larger = memory.take(3 * kChunk, Deadline::max());
  ASSERT_TRUE(larger.ok());
  EXPECT_EQ((*larger)->bytes().size(), 3 * kChunk);
}

TEST(StagingMemoryTest, a_ring_has_two_chunks_however_small_the_budget) {
  EXPECT_EQ(StagingMemory(1).grant_bytes(100 * kChunk), 2 * kChunk);
  EXPECT_EQ(StagingMemory(std::nullopt).grant_bytes(100 * kChunk), 100 * kChunk);
}

}  // namespace
}  // namespace stoker
