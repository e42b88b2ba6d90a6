#include "checkpoint/staging/layout.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "checkpoint/manifest/names.h"
#include "checkpoint/staging/nonfinite.h"
#include "checkpoint/staging/tensor_copy.h"

namespace stoker {
namespace {

const std::byte kSome{};

SaveTensor tensor(std::string name, TensorType type, std::vector<std::uint64_t> shape) {
  return {.name = std::move(name), .type = type, .shape = std::move(shape), .data = &kSome};
}

TEST(LayoutTest, tensors_lie_by_size_of_element_then_by_name_after_an_aligned_header) {
  const std::vector<SaveTensor> tensors{
      tensor("b", TensorType::f32, {3}), tensor("z", TensorType::f64, {2}),
      tensor("a", TensorType::i32, {5}), tensor("c", TensorType::u8, {7})};
  const Result<CheckpointLayout> layout = plan_layout(3, tensors);
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  ASSERT_EQ(layout->files.size(), 1U);
  const LayoutFile& file = layout->files[0];
  EXPECT_EQ(file.name, rank_file_name(3));
  EXPECT_EQ(file.header.size() % 4096, 0U);
  std::vector<std::string> names;
  std::uint64_t at = file.header.size();
  for (const PlacedTensor& placed : file.tensors) {
    names.push_back(tensors[placed.tensor].name);
    EXPECT_EQ(placed.begin_bytes, at);
    at = placed.end_bytes;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"z", "a", "b", "c"}));
  EXPECT_EQ(file.size_bytes, at);
  EXPECT_EQ(layout->chunks.size(), 1U);
}

TEST(LayoutTest, groups_have_files_of_their_own_and_chunks_count_from_each_files_start) {
  const std::vector<SaveTensor> tensors{tensor("w", TensorType::u8, {9 << 20}),
                                        tensor("frozen", TensorType::u8, {5 << 20})};
  const std::array<std::uint32_t, 2> groups{kNoGroup, 7};
  const Result<CheckpointLayout> layout = plan_layout(0, tensors, groups);
  ASSERT_TRUE(layout.ok());
  ASSERT_EQ(layout->files.size(), 2U);
  EXPECT_EQ(layout->files[1].name, group_file_name(0, 7));
  EXPECT_EQ(layout->files[0].chunk_count(), 3U);
  EXPECT_EQ(layout->files[1].chunk_count(), 2U);
  EXPECT_EQ(layout->files[1].chunk_bytes(1), layout->files[1].size_bytes - kCheckpointChunkBytes);
  ASSERT_EQ(layout->chunks.size(), 5U);
  EXPECT_EQ(layout->chunks[4].offset_bytes(), kCheckpointChunkBytes);
  const CheckpointPart part = describe(*layout, tensors);
  EXPECT_EQ(part.tensors[1].name, "frozen");
  EXPECT_EQ(part.tensors[1].file, 1U);
}

TEST(LayoutTest, a_rank_without_tensors_still_has_its_file) {
  const Result<CheckpointLayout> layout = plan_layout(0, {});
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->files.at(0).chunk_count(), 1U);
}

TEST(LayoutTest, what_cannot_be_laid_out_is_refused_by_name) {
  const auto refusal = [](SaveTensor wrong) {
    const Result<CheckpointLayout> layout = plan_layout(0, std::vector{std::move(wrong)});
    EXPECT_EQ(layout.status().code(), Code::invalid_argument);
    EXPECT_NE(layout.status().message().find("bad"), std::string_view::npos);
  };
  SaveTensor slice = tensor("bad", TensorType::f32, {4});
  slice.global_shape = {5};
  slice.offsets = {2};
  refusal(slice);
  slice.offsets = {1, 0};
  refusal(slice);
  SaveTensor strided = tensor("bad", TensorType::f32, {4, 4});
  strided.strides_bytes = {4};
  refusal(strided);
  const std::vector<SaveTensor> twice{tensor("bad", TensorType::f32, {1}),
                                      tensor("bad", TensorType::u8, {1})};
  EXPECT_EQ(plan_layout(0, twice).status().code(), Code::invalid_argument);
}

