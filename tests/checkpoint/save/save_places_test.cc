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

}  // namespace
}  // namespace stoker
