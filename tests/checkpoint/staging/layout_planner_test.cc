#include "checkpoint/staging/layout_planner.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace stoker {
namespace {

const std::byte kData[64] = {};

std::vector<SaveTensor> some_tensors() {
  return {{.name = "a", .type = TensorType::f32, .shape = {2, 4}, .data = kData},
          {.name = "b",
           .type = TensorType::f32,
           .shape = {4},
           .global_shape = {8},
           .offsets = {4},
           .data = kData},
          {.name = "c", .type = TensorType::u8, .shape = {4}, .data = kData}};
}

/// Everything that a layout says.
void expect_equal(const CheckpointLayout& one, const CheckpointLayout& other) {
  EXPECT_EQ(one.rank, other.rank);
  ASSERT_EQ(one.files.size(), other.files.size());
  EXPECT_EQ(one.chunks.size(), other.chunks.size());
  for (std::size_t i = 0; i < one.files.size(); ++i) {
    EXPECT_EQ(one.files[i].name, other.files[i].name);
    EXPECT_EQ(one.files[i].header, other.files[i].header);
    EXPECT_EQ(one.files[i].size_bytes, other.files[i].size_bytes);
    EXPECT_EQ(one.files[i].group, other.files[i].group);
    ASSERT_EQ(one.files[i].tensors.size(), other.files[i].tensors.size());
    for (std::size_t at = 0; at < one.files[i].tensors.size(); ++at) {
      EXPECT_EQ(one.files[i].tensors[at].tensor, other.files[i].tensors[at].tensor);
      EXPECT_EQ(one.files[i].tensors[at].begin_bytes, other.files[i].tensors[at].begin_bytes);
      EXPECT_EQ(one.files[i].tensors[at].end_bytes, other.files[i].tensors[at].end_bytes);
    }
  }
}

TEST(LayoutPlannerTest, the_same_tensors_with_other_data_are_planned_once) {
  LayoutPlanner planner;
  std::vector<SaveTensor> tensors = some_tensors();
  for (int save = 0; save < 3; ++save) {
    for (SaveTensor& tensor : tensors) tensor.data = kData + save;
    tensors[0].device = save;
    const Result<CheckpointLayout> found = planner.plan(1, tensors);
    ASSERT_TRUE(found.ok());
    expect_equal(*found, *plan_layout(1, tensors));
  }
  EXPECT_EQ(planner.planned_count(), 1U);
}

TEST(LayoutPlannerTest, whatever_a_layout_depends_on_is_compared) {
  using Edit = std::function<void(std::vector<SaveTensor>&)>;
  const std::vector<Edit> edits = {
      [](auto& tensors) { tensors[0].name = "z"; },
      [](auto& tensors) { tensors[0].type = TensorType::i32; },
      [](auto& tensors) { tensors[0].shape = {4, 2}; },
      [](auto& tensors) { tensors[1].offsets = {3}; },
      [](auto& tensors) { tensors[1].global_shape = {9}; },
      [](auto& tensors) { tensors[0].strides_bytes = {4, 8}; },
      [](auto& tensors) { std::swap(tensors[0], tensors[2]); },
      [](auto& tensors) { tensors.pop_back(); },
  };
  for (const Edit& edit : edits) {
    LayoutPlanner planner;
    std::vector<SaveTensor> tensors = some_tensors();
    ASSERT_TRUE(planner.plan(0, tensors).ok());
    edit(tensors);
    const Result<CheckpointLayout> found = planner.plan(0, tensors);
    ASSERT_TRUE(found.ok()) << found.status().message();
    expect_equal(*found, *plan_layout(0, tensors));
    EXPECT_EQ(planner.planned_count(), 2U);
  }
  LayoutPlanner planner;
  const std::vector<SaveTensor> tensors = some_tensors();
  const std::vector<std::uint32_t> groups = {kNoGroup, 3, kNoGroup};
  ASSERT_TRUE(planner.plan(0, tensors).ok());
  expect_equal(*planner.plan(0, tensors, groups), *plan_layout(0, tensors, groups));
  expect_equal(*planner.plan(1, tensors, groups), *plan_layout(1, tensors, groups));
}

TEST(LayoutPlannerTest, what_was_refused_is_refused_again) {
  LayoutPlanner planner;
  std::vector<SaveTensor> tensors = some_tensors();
  ASSERT_TRUE(planner.plan(0, tensors).ok());
  tensors[1].name = "a";
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(planner.plan(0, tensors).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace stoker
