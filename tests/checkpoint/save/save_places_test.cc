#include "checkpoint/save/save_places.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest/names.h"

namespace stoker {
namespace {

using Ids = std::vector<std::string>;

CatalogStep step_of(const std::string& name, std::uint64_t step, std::uint64_t generation) {
  CheckpointManifest manifest;
  manifest.step = step;
  manifest.generation = generation;
  return {.name = name,
          .parsed = {.step = step, .superseded_generation = {}},
          .generation = generation,
          .summary = std::make_shared<const StepSummary>(summarize(manifest)),
          .problem = {}};
}

TEST(SavePlacesTest, a_checkpoint_with_two_names_is_dropped_only_if_both_go) {
  const std::string twice = superseded_name(50, 5, 1);
  const Catalog catalog{.steps = {step_of(step_name(60), 60, 6), step_of(twice, 50, 5),
                                  step_of(step_name(50), 50, 5)},
                        .latest = {}};
  const std::vector<std::string> one{twice};
  EXPECT_EQ(ids_of(catalog, one), Ids{});
  EXPECT_EQ(ids_to_keep(catalog, ids_of(catalog, one), {}), (Ids{"5-", "6-"}));
  const std::vector<std::string> both{twice, step_name(50)};
  EXPECT_EQ(ids_of(catalog, both), Ids{"5-"});
}

TEST(SavePlacesTest, a_pin_on_the_node_of_rank_0_keeps_what_a_third_node_lacks) {
  const Catalog catalog{.steps = {step_of(step_name(60), 60, 6), step_of(step_name(50), 50, 5)},
                        .latest = {}};
  const PlaceReport own{.has_rules = true, .steps = {"6-", "5-"}, .pinned = {"5-"}};
  const PlaceReport second{.has_rules = true, .steps = {"6-", "5-"}};
  const PlaceReport third{.has_rules = true, .steps = {"6-"}};
  EXPECT_EQ(ids_to_keep(catalog, {}, std::vector{second, third, own}), (Ids{"5-", "6-"}));
  EXPECT_EQ(ids_to_keep(catalog, {}, std::vector{second, third, third}), Ids{"6-"});
}

TEST(SavePlacesTest, each_place_needs_room_for_what_its_ranks_store) {
  const auto says = [](std::uint64_t free_bytes, std::uint64_t unreserved_bytes) {
    std::vector<BeginMessage> messages(3);
    messages[0] = {.place = "a", .host = "node0", .free_bytes = 100};
    messages[1] = {.place = "b", .host = "node1", .free_bytes = free_bytes};
    messages[2] = {.place = "b",
                   .host = "node1",
                   .free_bytes = free_bytes,
                   .unreserved_bytes = unreserved_bytes};
    const std::vector<std::uint64_t> new_bytes{100, 30, 40};
    return check_room("run", messages, group_places(messages, ""), new_bytes);
  };
  EXPECT_TRUE(says(70, 0).ok());
  EXPECT_TRUE(says(kUnknownBytes, 9).ok());
  const Status full = says(70, 1);
  EXPECT_EQ(full.code(), Code::no_space);
  EXPECT_TRUE(full.message().starts_with(
      "run on node1: a checkpoint of 70 bytes needs more space than is free: 70 bytes, of which "
      "earlier saves will take 1."))
      << full.message();
}

}  // namespace
}  // namespace stoker
