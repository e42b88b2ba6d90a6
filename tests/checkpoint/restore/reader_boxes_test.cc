/// \file
/// Which bytes of which slice go where: boxes of tensors, in memory of any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>

#include "checkpoint/restore/reader.h"
#include "checkpoint/step_builder.h"
#include "support/model_disk.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

using Shape = std::vector<std::uint64_t>;

/// A tensor, and the grid of slices in which it is saved.
class SlicedTensor {
 public:
  explicit SlicedTensor(std::mt19937& random) {
    const std::size_t dimensions = 1 + random() % 4;
    for (std::size_t d = 0; d < dimensions; ++d) {
      shape.push_back(1 + random() % 7);
      cuts.push_back({0, shape[d]});
      while (random() % 2 == 0) cuts[d].push_back(random() % (shape[d] + 1));
      std::ranges::sort(cuts[d]);
      cuts[d].erase(std::unique(cuts[d].begin(), cuts[d].end()), cuts[d].end());
    }
    whole = random_bytes(2 * count(), random());
  }

  std::size_t count() const {
    std::size_t product = 1;
    for (const std::uint64_t size : shape) product *= size;
    return product;
  }
  const std::byte* at(const Shape& index) const {
    std::size_t flat = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + index[d];
    return whole.data() + 2 * flat;
  }
  /// Every slice of the grid.
  std::vector<BuiltTensor> slices() const;

  Shape shape;
  std::vector<Shape> cuts;
  std::vector<std::byte> whole;
};

/// Calls `visit` with each index of a box, last dimension fastest.
template <typename Visit>
void for_each_index(const Shape& shape, Visit visit) {
  Shape index(shape.size());
  if (std::ranges::count(shape, 0) > 0) return;
  for (;;) {
    visit(index);
    std::size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

std::vector<BuiltTensor> SlicedTensor::slices() const {
  std::vector<BuiltTensor> all;
  Shape grid;
  for (const Shape& cut : cuts) grid.push_back(cut.size() - 1);
  for_each_index(grid, [&](const Shape& cell) {
    BuiltTensor slice{.name = "t", .type = TensorType::i16, .shape = {}, .global_shape = shape};
    for (std::size_t d = 0; d < cell.size(); ++d) {
      slice.offsets.push_back(cuts[d][cell[d]]);
      slice.shape.push_back(cuts[d][cell[d] + 1] - cuts[d][cell[d]]);
    }
    for_each_index(slice.shape, [&](Shape index) {
      for (std::size_t d = 0; d < index.size(); ++d) index[d] += slice.offsets[d];
      slice.bytes.insert(slice.bytes.end(), at(index), at(index) + 2);
    });
    all.push_back(std::move(slice));
  });
  return all;
}

/// Memory of a box in any order of dimensions, each forwards or backwards, with gaps.
struct StridedMemory {
  StridedMemory(const Shape& shape, std::mt19937& random) : strides(shape.size()) {
    std::vector<std::size_t> order(shape.size());
    for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
    std::ranges::shuffle(order, random);
    std::int64_t step = 2;
    std::int64_t first = 0;
    for (const std::size_t d : order) {
      step += 2 * static_cast<std::int64_t>(random() % 2);
      strides[d] = random() % 3 == 0 ? -step : step;
      if (strides[d] < 0) first += step * static_cast<std::int64_t>(shape[d] - 1);
      step *= static_cast<std::int64_t>(shape[d]);
    }
    bytes.assign(static_cast<std::size_t>(step) + 2, std::byte{0xEE});
    data = bytes.data() + first;
  }
  std::size_t first_bytes() const { return static_cast<std::size_t>(data - bytes.data()); }
  std::byte* at(const Shape& index) const {
    std::byte* place = data;
    for (std::size_t d = 0; d < index.size(); ++d)
      place += static_cast<std::int64_t>(index[d]) * strides[d];
    return place;
  }

  std::vector<std::int64_t> strides;
  std::vector<std::byte> bytes;
  std::byte* data = nullptr;
};

TEST(ReaderBoxesTest, any_box_of_any_slicing_is_what_a_plain_copy_gives) {
  std::mt19937 random(20261115);
  for (int round = 0; round < 60; ++round) {
    ModelDisk disk;
    const SlicedTensor tensor(random);
    std::vector<std::vector<BuiltTensor>> ranks;
    for (BuiltTensor& slice : tensor.slices()) ranks.push_back({std::move(slice)});
    write_built_step(disk, "", {.step = 1, .ranks = ranks});
    CheckpointReader::Options options = plain_reader();
    options.engine = [&] { return disk.make_engine(); };
    const CheckpointReader reader = open_step(disk, "/" + step_name(1), options);
    EXPECT_EQ(read_whole(reader, "t"), tensor.whole);
    for (int box = 0; box < 20; ++box) {
      Shape offsets;
      Shape shape;
      for (const std::uint64_t size : tensor.shape) {
        offsets.push_back(random() % size);
        shape.push_back(1 + random() % (size - offsets.back()));
      }
      StridedMemory memory(shape, random);
      const StridedMemory before = memory;
      std::size_t wrong_count = 0;
      must(reader.read({.name = "t",
                        .offsets = offsets,
                        .shape = shape,
                        .memory = memory.bytes,
                        .first_bytes = memory.first_bytes(),
                        .strides_bytes = memory.strides}));
      for_each_index(shape, [&](const Shape& index) {
        Shape global = index;
        for (std::size_t d = 0; d < index.size(); ++d) global[d] += offsets[d];
        wrong_count += std::memcmp(memory.at(index), tensor.at(global), 2) != 0;
        std::memset(memory.at(index), 0xEE, 2);
      });
      ASSERT_EQ(wrong_count, 0U) << "round " << round << ", box " << box;
      ASSERT_EQ(memory.bytes, before.bytes) << "bytes beside the box were written";
    }
  }
}

TEST(ReaderBoxesTest, elements_below_a_byte_are_read_where_bytes_begin) {
  const TempDir dir;
  BuiltTensor top = random_tensor("t", TensorType::f4, {2, 6}, 1);
  BuiltTensor bottom = random_tensor("t", TensorType::f4, {1, 6}, 2);
  top.global_shape = bottom.global_shape = {3, 6};
  top.offsets = {0, 0};
  bottom.offsets = {2, 0};
  write_built_step(posix_file_ops(), dir.path(), {.step = 1, .ranks = {{top}, {bottom}}});
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(1)));
  std::vector<std::byte> expected = top.bytes;
  expected.insert(expected.end(), bottom.bytes.begin(), bottom.bytes.end());
  EXPECT_EQ(read_whole(reader, "t"), expected);
  std::vector<std::byte> column(3);
  must(reader.read({.name = "t", .offsets = {0, 2}, .shape = {3, 2}, .memory = column}));
  EXPECT_EQ(column, (std::vector{expected[1], expected[4], expected[7]}));
  EXPECT_EQ(reader.read({.name = "t", .offsets = {0, 1}, .shape = {3, 2}, .memory = column}).code(),
            Code::unsupported);
}