TEST(TensorCopyTest, strided_tensors_come_out_without_gaps_from_any_position) {
  std::array<std::uint16_t, 60> memory{};
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::uint16_t>(i * 7);
  const auto* base = reinterpret_cast<const std::byte*>(memory.data());
  struct Case {
    std::vector<std::uint64_t> shape;
    std::vector<std::int64_t> strides;  // in elements
    std::int64_t first;
  };
  const std::vector<Case> cases{
      {{3, 4, 5}, {20, 5, 1}, 0},      // no gaps
      {{4, 5, 3}, {5, 1, 20}, 0},      // transposed
      {{3, 2, 5}, {20, 10, 1}, 0},     // every second row
      {{3, 4, 2}, {20, 5, 2}, 1},      // every second element
      {{3, 4, 5}, {-20, -5, -1}, 59},  // backwards
      {{3, 1, 5}, {20, 999, 1}, 5},    // a dimension of one, whose stride means nothing
      {{2, 6}, {0, 1}, 3},             // broadcast
  };
  for (const Case& one : cases) {
    SaveTensor source = tensor("t", TensorType::f16, one.shape);
    source.data = base + one.first * 2;
    for (const std::int64_t stride : one.strides) source.strides_bytes.push_back(stride * 2);
    std::vector<std::uint16_t> expected;
    std::vector<std::uint64_t> index(one.shape.size());
    for (;;) {
      std::int64_t at = one.first;
      for (std::size_t i = 0; i < index.size(); ++i)
        at += static_cast<std::int64_t>(index[i]) * one.strides[i];
      expected.push_back(memory[static_cast<std::size_t>(at)]);
      std::size_t i = index.size();
      while (i > 0 && ++index[i - 1] == one.shape[i - 1]) index[--i] = 0;
      if (i == 0) break;
    }
    for (std::size_t begin = 0; begin <= expected.size(); ++begin) {
      for (std::size_t end = begin; end <= expected.size(); ++end) {
        std::vector<std::uint16_t> out(end - begin);
        copy_tensor_bytes(source, begin * 2, std::as_writable_bytes(std::span(out)));
        ASSERT_TRUE(std::equal(out.begin(), out.end(), expected.begin() + std::ptrdiff_t(begin)))
            << begin << ".." << end;
      }
    }
  }
}

TEST(NonfiniteTest, every_kind_of_float_counts_its_own_infinities_and_nans) {
  const auto count = [](TensorType type, const auto& values) {
    return count_nonfinite(type, std::as_bytes(std::span(values)));
  };
  std::vector<float> floats(1000, 1.5F);
  EXPECT_EQ(count(TensorType::f32, floats), 0U);
  floats[0] = floats[127] = floats[128] = std::numeric_limits<float>::infinity();
  floats[999] = std::numeric_limits<float>::quiet_NaN();
  floats[500] = std::numeric_limits<float>::max();
  EXPECT_EQ(count(TensorType::f32, floats), 4U);
  EXPECT_EQ(count(TensorType::c64, floats), 4U);
  const std::vector<double> doubles{1, -std::numeric_limits<double>::infinity(),
                                    std::numeric_limits<double>::denorm_min()};
  EXPECT_EQ(count(TensorType::f64, doubles), 1U);
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  EXPECT_EQ(count(TensorType::f16, halves), 2U * 1024);
  EXPECT_EQ(count(TensorType::bf16, halves), 2U * 128);
  std::vector<std::uint8_t> bytes(256);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  EXPECT_EQ(count(TensorType::f8_e5m2, bytes), 8U);
  EXPECT_EQ(count(TensorType::f8_e4m3, bytes), 2U);
  EXPECT_EQ(count(TensorType::f8_e8m0, bytes), 1U);
  EXPECT_EQ(count(TensorType::f8_e4m3fnuz, bytes), 1U);
  EXPECT_EQ(count(TensorType::f8_e5m2fnuz, bytes), 1U);
  EXPECT_EQ(count(TensorType::u8, bytes), 0U);
  const std::vector<std::uint16_t> all_bad(10'000, 0x7F80);  // a sum that would overflow a byte
  EXPECT_EQ(count(TensorType::bf16, all_bad), 10'000U);
}

}  // namespace
}  // namespace stoker
