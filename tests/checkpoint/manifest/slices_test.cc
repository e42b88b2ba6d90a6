#include "checkpoint/manifest/slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace stoker {
namespace {

using Numbers = std::vector<std::uint64_t>;

struct Boxes {
  std::vector<Numbers> offsets;
  std::vector<Numbers> shapes;

  void add(Numbers offset, Numbers shape) {
    offsets.push_back(std::move(offset));
    shapes.push_back(std::move(shape));
  }
  std::vector<Slice> slices() const {
    std::vector<Slice> made;
    for (std::size_t i = 0; i < offsets.size(); ++i) made.push_back({offsets[i], shapes[i]});
    return made;
  }
};

bool any_overlap(const Boxes& boxes) {
  const auto found = find_overlap(boxes.slices());
  EXPECT_TRUE(found.ok());
  return found.ok() && found->has_value();
}

TEST(SlicesTest, neighbours_do_not_overlap_and_one_element_more_does) {
  Boxes boxes;
  boxes.add({0, 0}, {2, 4});
  boxes.add({2, 0}, {2, 4});
  EXPECT_FALSE(any_overlap(boxes));
  boxes.shapes[0] = {3, 4};
  const auto found = find_overlap(boxes.slices());
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ(**found, std::pair(std::size_t{0}, std::size_t{1}));
}

TEST(SlicesTest, empty_slices_overlap_nothing) {
  Boxes boxes;
  boxes.add({0, 0}, {4, 4});
  boxes.add({1, 1}, {0, 2});
  boxes.add({1, 1}, {0, 2});
  EXPECT_FALSE(any_overlap(boxes));
  EXPECT_FALSE(any_overlap(Boxes()));
}

TEST(SlicesTest, the_first_gap_is_found_wherever_it_lies) {
  const auto gap_of = [](const Boxes& boxes, const Numbers& shape) {
    const std::optional<Gap> gap = find_gap(boxes.slices(), shape);
    return gap ? std::pair(gap->begin, gap->end) : std::pair(Numbers(), Numbers());
  };
  const auto none = std::pair(Numbers(), Numbers());
  Boxes rows;
  rows.add({0, 0}, {2, 4});
  EXPECT_EQ(gap_of(rows, {3, 4}), std::pair(Numbers({2, 0}), Numbers({3, 4})));
  rows.add({2, 1}, {1, 3});
  EXPECT_EQ(gap_of(rows, {3, 4}), std::pair(Numbers({2, 0}), Numbers({3, 1})));
  rows.add({2, 0}, {1, 1});
  EXPECT_EQ(gap_of(rows, {3, 4}), none);
  rows.add({3, 0}, {0, 4});
  EXPECT_EQ(gap_of(rows, {3, 4}), none) << "an empty slice";
  EXPECT_EQ(gap_of({}, {3, 4}), std::pair(Numbers({0, 0}), Numbers({3, 4})));
  EXPECT_EQ(gap_of({}, {3, 0}), none) << "a tensor without elements";
}

TEST(SlicesTest, two_scalars_overlap) {
  Boxes boxes;
  boxes.add({}, {});
  EXPECT_FALSE(any_overlap(boxes));
  boxes.add({}, {});
  EXPECT_TRUE(any_overlap(boxes));
}

TEST(SlicesTest, a_pinwheel_that_no_plane_parts_is_compared_pair_by_pair) {
  Boxes boxes;
  boxes.add({0, 0}, {1, 2});
  boxes.add({0, 2}, {2, 1});
  boxes.add({2, 1}, {1, 2});
  boxes.add({1, 0}, {2, 1});
  boxes.add({1, 1}, {1, 1});
  EXPECT_FALSE(any_overlap(boxes));
  boxes.shapes[4] = {1, 2};
  EXPECT_TRUE(any_overlap(boxes));
}

TEST(SlicesTest, the_answer_is_that_of_comparing_all_pairs) {
  std::mt19937 random(7);
  int overlapping = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    Boxes boxes;
    const std::size_t count = 1 + random() % 6;
    for (std::size_t i = 0; i < count; ++i) {
      boxes.add({random() % 6, random() % 6, random() % 6},
                {random() % 4, 1 + random() % 3, 1 + random() % 3});
    }
    bool expected = false;
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        bool shared = true;
        for (std::size_t d = 0; d < 3; ++d) {
          const std::uint64_t begin = std::max(boxes.offsets[a][d], boxes.offsets[b][d]);
          const std::uint64_t end = std::min(boxes.offsets[a][d] + boxes.shapes[a][d],
                                             boxes.offsets[b][d] + boxes.shapes[b][d]);
          shared = shared && begin < end;
        }
        expected = expected || shared;
      }
    }
    overlapping += expected ? 1 : 0;
    ASSERT_EQ(any_overlap(boxes), expected) << trial;
  }
  EXPECT_GT(overlapping, 500);
  EXPECT_LT(overlapping, 2500);
}

TEST(SlicesTest, a_grid_of_a_hundred_thousand_is_no_work) {
  Boxes boxes;
  for (std::uint64_t row = 0; row < 316; ++row) {
    for (std::uint64_t column = 0; column < 316; ++column) boxes.add({row, column}, {1, 1});
  }
  EXPECT_FALSE(any_overlap(boxes));
  boxes.shapes[50'000] = {1, 2};
  EXPECT_TRUE(any_overlap(boxes));
}

TEST(SlicesTest, a_layout_made_to_take_for_ever_is_given_up) {
  // Each plane cuts off a single slice, alternately the first row and the first column.
  Boxes boxes;
  const std::uint64_t size = 8'000;
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t row = (i + 1) / 2;
    const std::uint64_t column = i / 2;
    if (i % 2 == 0) {
      boxes.add({row, column}, {1, size - column});
    } else {
      boxes.add({row, column}, {size - row, 1});
    }
  }
  EXPECT_EQ(find_overlap(boxes.slices()).status().code(), Code::unsupported);
  boxes.offsets.resize(1000);
  EXPECT_FALSE(any_overlap(boxes));
}

}  // namespace
}  // namespace stoker
