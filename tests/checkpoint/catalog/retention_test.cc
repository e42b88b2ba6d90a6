#include "checkpoint/catalog/retention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <utility>

#include "checkpoint/manifest/names.h"

namespace stoker::testing {
namespace {

using Names = std::vector<std::string>;

/// A step that exists in the mind alone. `nonfinite` counts in its only tensor.
CatalogStep step_of(std::uint64_t step, std::uint64_t generation, std::uint64_t nonfinite = 0) {
  CheckpointManifest manifest;
  manifest.step = step;
  manifest.generation = generation;
  manifest.tensors.resize(1);
  manifest.tensors[0].nonfinite_count = nonfinite;
  return {.name = step_name(step),
          .parsed = {.step = step, .superseded_generation = {}},
          .generation = generation,
          .summary = std::make_shared<const StepSummary>(summarize(manifest)),
          .problem = {}};
}

Catalog catalog_of(std::vector<CatalogStep> steps) {
  std::ranges::sort(steps, std::greater<>(), &CatalogStep::generation);
  Catalog catalog{.steps = std::move(steps), .latest = {}};
  mark_nonfinite(catalog);
  return catalog;
}

Catalog ten_steps() {
  std::vector<CatalogStep> steps;
  for (std::uint64_t i = 1; i <= 10; ++i) steps.push_back(step_of(i * 100, i));
  return catalog_of(std::move(steps));
}

TEST(RetentionTest, without_rules_everything_stays) {
  EXPECT_TRUE(choose_removals(ten_steps(), {}, {}).empty());
  EXPECT_TRUE(choose_removals(ten_steps(), {}, {.keep_every = 0}).empty());
}

TEST(RetentionTest, rules_add_up) {
  AllNotes notes;
  notes.by_step[200][2].values["val_loss"] = 0.5;
  notes.by_step[300][3].values["val_loss"] = 0.4;
  notes.by_step[400][4].values["val_loss"] = NAN;
  notes.by_step[600][5].values["val_loss"] = 0.1;  // of a generation that is gone
  notes.by_step[100][1].is_pinned = true;
  const Names removed = choose_removals(ten_steps(), notes,
                                        {.keep_last = 2,
                                         .keep_every = 500,
                                         .keep_best = KeepBest{.metric = "val_loss"},
                                         .replicating = {step_name(700)}});
  EXPECT_EQ(removed, (Names{step_name(200), step_name(400), step_name(600), step_name(800)}));
  const Names by_max =
      choose_removals(ten_steps(), notes,
                      {.keep_last = 1, .keep_best = KeepBest{"val_loss", KeepBest::Order::max, 1}});
  EXPECT_TRUE(std::ranges::count(by_max, step_name(300)));
  EXPECT_FALSE(std::ranges::count(by_max, step_name(200)));
}

TEST(RetentionTest, values_of_another_line_do_not_count_and_pins_do) {
  AllNotes notes;
  notes.by_step[200][2] = {.values = {{"val_loss", 0.1}}, .line = std::string(32, 'a')};
  notes.by_step[300][3] = {.values = {{"val_loss", 0.2}}};  // of 0.1: it does not say
  notes.by_step[400][4] = {.is_pinned = true, .line = std::string(32, 'a')};
  const Names removed = choose_removals(
      ten_steps(), notes, {.keep_last = 6, .keep_best = KeepBest{.metric = "val_loss"}});
  EXPECT_EQ(removed, (Names{step_name(100), step_name(200)}));
  EXPECT_EQ(metrics_of(catalog_of({step_of(200, 2)}), notes), std::set<std::string>{});
}

/// Saves 10, 20 and 30, goes back to 10 and saves 20 again: the old one has another name.
Catalog rewound() {
  std::vector<CatalogStep> steps = {step_of(10, 1), step_of(20, 2), step_of(30, 3), step_of(20, 4)};
  steps[1].parsed.superseded_generation = 2;
  steps[1].name = superseded_name(20, 2);
  StepSummary summary = *steps[3].summary;
  summary.parent = CheckpointParent{.step = 10, .generation = 1};
  summary.lineage = {{"", 1, 1}};
  steps[3].summary = std::make_shared<const StepSummary>(std::move(summary));
  return catalog_of(std::move(steps));
}

TEST(RetentionTest, rules_apply_to_superseded_steps) {
  const std::string old = superseded_name(20, 2);
  EXPECT_TRUE(choose_removals(rewound(), {}, {.keep_last = 4}).empty());
  EXPECT_EQ(choose_removals(rewound(), {}, {.keep_last = 3}), Names{old});
  EXPECT_EQ(choose_removals(rewound(), {}, {.keep_every = 20}),
            (Names{step_name(10), step_name(30)}));
  AllNotes notes;
  notes.by_step[20][2].is_pinned = true;
  EXPECT_TRUE(choose_removals(rewound(), notes, {.keep_last = 3}).empty());
}

TEST(RetentionTest, a_superseded_step_may_be_the_best) {
  AllNotes notes;
  notes.by_step[10][1].values["loss"] = 0.9;
  notes.by_step[20][4].values["loss"] = 0.7;
  notes.by_step[30][3].values["loss"] = 0.8;
  const RetentionRules rules{.keep_best = KeepBest{.metric = "loss"}};
  EXPECT_EQ(choose_removals(rewound(), notes, rules), (Names{step_name(10), step_name(30)}))
      << "one without a value may get one later";
  notes.by_step[20][2].values["loss"] = 0.1;
  EXPECT_EQ(choose_removals(rewound(), notes, rules), (Names{step_name(10), step_name(30)}));
  notes.by_step[20][2].values["loss"] = 0.75;
  EXPECT_EQ(choose_removals(rewound(), notes, rules).size(), 3U);
}

TEST(RetentionTest, the_last_finite_step_stays_however_old_it_is) {
  // From the fifth on as many as before: all of them have gone wrong, and none recovers.
  std::vector<CatalogStep> steps = {step_of(1, 1, 2), step_of(2, 2, 2)};
  for (std::uint64_t i = 3; i <= 9; ++i)
    steps.push_back(step_of(i, i, std::min<std::uint64_t>(i, 5)));
  EXPECT_EQ(choose_removals(catalog_of(steps), {}, {.keep_last = 1}),
            (Names{step_name(1), step_name(3), step_name(4), step_name(5), step_name(6),
                   step_name(7), step_name(8)}));
}

TEST(RetentionTest, a_damaged_note_pins_and_a_damaged_step_stays_without_counting) {
  Catalog catalog = ten_steps();
  catalog.steps[0].summary = nullptr;
  catalog.steps[0].problem = Status(Code::corrupt, "spoilt");
  AllNotes notes;
  notes.damaged.push_back({100, "run/" + note_path(100), Status(Code::corrupt, "spoilt")});
  const Names removed = choose_removals(catalog, notes, {.keep_last = 1});
  EXPECT_EQ(removed.size(), 7U);
  for (const std::uint64_t kept : {100U, 900U, 1000U})
    EXPECT_FALSE(std::ranges::count(removed, step_name(kept))) << kept;
}

TEST(RetentionTest, the_best_is_found_by_reference_values_where_nobody_has_annotated) {
  std::vector<CatalogStep> steps;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    steps.push_back(step_of(i * 100, i));
    StepSummary summary = *steps.back().summary;
    summary.reference["loss"] = std::abs(static_cast<double>(i) - 2);
    steps.back().summary = std::make_shared<const StepSummary>(std::move(summary));
  }
  const Catalog catalog = catalog_of(std::move(steps));
  const RetentionRules rules{.keep_last = 1, .keep_best = KeepBest{.metric = "loss"}};
  EXPECT_EQ(choose_removals(catalog, {}, rules), (Names{step_name(100), step_name(300)}));
  AllNotes notes;
  notes.by_step[100][1].values["loss"] = -1;  // what was annotated counts
  EXPECT_EQ(choose_removals(catalog, notes, rules), (Names{step_name(200), step_name(300)}));
}

TEST(RetentionTest, the_best_rule_alone_removes_only_what_has_a_value) {
  EXPECT_TRUE(choose_removals(ten_steps(), {}, {.keep_best = KeepBest{.metric = "typo"}}).empty());
  AllNotes notes;
  notes.by_step[100][1].values["val_loss"] = 0.3;
  notes.by_step[200][2].values["val_loss"] = 0.2;
  notes.by_step[300][3].values["val_loss"] = NAN;
  const KeepBest best{.metric = "val_loss"};
  EXPECT_EQ(choose_removals(ten_steps(), notes, {.keep_best = best}), Names{step_name(100)})
      << "the others may get a value later";
  EXPECT_EQ(choose_removals(ten_steps(), notes, {.keep_every = 0, .keep_best = best}),
            Names{step_name(100)})
      << "0 is no rule";
  EXPECT_EQ(choose_removals(ten_steps(), notes, {.keep_last = 3, .keep_best = best}),
            (Names{step_name(100), step_name(300), step_name(400), step_name(500), step_name(600),
                   step_name(700)}))
      << "the other rule decides about them";
  EXPECT_EQ(choose_removals(ten_steps(), notes, {.keep_every = 500, .keep_best = best}).size(), 7U);
}

TEST(RetentionTest, the_values_that_checkpoints_have_can_be_listed) {
  std::vector<CatalogStep> steps = {step_of(100, 1), step_of(200, 2), step_of(300, 3)};
  StepSummary summary = *steps[0].summary;
  summary.reference["loss"] = 1;
  steps[0].summary = std::make_shared<const StepSummary>(std::move(summary));
  AllNotes notes;
  notes.by_step[200][2].values["val_loss"] = 0.2;
  notes.by_step[300][2].values["gone"] = 0.2;  // of a generation that is gone
  EXPECT_EQ(metrics_of(catalog_of(std::move(steps)), notes),
            (std::set<std::string>{"loss", "val_loss"}));
}

TEST(RetentionTest, what_was_found_damaged_stays_and_is_not_counted) {
  const Names removed = choose_removals(ten_steps(), {}, {.keep_last = 2, .damaged = {9, 4}});
  EXPECT_EQ(removed, (Names{step_name(100), step_name(200), step_name(300), step_name(500),
                            step_name(600), step_name(700)}))
      << "10 and 8 are the last two";
}

const std::string kOne(32, '1');
const std::string kTwo(32, '2');

/// Generations 4 and 5 are of another writer.
const std::string& line_of(std::uint64_t generation) {
  return generation == 4 || generation == 5 ? kTwo : kOne;
}

/// Of generations, each with the one it continues and all that that one continues.
Catalog family_of(const std::vector<std::pair<std::uint64_t, Lineage>>& generations) {
  std::vector<CatalogStep> steps;
  for (const auto& [generation, lineage] : generations) {
    steps.push_back(step_of(generation * 100, generation));
    StepSummary summary = *steps.back().summary;
    summary.lineage = lineage;
    summary.line = line_of(generation);
    if (!lineage.empty())
      summary.parent = {.step = lineage.back().last * 100,
                        .generation = lineage.back().last,
                        .line = lineage.back().line};
    steps.back().summary = std::make_shared<const StepSummary>(std::move(summary));
  }
  return catalog_of(std::move(steps));
}

TEST(RetentionTest, what_another_run_has_left_stays) {
  // 1, 2, 3; a run that began anew with 4, 5; and one that went back to 2 and continued with 6, 7.
  const Catalog catalog = family_of({{1, {}},
                                     {2, {{kOne, 1, 1}}},
                                     {3, {{kOne, 1, 2}}},
                                     {4, {}},
                                     {5, {{kTwo, 4, 4}}},
                                     {6, {{kOne, 1, 2}}},
                                     {7, {{kOne, 1, 2}, {kOne, 6, 6}}}});
  EXPECT_EQ(choose_removals(
                catalog, {},
                {.keep_last = 1, .family = {{kOne, 1, 2}, {kOne, 6, 7}}, .seen = {{kOne, 7}}}),
            (Names{step_name(100), step_name(200), step_name(300), step_name(600)}));
  EXPECT_EQ(choose_removals(catalog, {}, {.keep_last = 1, .family = {{kTwo, 4, 5}}}),
            (Names{step_name(400)}))
      << "5 is the newest of that run";
  EXPECT_TRUE(choose_removals(catalog, {}, {.keep_last = 1, .family = {{kTwo, 1, 3}}}).empty())
      << "the same generations of another line are other checkpoints";
  EXPECT_EQ(choose_removals(catalog, {}, {.keep_last = 1}).size(), 6U) << "a person who prunes";
}

TEST(RetentionTest, what_others_have_saved_since_the_restore_stays) {
  // 1, 2, 3 were there; 6 and 7 of the same writer, which continue 2 as well, were not.
  const Catalog catalog = family_of({{1, {}},
                                     {2, {{kOne, 1, 1}}},
                                     {3, {{kOne, 1, 2}}},
                                     {6, {{kOne, 1, 2}}},
                                     {7, {{kOne, 1, 2}}}});
  const auto removals = [&](std::map<std::string, std::uint64_t> seen) {
    return choose_removals(catalog, {},
                           {.keep_last = 0, .family = {{kOne, 1, 2}}, .seen = std::move(seen)});
  };
  // The newest of them stays, whatever the rules say.
  EXPECT_EQ(removals({{kOne, 3}}), (Names{step_name(100), step_name(200)}));
  EXPECT_EQ(removals({{kOne, 6}}), (Names{step_name(100), step_name(200), step_name(300)}));
  EXPECT_EQ(removals({{kTwo, 9}}), (Names{step_name(100)}));
}

TEST(RetentionTest, what_is_of_a_line_that_the_run_continues_is_its_own) {
  // What 3 and the run of line two have both continued is gone, and 3 does not tell it.
  const Catalog catalog = family_of({{1, {}}, {3, {{kOne, 2, 2}}}, {4, {{kOne, 1, 1}}}});
  const RetentionRules rules{
      .keep_last = 1, .family = {{kOne, 1, 1}, {kTwo, 4, 4}}, .seen = {{kOne, 3}}};
  EXPECT_EQ(choose_removals(catalog, {}, rules), (Names{step_name(100), step_name(300)}));
}

TEST(RetentionTest, rules_look_at_their_own_run_alone) {
  // 4 and 5 are of another run; the best, the last and the newest finite one are those of 1 to 3.
  Catalog catalog =
      family_of({{1, {}}, {2, {{kOne, 1, 1}}}, {3, {{kOne, 1, 2}}}, {4, {}}, {5, {{kTwo, 4, 4}}}});
  AllNotes notes;
  for (std::uint64_t i = 1; i <= 5; ++i)
    notes.by_step[i * 100][i].values["loss"] = i > 3 ? 0.0 : static_cast<double>(i);
  const RetentionRules best{.keep_best = KeepBest{"loss", KeepBest::Order::min, 1},
                            .family = {{kOne, 1, 3}}};
  EXPECT_EQ(choose_removals(catalog, notes, best), (Names{step_name(200)}));
  EXPECT_EQ(choose_removals(catalog, {}, {.keep_last = 2, .family = {{kOne, 1, 3}}}),
            (Names{step_name(100)}));
  for (CatalogStep& step : catalog.steps) step.has_new_nonfinite = step.generation == 3;
  EXPECT_EQ(choose_removals(catalog, {}, {.keep_last = 0, .family = {{kOne, 1, 3}}}),
            (Names{step_name(100), step_name(300)}))
      << "2 is the newest finite one of the run";
}

TEST(RetentionTest, what_the_newest_continues_counts_under_any_name) {
  Catalog catalog = family_of({{1, {}}, {2, {{kOne, 1, 1}}}, {3, {{kOne, 1, 2}}}});
  for (CatalogStep& step : catalog.steps)
    if (step.generation == 2) step.parsed.superseded_generation = 2;  // another run took the name
  EXPECT_EQ(choose_removals(catalog, {}, {.keep_last = 2, .family = {{kOne, 1, 3}}}),
            (Names{step_name(100)}));
}

TEST(RetentionTest, what_must_stay_stays_under_any_rules) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<CatalogStep> steps;
    AllNotes notes;
    const std::uint64_t count = 1 + random() % 8;
    for (std::uint64_t i = 1; i <= count; ++i) {
      steps.push_back(step_of(i * 10 + random() % 10, i, random() % 3));
      if (random() % 5 == 0) steps.back().summary = nullptr;
      if (random() % 4 == 0) notes.by_step[steps.back().parsed.step][i].is_pinned = true;
      if (random() % 2 == 0)
        notes.by_step[steps.back().parsed.step][i].values["x"] = static_cast<double>(random() % 5);
    }
    Catalog catalog = catalog_of(steps);
    if (random() % 2 == 0) catalog.latest = steps[random() % count].name;
    RetentionRules rules;
    if (random() % 2 == 0) rules.keep_last = random() % 4;
    if (random() % 2 == 0) rules.keep_every = random() % 7;
    if (random() % 2 == 0) rules.keep_best = KeepBest{"x", KeepBest::Order::max, random() % 3};
    const Names removed = choose_removals(catalog, notes, rules);
    const auto is_removed = [&](const CatalogStep& step) {
      return std::ranges::count(removed, step.name) > 0;
    };
    ASSERT_FALSE(catalog.newest() != nullptr && is_removed(*catalog.newest()));
    std::uint64_t valid_count = 0;
    for (const CatalogStep& step : catalog.steps) {
      const CheckpointNote* note = notes.find(step.parsed.step, step.generation);
      const bool is_valid = step.is_valid();
      const bool must_stay = (note != nullptr && note->is_pinned) || !is_valid ||
                             step.name == catalog.latest ||
                             valid_count < rules.keep_last.value_or(0);
      valid_count += is_valid;
      ASSERT_FALSE(must_stay && is_removed(step)) << "round " << round;
    }
    const auto finite = std::ranges::find_if(catalog.steps, [](const CatalogStep& step) {
      return step.is_valid() && !step.has_new_nonfinite;
    });
    ASSERT_FALSE(finite != catalog.steps.end() && is_removed(*finite));
    // Doing it twice removes nothing more: what stays does not depend on what went.
    std::erase_if(catalog.steps, is_removed);
    mark_nonfinite(catalog);
    ASSERT_TRUE(choose_removals(catalog, notes, rules).empty()) << "round " << round;
  }
}

}  // namespace
}  // namespace stoker::testing
