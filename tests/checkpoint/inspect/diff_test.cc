#include "checkpoint/inspect/diff.h"

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/inspect/element_values.h"
#include "checkpoint/restore/tensor_boxes.h"
#include "checkpoint/step_builder.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

BuiltTensor floats(std::string name, const std::vector<float>& values) {
  return {.name = std::move(name),
          .type = TensorType::f32,
          .shape = {values.size()},
          .bytes = float_bytes(values)};
}

class DiffTest : public ::testing::Test {
 protected:
  CheckpointReader write(std::uint64_t step, std::vector<std::vector<BuiltTensor>> ranks) {
    write_built_step(posix_file_ops(), dir_.path(),
                     {.step = step, .generation = step, .ranks = std::move(ranks)});
    return *CheckpointReader::open(posix_file_ops(), dir_.file(step_name(step)), plain_reader());
  }
  const TempDir dir_;
};

TEST_F(DiffTest, tells_what_was_added_removed_and_changed) {
  const CheckpointReader before =
      write(1, {{floats("same", {1, 2, 3}), floats("moved", {1, 2, 3, 4}), floats("gone", {1}),
                 floats("shape", {1, 2}), floats("bad", {1, 2}),
                 random_tensor("ints", TensorType::i64, {2, 2}, 1)}});
  const CheckpointReader after =
      write(2, {{floats("same", {1, 2, 3}), floats("moved", {1, 5, 3, 0}), floats("new", {1}),
                 floats("shape", {1, 2, 3}), floats("bad", {NAN, 4}),
                 random_tensor("ints", TensorType::i64, {2, 2}, 2)}});
  // Pieces of two elements, so that sums run over several.
  std::uint64_t shown = 0;
  std::uint64_t total = 0;
  const Result<CheckpointDiff> diff = diff_checkpoints(
      before, after, {.piece_bytes = 8, .progress = [&](std::uint64_t done, std::uint64_t count) {
                        EXPECT_GE(done, shown);
                        shown = done;
                        total = count;
                      }});
  ASSERT_TRUE(diff.ok()) << diff.status().message();
  EXPECT_EQ(shown, total);
  EXPECT_EQ(total, 12U + 16 + 4 + 12 + 8 + 32) << "of all tensors of the second";
  EXPECT_EQ(diff->added, std::vector<std::string>{"new"});
  EXPECT_EQ(diff->removed, std::vector<std::string>{"gone"});
  EXPECT_EQ(diff->unchanged_count, 1U);
  ASSERT_EQ(diff->changed.size(), 4U);
  const TensorChange& bad = diff->changed[0];
  EXPECT_EQ(bad.nonfinite_count, 1U);
  EXPECT_EQ(bad.l2, 2);
  const TensorChange& ints = diff->changed[1];
  EXPECT_TRUE(ints.has_norms);
  EXPECT_EQ(ints.changed_count, 4U);
  const TensorChange& moved = diff->changed[2];
  EXPECT_EQ(moved.name, "moved");
  EXPECT_EQ(moved.element_count, 4U);
  EXPECT_EQ(moved.changed_count, 2U);
  EXPECT_EQ(moved.l2, 5);
  EXPECT_EQ(moved.max_abs, 4);
  EXPECT_TRUE(diff->changed[3].is_reshaped);
}

TEST_F(DiffTest, integers_and_booleans_have_norms) {
  const auto tensors = [](std::int16_t a, std::int16_t b, bool c) {
    const std::int16_t values[] = {a, b};
    BuiltTensor ints{.name = "ints", .type = TensorType::i16, .shape = {2}};
    ints.bytes.assign(std::as_bytes(std::span(values)).begin(),
                      std::as_bytes(std::span(values)).end());
    BuiltTensor flag{.name = "flag", .type = TensorType::boolean, .shape = {1}};
    flag.bytes = {std::byte{c}};
    return std::vector<std::vector<BuiltTensor>>{{ints, flag}};
  };
  const CheckpointReader before = write(1, tensors(-3, 100, false));
  const CheckpointReader after = write(2, tensors(0, 96, true));
  const Result<CheckpointDiff> diff = diff_checkpoints(before, after);
  ASSERT_TRUE(diff.ok()) << diff.status().message();
  ASSERT_EQ(diff->changed.size(), 2U);
  EXPECT_EQ(diff->changed[0].name, "flag");
  EXPECT_EQ(diff->changed[0].l2, 1);
  EXPECT_EQ(diff->changed[1].l2, 5);
  EXPECT_EQ(diff->changed[1].max_abs, 4);
}