TEST(ReaderBoxesTest, elements_that_no_rank_has_saved_are_refused) {
  const TempDir dir;
  BuiltTensor half = random_tensor("t", TensorType::i16, {2, 3}, 1);
  half.global_shape = {4, 3};
  half.offsets = {2, 0};
  write_built_step(posix_file_ops(), dir.path(), {.step = 1, .ranks = {{half}}});
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(1)));
  std::vector<std::byte> memory(24);
  EXPECT_EQ(reader.read({.name = "t", .memory = memory}).code(), Code::corrupt);
  must(reader.read({.name = "t", .offsets = {2, 0}, .shape = {2, 3}, .memory = memory}));
  EXPECT_EQ(reader.read({.name = "t", .offsets = {3, 0}, .shape = {2, 3}, .memory = memory}).code(),
            Code::invalid_argument);
  EXPECT_EQ(reader.read({.name = "u", .memory = memory}).code(), Code::not_found);
}

TEST(ReaderBoxesTest, a_target_that_reaches_beyond_its_memory_is_refused) {
  const TempDir dir;
  write_built_step(posix_file_ops(), dir.path(), small_step(3, 1));  // i32, 3 x 5
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(3)));
  std::vector<std::byte> memory(60);
  const std::span<std::byte> all(memory);
  constexpr auto kName = "model.weight";
  for (const ReadTarget& target : {
           ReadTarget{.name = kName, .memory = all.first(59)},
           ReadTarget{.name = kName, .memory = all, .first_bytes = 1},
           ReadTarget{.name = kName, .memory = all, .first_bytes = SIZE_MAX},
           ReadTarget{.name = kName},
           ReadTarget{.name = kName, .memory = all, .strides_bytes = {24, 4}},
           ReadTarget{.name = kName, .memory = all, .strides_bytes = {-20, 4}},
           ReadTarget{.name = kName, .memory = all, .strides_bytes = {INT64_MAX, INT64_MAX}},
           ReadTarget{.name = kName, .memory = all, .strides_bytes = {INT64_MIN, INT64_MIN}},
       })
    EXPECT_EQ(reader.read(target).code(), Code::invalid_argument);
  EXPECT_EQ(memory, std::vector<std::byte>(60)) << "nothing was written";
  must(reader.read({.name = kName, .memory = all, .first_bytes = 40, .strides_bytes = {-20, 4}}));
}

}  // namespace
}  // namespace stoker::testing
