#include "checkpoint/inspect/export_choice.h"

#include <gtest/gtest.h>

#include "checkpoint/step_builder.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

class ExportChoiceTest : public ::testing::Test {
 protected:
  CheckpointReader build(const std::vector<std::vector<BuiltTensor>>& ranks, bool has_digests) {
    write_built_step(posix_file_ops(), dir_.path(),
                     {.step = ++step_, .ranks = ranks, .has_digests = has_digests});
    return *CheckpointReader::open(posix_file_ops(), dir_.file(step_name(step_)), plain_reader());
  }
  /// Four bytes from `seed`.
  static BuiltTensor tensor(std::string name, std::uint64_t seed) {
    return random_tensor(std::move(name), TensorType::f32, {1}, seed);
  }

  const TempDir dir_;
  std::uint64_t step_ = 0;
};

TEST_F(ExportChoiceTest, of_what_all_ranks_have_saved_alike_one_copy_is_taken) {
  for (const bool has_digests : {true, false}) {
    const CheckpointReader reader =
        build({{tensor("rank-00000.model.module.w", 1), tensor("rank-00000.rng.s", 2)},
               {tensor("rank-00001.model.module.w", 1), tensor("rank-00001.rng.s", 3)}},
              has_digests);
    const Result<ModelChoice> choice = choose_model(reader);
    ASSERT_TRUE(choice.ok()) << choice.status().message();
    EXPECT_EQ(choice->only, std::vector<std::string>{"rank-00000.model."});
    EXPECT_EQ(choice->strip, std::vector<std::string>{"rank-00000.model.module."});
    ASSERT_EQ(choice->left_out.size(), 1U) << "a copy is not left out";
    EXPECT_EQ(choice->left_out[0].name, "rng");
    EXPECT_EQ(choice->left_out[0].tensor_count, 2U);
  }
}

TEST_F(ExportChoiceTest, what_ranks_have_saved_differently_is_refused) {
  const auto refused = [&](const std::vector<std::vector<BuiltTensor>>& ranks) {
    const Result<ModelChoice> choice = choose_model(build(ranks, /*has_digests=*/true));
    EXPECT_EQ(choice.status().code(), Code::invalid_argument);
    EXPECT_NE(choice.status().message().find("model.w"), std::string::npos);
  };
  refused({{tensor("rank-00000.model.w", 1)}, {tensor("rank-00001.model.w", 2)}});
  refused({{tensor("rank-00000.model.w", 1)}, {tensor("rank-00001.model.v", 1)}});
  refused({{tensor("rank-00000.model.v", 1)},
           {tensor("rank-00001.model.v", 1), tensor("rank-00001.model.w", 1)}});
}

TEST_F(ExportChoiceTest, slices_belong_to_no_rank) {
  BuiltTensor left = tensor("model.w", 1);
  BuiltTensor right = tensor("model.w", 2);
  left.global_shape = right.global_shape = {2};
  left.offsets = {0};
  right.offsets = {1};
  const Result<ModelChoice> choice = choose_model(
      build({{left, tensor("rank-00000.model.b", 3)}, {right, tensor("rank-00001.model.b", 3)}},
            /*has_digests=*/true));
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  EXPECT_EQ(choice->only, (std::vector<std::string>{"model.", "rank-00000.model."}));
  EXPECT_TRUE(choice->left_out.empty());
}

}  // namespace
}  // namespace stoker::testing