TEST_F(DiffTest, another_slicing_is_no_change_and_equal_checksums_are_not_read) {
  const BuiltTensor whole = random_tensor("t", TensorType::f32, {4, 2}, 1);
  std::vector<std::vector<BuiltTensor>> ranks;
  for (std::uint64_t i = 0; i < 2; ++i) {
    BuiltTensor half{.name = "t",
                     .type = TensorType::f32,
                     .shape = {2, 2},
                     .global_shape = {4, 2},
                     .offsets = {2 * i, 0}};
    half.bytes.assign(whole.bytes.begin() + static_cast<std::ptrdiff_t>(16 * i),
                      whole.bytes.begin() + static_cast<std::ptrdiff_t>(16 * i + 16));
    ranks.push_back({half});
  }
  const CheckpointReader before = write(1, {{whole}});
  const CheckpointReader sliced = write(2, ranks);
  const CheckpointReader again = write(3, {{whole}});
  const Result<CheckpointDiff> diff = diff_checkpoints(before, sliced);
  EXPECT_EQ(diff->unchanged_count, 1U);
  EXPECT_EQ(diff->compared_bytes, 32U);
  EXPECT_EQ(diff_checkpoints(before, again)->compared_bytes, 0U);
  EXPECT_EQ(diff_checkpoints(before, again)->unchanged_count, 1U);
}

TEST(ElementValuesTest, known_bits_have_known_values) {
  const auto value = [](TensorType type, std::uint64_t bits) {
    double out = 0;
    element_values(type, std::as_bytes(std::span(&bits, 1)).first(element_value_bytes(type)),
                   std::span(&out, 1));
    return out;
  };
  EXPECT_EQ(value(TensorType::f16, 0x3C00), 1);
  EXPECT_EQ(value(TensorType::f16, 0xC100), -2.5);
  EXPECT_EQ(value(TensorType::f16, 0x0001), std::ldexp(1.0, -24));
  EXPECT_EQ(value(TensorType::f16, 0xFC00), -INFINITY);
  EXPECT_TRUE(std::isnan(value(TensorType::f16, 0x7E00)));
  EXPECT_EQ(value(TensorType::bf16, 0x3FC0), 1.5);
  EXPECT_EQ(value(TensorType::f8_e5m2, 0x3C), 1);
  EXPECT_EQ(value(TensorType::f8_e5m2, 0x7C), INFINITY);
  EXPECT_EQ(value(TensorType::f8_e4m3, 0x7E), 448);
  EXPECT_TRUE(std::isnan(value(TensorType::f8_e4m3, 0xFF)));
  EXPECT_EQ(value(TensorType::f8_e4m3fnuz, 0x7F), 240);
  EXPECT_EQ(value(TensorType::f8_e5m2fnuz, 0x7F), 57344);
  EXPECT_EQ(value(TensorType::f8_e8m0, 0x80), 2);
  EXPECT_EQ(value(TensorType::boolean, 1), 1);
  EXPECT_EQ(value(TensorType::u8, 0xFF), 255);
  EXPECT_EQ(value(TensorType::i8, 0xFF), -1);
  EXPECT_EQ(value(TensorType::i16, 0x8000), -32768);
  EXPECT_EQ(value(TensorType::u16, 0x8000), 32768);
  EXPECT_EQ(value(TensorType::i32, 0xFFFFFFFE), -2);
  EXPECT_EQ(value(TensorType::u32, 0xFFFFFFFE), 4294967294.0);
  EXPECT_EQ(value(TensorType::i64, ~std::uint64_t{0}), -1);
  EXPECT_EQ(value(TensorType::u64, std::uint64_t{1} << 63), std::ldexp(1.0, 63));
}

TEST(TensorBoxesTest, boxes_are_the_tensor_in_order) {
  const std::vector<std::uint64_t> shape = {3, 1, 5, 2};
  for (std::uint64_t size_max = 1; size_max <= 80; ++size_max) {
    std::uint64_t next = 0;
    const Status status = for_each_box(TensorType::i16, shape, size_max, [&](const TensorBox& box) {
      std::uint64_t first = 0;
      std::uint64_t count = 1;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        first = first * shape[d] + box.offsets[d];
        count *= box.shape[d];
      }
      EXPECT_EQ(first, next);
      EXPECT_EQ(box.size_bytes, 2 * count);
      EXPECT_LE(box.size_bytes, std::max<std::uint64_t>(size_max, 2));
      next += count;
      return Status();
    });
    EXPECT_TRUE(status.ok());
    EXPECT_EQ(next, 30U) << size_max;
  }
}

}  // namespace
}  // namespace stoker::testing
