#include "checkpoint/manifest/names.h"

#include <gtest/gtest.h>

#include <limits>

#include "checkpoint/manifest/manifest.h"

namespace stoker {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(CheckpointNamesTest, a_step_and_its_name_lead_to_each_other) {
  EXPECT_EQ(step_name(1000), "step-000000001000");
  EXPECT_EQ(step_name(kMax), "step-18446744073709551615");
  EXPECT_EQ(superseded_name(7, 31), "step-000000000007.superseded-31");
  for (const std::uint64_t step :
       {std::uint64_t{0}, std::uint64_t{999'999'999'999}, std::uint64_t{1'000'000'000'000}, kMax}) {
    EXPECT_EQ(parse_step_name(step_name(step)),
              (StepName{.step = step, .superseded_generation = std::nullopt}));
    EXPECT_EQ(parse_step_name(superseded_name(step, kGenerationMax)),
              (StepName{.step = step, .superseded_generation = kGenerationMax}));
    EXPECT_EQ(parse_step_name(superseded_name(step, 0, 2)),
              (StepName{.step = step, .superseded_generation = 0, .superseded_number = 2}));
  }
  EXPECT_EQ(superseded_name(7, 0, 2), "step-000000000007.superseded-0-2");
}

TEST(CheckpointNamesTest, every_other_name_is_none_of_a_step) {
  for (const char* const name : {"",
                                 "step-",
                                 "step-1",
                                 "step-00000000001",
                                 "step-0000000001000",
                                 "step-+00000000001",
                                 "step--00000000001",
                                 "step-00000000000a",
                                 "step-000000001000/",
                                 " step-000000001000",
                                 "step-000000001000 ",
                                 "step-99999999999999999999",
                                 "Step-000000001000",
                                 "step-000000001000.superseded-",
                                 "step-000000001000.superseded-01",
                                 "step-000000001000.superseded-1x",
                                 "step-1.superseded-1",
                                 "step-000000001000.superseded-0-",
                                 "step-000000001000.superseded-0-1",
                                 "step-000000001000.superseded-0-02",
                                 "step-000000001000.superseded--2",
                                 "step-000000001000.superseded-0-2-2",
                                 "step-000000001000.superseded-1.superseded-1",
                                 "step-000000001000.superseded-18446744073709551615",
                                 "owner-x",
                                 ".trash-000000001000-x",
                                 "latest",
                                 "notes"}) {
    EXPECT_FALSE(parse_step_name(name).has_value()) << name;
  }
}

TEST(CheckpointNamesTest, what_a_writer_owns_is_told_from_checkpoints) {
  EXPECT_EQ(owner_name("a1b2"), "owner-a1b2");
  EXPECT_TRUE(is_owner_name(owner_name("a1b2")));
  EXPECT_FALSE(is_owner_name("owner-"));
  EXPECT_FALSE(is_owner_name(step_name(3)));
  EXPECT_TRUE(is_trash_name(".trash-000000000003-a1b2"));
  EXPECT_FALSE(is_trash_name("trash-1"));
  EXPECT_FALSE(parse_step_name(".trash-step-000000000003-x").has_value());
}

TEST(CheckpointNamesTest, a_checkpoint_that_is_put_aside_keeps_its_name_and_generation) {
  using Purpose = AsideName::Purpose;
  for (const StepName& step :
       {StepName{.step = 10, .superseded_generation = {}},
        StepName{.step = 10, .superseded_generation = 3},
        StepName{.step = 10, .superseded_generation = 3, .superseded_number = 2}}) {
    for (const Purpose purpose : {Purpose::retire, Purpose::keep}) {
      const AsideName aside{.purpose = purpose, .step = step, .generation = 7};
      EXPECT_EQ(parse_aside_name(aside_name(aside)), aside) << aside_name(aside);
      EXPECT_EQ(parse_aside_name(moved_name(aside_name(aside), "f00d")), aside);
    }
  }
  EXPECT_EQ(aside_name({.step = {.step = 10, .superseded_generation = {}}, .generation = 7}),
            "retire-000000000010-7");
  for (const char* name :
       {"retire-", "retire-10-7", "retire-000000000010", "remove-f00d", "keep-000000000010-",
        "retire-000000000010-x", "keep-000000000010-18446744073709551615"})
    EXPECT_FALSE(parse_aside_name(name).has_value()) << name;
}

TEST(CheckpointNamesTest, an_epoch_has_one_name_and_room_for_the_next) {
  EXPECT_EQ(epoch_name(7), ".lock-7");
  EXPECT_EQ(parse_epoch_name(".lock-7"), 7U);
  for (const char* name : {".lock", ".lock-", ".lock-07", ".lock-x", ".lock-claim-f00d",
                           ".lock-18446744073709551615", ".lock-9007199254740993"})
    EXPECT_FALSE(parse_epoch_name(name).has_value()) << name;
}

TEST(CheckpointNamesTest, files_of_ranks_sort_as_their_numbers_do) {
  EXPECT_EQ(rank_file_name(3), "rank-00003.safetensors");
  EXPECT_EQ(group_file_name(3, 0), "rank-00003-group-000.safetensors");
  EXPECT_EQ(part_name(3), "rank-00003.part.json");
  EXPECT_EQ(note_path(1000), "notes/step-000000001000.json");
  EXPECT_LT(rank_file_name(99), rank_file_name(100));
  EXPECT_TRUE(is_plain_file_name(rank_file_name(4'000'000'000)));
}

}  // namespace
}  // namespace stoker
