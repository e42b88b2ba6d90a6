#include "stoker/checkpoint.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "api/checkpoints.h"

namespace stoker {
namespace {

using testing::CheckpointTest;
using testing::counted;
using testing::has;
using testing::TempDir;
using namespace std::chrono_literals;

TEST_F(CheckpointTest, a_state_comes_back_in_place) {
  std::vector<double> weights = counted(6);
  std::vector<float> bias{1, 2, 3};
  Tree model = {{"weights", tensor(weights, {2, 3})}, {"bias", tensor(bias)}};
  const auto saver = open();
  save(*saver, 7, {{"model", model}, {"lr", 0.1}, {"losses", Tree::list({2.5, 1})}},
       {.reference = {{"loss", 1.5}}, .extra = {{"git", "abc"}}});
  weights.assign(6, -1);
  bias.assign(3, -1);
  Tree trees = {{"model", model}, {"lr", nullptr}, {"losses", Tree::list({})}};
  const Restored done = restore(*saver, trees);
  EXPECT_EQ(done.step, 7U);
  EXPECT_EQ(done.path, directory() + "/step-000000000007");
  EXPECT_EQ(done.generation, 1U);
  EXPECT_EQ(done.line.size(), 32U);
  EXPECT_EQ(done.reference.at("loss"), 1.5);
  EXPECT_EQ(*done.extra.find("git")->text(), "abc");
  EXPECT_FALSE(done.cursor);
  EXPECT_TRUE(done.left_out.empty());
  EXPECT_EQ(weights, counted(6));
  EXPECT_EQ(bias, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(trees.find("lr")->real(), 0.1);
  EXPECT_EQ(trees.find("losses")->items()[1].int64(), 1);
  EXPECT_EQ(trees.find("model")->find("bias")->tensor()->memory.data(),
            std::as_writable_bytes(std::span(bias)).data());
}

TEST_F(CheckpointTest, nothing_is_restored_from_an_empty_directory) {
  const auto saver = open();
  Tree trees = {{"model", nullptr}};
  const auto done = saver->restore(trees);
  ASSERT_TRUE(done.ok()) << done.status().message();
  EXPECT_FALSE(done->has_value());
  EXPECT_FALSE(std::filesystem::exists(directory()));
  ASSERT_TRUE(saver->steps().ok());
  EXPECT_TRUE(saver->steps()->empty());
  EXPECT_EQ(*saver->latest(), std::nullopt);
}

TEST_F(CheckpointTest, what_no_restore_could_read_is_not_saved) {
  const auto saver = open();
  const Tree trees = {{"n", 1}};
  Cursor junk;
  junk.order.shuffle = static_cast<Shuffle>(200);
  for (const Cursor& cursor : {Cursor{}, junk})
    EXPECT_EQ(saver->save(1, trees, {.cursor = cursor}).status().code(), Code::invalid_argument);
  for (const char* name : {"", "\xff"})
    EXPECT_EQ(saver->save(1, trees, {.reference = {{name, 1.0}}}).status().code(),
              Code::invalid_argument);
  EXPECT_TRUE(saver->steps()->empty());
  save(*saver, 1, trees);
}

TEST_F(CheckpointTest, a_null_is_created_with_memory_of_its_own) {
  std::vector<std::int64_t> steps{1, 2, 3};
  const auto saver = open();
  const TensorView view = tensor(steps);
  save(*saver, 1, {{"state", {{"a", view}, {"b", view}, {"n", 1}}}});
  Tree trees = {{"state", nullptr}};
  restore(*saver, trees);
  const TensorView& made = *trees.find("state")->find("a")->tensor();
  ASSERT_EQ(made.memory.size(), 24U);
  EXPECT_NE(made.memory.data(), view.memory.data());
  EXPECT_EQ(made.memory.data(), trees.find("state")->find("b")->tensor()->memory.data());
  EXPECT_EQ(reinterpret_cast<const std::int64_t*>(made.memory.data())[2], 3);
  steps = {0, 0, 0};
  Tree grown = {{"state", {{"a", view}}}};  // names of a map that are not there are added
  restore(*saver, grown);
  EXPECT_EQ(steps[2], 3);
  EXPECT_EQ(grown.find("state")->find("n")->int64(), 1);
}

TEST_F(CheckpointTest, what_does_not_fit_is_named_and_nothing_is_changed) {
  std::vector<float> values{1, 2, 3, 4};
  const auto saver = open();
  save(*saver, 3, {{"model", {{"w", tensor(values, {2, 2})}, {"name", "net"}}}});
  values.assign(4, -1);
  Status status = refused(*saver, {{"model", {{"w", tensor(values, {4})}}}});
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_TRUE(has(status, "model.w: F32 (4), but F32 (2, 2) in step 3")) << status.message();
  const std::vector<double> others(4);
  std::vector<double> wide(4);
  EXPECT_TRUE(has(refused(*saver, {{"model", {{"w", tensor(wide, {2, 2})}}}}), "F64 (2, 2)"));
  EXPECT_TRUE(has(refused(*saver, {{"model", {{"w", tensor(others, {2, 2})}}}}), "constant"));
  EXPECT_TRUE(has(refused(*saver, {{"model", {{"w", tensor(values, {3, 2})}}}}), "more memory"));
  EXPECT_TRUE(has(refused(*saver, {{"model", {{"name", tensor(values)}}}}), "but a text"));
  EXPECT_TRUE(has(refused(*saver, {{"model", Tree::list({1})}}), "a list, but a map"));
  EXPECT_TRUE(
      has(refused(*saver, {{"optimizer", nullptr}}), "has no tree optimizer; it has model"));
  status = refused(*saver, {{"model", {{"w", tensor(values, {2, 2})}, {"x", 1}, {"y", 1}}}});
  EXPECT_TRUE(has(status, "2 places do not fit")) << status.message();
  EXPECT_TRUE(has(status, "model.x: not in step 3"));
  EXPECT_EQ(values, (std::vector<float>{-1, -1, -1, -1}));

  Tree lenient = {{"model", {{"w", tensor(values, {2, 2})}, {"x", 1}}}, {"optimizer", 5}};
  const Restored done = restore(*saver, lenient, {.strict = false});
  EXPECT_EQ(done.missing, (std::vector<std::string>{"optimizer", "model.x"}));
  EXPECT_EQ(lenient.find("model")->find("x")->int64(), 1);
  EXPECT_EQ(lenient.find("optimizer")->int64(), 5);
  EXPECT_EQ(values[3], 4);
}

TEST_F(CheckpointTest, views_with_strides_are_saved_and_filled) {
  std::vector<std::int32_t> all(12);
  std::iota(all.begin(), all.end(), 0);
  TensorView column = tensor(all, {3});
  column.first_bytes = 11 * 4;  // from the last row to the first
  column.strides_bytes = {-16};
  const auto saver = open();
  save(*saver, 1, {{"column", column}});
  for (const bool verify_before : {false, true}) {
    all.assign(12, 0);
    Tree trees = {{"column", column}};
    restore(*saver, trees, {.verify_before = verify_before});
    EXPECT_EQ(all, (std::vector<std::int32_t>{0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 11}));
  }
  column.strides_bytes = {16};
  EXPECT_EQ(saver->save(2, {{"column", column}}).status().code(), Code::invalid_argument);
}

TEST_F(CheckpointTest, tied_tensors_are_stored_once) {
  const std::vector<double> shared(3, 2.0);
  const auto saver = open();
  save(*saver, 1, {{"in", tensor(shared)}, {"out", {{"w", tensor(shared)}}}});
  const Result<Checkpoint> opened = Checkpoint::open(directory());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->tensors().size(), 1U);
  ASSERT_NE(opened->find("out.w"), nullptr);
  EXPECT_EQ(opened->find("out.w")->name, "in");
  EXPECT_EQ(*opened->read_values<double>("out.w"), shared);
}

TEST_F(CheckpointTest, a_damaged_checkpoint_is_skipped_and_told) {
  std::vector<double> weights{1};
  std::vector<std::string> notices;
  const auto saver = open({.on_notice = [&](const std::string& text) { notices.push_back(text); }});
  save(*saver, 1, {{"w", tensor(weights)}});
  weights[0] = 2;
  save(*saver, 2, {{"w", tensor(weights)}});
  damage(2);
  Tree trees = {{"w", tensor(weights)}};
  const Restored done = restore(*saver, trees);
  EXPECT_EQ(done.step, 1U);
  EXPECT_EQ(weights[0], 1);
  ASSERT_EQ(done.skipped.size(), 1U);
  EXPECT_EQ(done.skipped[0].name, "step-000000000002");
  EXPECT_EQ(done.skipped[0].reason.code(), Code::corrupt);
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_NE(notices[0].find("passed over step-000000000002"), std::string::npos);
  damage(1);
  const Status status = refused(*saver, trees);
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_TRUE(has(status, "step-000000000001, which is damaged: do not use them"))
      << status.message();
}

TEST_F(CheckpointTest, verified_before_nothing_of_a_damaged_one_gets_into_memory) {
  std::vector<double> weights{1};
  const auto saver = open();
  save(*saver, 1, {{"w", tensor(weights)}});
  damage(1);
  weights[0] = 5;
  EXPECT_FALSE(
      has(refused(*saver, {{"w", tensor(weights)}}, {.verify_before = true}), "do not use"));
  EXPECT_EQ(weights[0], 5);
}

TEST_F(CheckpointTest, a_step_is_restored_by_its_number_or_name_and_then_continued) {
  std::vector<double> weights{1};
  const auto saver = open();
  for (const std::uint64_t step : {10U, 20U}) {
    weights[0] = static_cast<double>(step);
    save(*saver, step, {{"w", tensor(weights)}});
  }
  Tree trees = {{"w", tensor(weights)}};
  EXPECT_EQ(saver->save(10, trees).status().code(), Code::already_exists);
  restore(*saver, trees, {.step = 10});
  EXPECT_EQ(weights[0], 10);
  save(*saver, 20, trees);  // the run was rewound: the other step 20 is superseded
  const Result<std::vector<ListedCheckpoint>> listed = Checkpoint::list(directory());
  ASSERT_TRUE(listed.ok());
  ASSERT_EQ(listed->size(), 3U);
  EXPECT_EQ((*listed)[0].name, "step-000000000020");
  EXPECT_TRUE((*listed)[1].is_superseded);
  restore(*saver, trees, {.name = (*listed)[1].name});
  EXPECT_EQ(weights[0], 20);
  EXPECT_EQ(*saver->steps(), (std::vector<std::uint64_t>{10, 20}));
  EXPECT_EQ(*saver->latest(), 20U);
  const Status status = refused(*saver, trees, {.step = 5});
  EXPECT_EQ(status.code(), Code::not_found);
  EXPECT_TRUE(has(status, "existing steps: 20, 10")) << status.message();
  EXPECT_EQ(refused(*saver, trees, {.name = "nonsense"}).code(), Code::not_found);
  const Status both = refused(*saver, trees, {.step = 10, .name = (*listed)[1].name});
  EXPECT_EQ(both.code(), Code::invalid_argument);
  EXPECT_TRUE(has(both, "by step or by name")) << both.message();
}

TEST_F(CheckpointTest, a_shape_that_leaves_out_values_is_refused) {
  std::vector<double> values(100);
  const auto saver = open();
  const Status saved = saver->save(1, {{"w", tensor(values, {7, 7})}}).status();
  EXPECT_EQ(saved.code(), Code::invalid_argument);
  EXPECT_TRUE(has(saved, "w: F64 (7, 7) has 392 bytes, and the view 800")) << saved.message();
  save(*saver, 1, {{"w", tensor(std::span(values).first(49), {7, 7})}});
  const Status read = refused(*saver, {{"w", tensor(values, {7, 7})}}, {});
  EXPECT_EQ(read.code(), Code::invalid_argument) << read.message();
}

TEST_F(CheckpointTest, a_step_that_was_saved_is_refused_in_words_of_every_language) {
  const auto saver = open();
  save(*saver, 1, {{"n", 1}});
  const Status status = saver->save(1, {{"n", 1}}).status();
  EXPECT_EQ(status.code(), Code::already_exists);
  EXPECT_FALSE(has(status, "saver.")) << status.message();
  EXPECT_TRUE(has(status, "`due` is false")) << status.message();
}

TEST_F(CheckpointTest, the_rules_and_notes_decide_what_stays) {
  const auto saver =
      open({.keep_last = 2, .keep_every = 50, .keep_best = KeepBest{.metric = "val", .count = 1}});
  std::vector<double> weights(10);
  for (std::uint64_t step = 10; step <= 120; step += 10) {
    save(*saver, step, {{"w", tensor(weights)}});
    const double away = static_cast<double>(step) - 70;
    ASSERT_TRUE(saver->annotate(step, {{"val", away * away}}).ok());
  }
  ASSERT_TRUE(saver->pin(120).ok());
  save(*saver, 130, {{"w", tensor(weights)}});
  ASSERT_TRUE(saver->wait().ok());
  EXPECT_EQ(*saver->steps(), (std::vector<std::uint64_t>{50, 70, 100, 120, 130}));
  EXPECT_EQ(saver->annotate(60, {{"val", 1.0}}).code(), Code::not_found);
}

TEST_F(CheckpointTest, a_save_is_due_by_steps_or_time_and_not_twice) {
  const auto saver = open();
  EXPECT_FALSE(saver->due(0, {.every_steps = 5}));
  EXPECT_FALSE(saver->due(4, {.every_steps = 5}));
  EXPECT_TRUE(saver->due(5, {.every_steps = 5}));
  save(*saver, 5, {{"n", 1}});
  EXPECT_FALSE(saver->due(5, {.every_steps = 5}));
  EXPECT_FALSE(saver->due(6, {.every = 1h}));
  EXPECT_TRUE(saver->due(6, {.every = 0ns}));
  Tree trees = {{"n", nullptr}};
  restore(*saver, trees);
  EXPECT_FALSE(saver->due(5, {.every_steps = 1}));
}

TEST_F(CheckpointTest, options_that_cannot_work_are_refused) {
  const auto code = [&](CheckpointerOptions options) {
    return Checkpointer::open(std::move(options)).status().code();
  };
  EXPECT_EQ(code({}), Code::invalid_argument);
  EXPECT_EQ(code({.directory = directory(), .keep_last = 0}), Code::invalid_argument);
  EXPECT_EQ(code({.directory = directory(), .late = LatePolicy::replace}), Code::invalid_argument);
  EXPECT_EQ(code({.directory = directory(), .deadline = -1s}), Code::invalid_argument);
  EXPECT_EQ(code({.directory = directory(), .ranks = {.rank = 1}}), Code::invalid_argument);
  EXPECT_EQ(code({.directory = directory() + "/latest"}), Code::invalid_argument);
  std::ofstream(dir_.file("file")) << "x";
  EXPECT_EQ(code({.directory = dir_.file("file")}), Code::invalid_argument);
  const auto saver = open();
  save(*saver, 1, {{"n", 1}});
  EXPECT_EQ(code({.directory = directory() + "/step-000000000001"}), Code::invalid_argument);
}

TEST_F(CheckpointTest, what_cannot_be_saved_is_refused_before_anything_is_written) {
  const auto saver = open();
  EXPECT_EQ(saver->save(1, Tree::list({1})).status().code(), Code::invalid_argument);
  EXPECT_EQ(saver->save(1, Tree::map()).status().code(), Code::invalid_argument);
  EXPECT_EQ(saver->save(1, {{"!x", 1}}).status().code(), Code::invalid_argument);
  const Status status = saver->save(1, {{"a", {{"b", "\xff"}}}}).status();
  EXPECT_TRUE(has(status, "a.b: a text that is not UTF-8")) << status.message();
  EXPECT_FALSE(std::filesystem::exists(directory()));
}

TEST_F(CheckpointTest, the_position_of_a_loader_is_committed_with_the_state) {
  Cursor cursor;
  cursor.order.sample_count = 1000;
  cursor.order.seed = 0xFFFF'FFFF'FFFF'FFF0;  // beyond what JSON numbers can be
  cursor.global_batch_size = 8;
  cursor.epoch = 3;
  cursor.position = 24;
  cursor.fingerprint = {.low = 1, .high = 2};
  // As a loader has it: with every default filled in.
  const Result<Cursor> resolved = parse_cursor(format_cursor(cursor));
  if (resolved.ok()) cursor = *resolved;
  const auto saver = open();
  save(*saver, 1, {{"n", 1}}, {.cursor = cursor});
  std::optional<Cursor> seen;
  Tree trees = {{"n", nullptr}};
  const Restored done = restore(*saver, trees, {.check_cursor = [&](const Cursor& at) {
    seen = at;
    return Status();
  }});
  EXPECT_EQ(seen, cursor);
  EXPECT_EQ(done.cursor, cursor);
  const Result<Checkpoint> opened = Checkpoint::open(directory());
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(**opened->cursor(), cursor);

  std::vector<double> weights{1};
  save(*saver, 2, {{"w", tensor(weights)}}, {.cursor = cursor});
  weights[0] = 5;
  const Status no = refused(*saver, {{"w", tensor(weights)}}, {.check_cursor = [](const Cursor&) {
    return Status(Code::corrupt, "another dataset");
  }});
  EXPECT_TRUE(has(no, "another dataset"));
  EXPECT_EQ(weights[0], 5);
}

TEST_F(CheckpointTest, a_function_that_throws_ends_the_call_with_its_message) {
  const auto saver = open({.on_notice = [](const std::string&) { throw std::runtime_error("x"); }});
  Cursor cursor;
  cursor.order.sample_count = 10;
  cursor.global_batch_size = 1;
  save(*saver, 1, {{"n", 1}}, {.cursor = cursor});
  const Status status = refused(*saver, {{"n", nullptr}}, {.check_cursor = [](const Cursor&) {
    throw std::runtime_error("mine");
    return Status();
  }});
  EXPECT_TRUE(has(status, "mine")) << status.message();
}

TEST_F(CheckpointTest, slices_of_tensors_are_read_and_verified) {
  const std::vector<double> weights = counted(20);
  const auto saver = open();
  save(*saver, 40, {{"model", {{"w", tensor(weights, {5, 4})}}}, {"epoch", 2}});
  for (const std::string& path : {directory(), directory() + "/latest", directory() + "/40",
                                  directory() + "/step-000000000040"}) {
    const Result<Checkpoint> opened = Checkpoint::open(path);
    ASSERT_TRUE(opened.ok()) << path << ": " << opened.status().message();
    EXPECT_EQ(opened->step(), 40U);
    EXPECT_TRUE(opened->has_checksums());
  }
  const Result<Checkpoint> opened = Checkpoint::open(directory());
  ASSERT_EQ(opened->tensors().size(), 1U);
  const TensorInfo& info = opened->tensors()[0];
  EXPECT_EQ(info.name, "model.w");
  EXPECT_EQ(info.shape, (std::vector<std::uint64_t>{5, 4}));
  std::vector<double> box(4);
  ASSERT_TRUE(opened->read("model.w", {1, 2}, {2, 2}, std::as_writable_bytes(std::span(box))).ok());
  EXPECT_EQ(box, (std::vector<double>{6, 7, 10, 11}));
  EXPECT_EQ(*opened->read_values<double>("model.w"), weights);
  EXPECT_EQ(opened->read_values<float>("model.w").status().code(), Code::invalid_argument);
  EXPECT_EQ(opened->read_values<double>("w").status().code(), Code::not_found);
  EXPECT_EQ(*opened->digest("model.w"), xxh3_128(std::as_bytes(std::span(weights))));
  EXPECT_TRUE(opened->verify().ok());
  const Result<Tree> trees = opened->trees();
  ASSERT_TRUE(trees.ok());
  EXPECT_EQ(trees->find("epoch")->int64(), 2);
  EXPECT_EQ(trees->find("model")->find("w")->tensor()->shape, info.shape);
  damage(40);
  const Result<Checkpoint> damaged = Checkpoint::open(directory());
  ASSERT_TRUE(damaged.ok());
  EXPECT_EQ(damaged->verify().code(), Code::corrupt);
  EXPECT_EQ(damaged->read_values<double>("model.w").status().code(), Code::corrupt);
}

TEST_F(CheckpointTest, what_is_read_through_the_page_cache_stays_there_for_other_processes) {
  const TempDir disk;
  const std::vector<double> weights = counted(1U << 20);
  const auto saver = open({.directory = disk.file("run")});
  save(*saver, 1, {{"w", tensor(weights)}});
  const std::string file = disk.file("run/latest/rank-00000.safetensors");
  for (const std::string& path : {disk.file("run"), file}) {
    ASSERT_TRUE(evict(file).ok());
    const Result<Checkpoint> opened = Checkpoint::open(path, {.cache = CachePolicy::buffered});
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(*opened->read_values<double>("w"), weights);
    EXPECT_GT(residency(file)->share(), 0.95);
  }
}

TEST_F(CheckpointTest, what_is_no_checkpoint_is_said) {
  EXPECT_EQ(Checkpoint::open(directory()).status().code(), Code::not_found);
  EXPECT_EQ(Checkpoint::open("").status().code(), Code::invalid_argument);
  std::filesystem::create_directory(directory());
  const Status status = Checkpoint::open(directory()).status();
  EXPECT_EQ(status.code(), Code::not_found);
  EXPECT_TRUE(has(status, "no checkpoints in")) << status.message();
}

TEST_F(CheckpointTest, reference_values_are_compared_with_one_call) {
  const Restored restored{
      .step = 7, .path = "run/step", .reference = {{"loss", 2.0}, {"norm", 0.5}, {"nan", NAN}}};
  EXPECT_TRUE(check_reference(restored, {{"loss", 2.001}, {"nan", NAN}}).ok());
  const Status differs =
      check_reference(restored, {{"loss", 2.5}, {"norm", -INFINITY}, {"nan", 0}});
  EXPECT_EQ(differs.code(), Code::invalid_argument);
  EXPECT_TRUE(has(differs, "loss was 2 and is 2.5, nan was nan and is 0, norm was 0.5 and is -inf"))
      << differs.message();
  EXPECT_TRUE(check_reference(restored, {{"loss", 2.5}}, 0.3).ok());
  EXPECT_EQ(check_reference(restored, {{"loss", 2.0 + 1e-12}}, 0).code(), Code::invalid_argument);
  EXPECT_TRUE(has(check_reference(restored, {{"accuracy", 1}}), "accuracy: not among"));
}

}  // namespace
}  // namespace stoker
