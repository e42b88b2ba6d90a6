#include "checkpoint/save/checkpoint_saver.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/gated_saves.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/save_support.h"

namespace stoker {
namespace {

using testing::counted;
using testing::exists;
using testing::Gate;
using testing::GatedFileOps;
using testing::make_saver;
using testing::OwnedTensor;
using testing::quiet_options;
using testing::read_plainly;
using testing::request_of;
using testing::save_through;

TEST(CheckpointerTest, a_save_is_a_directory_of_plain_safetensors_with_a_manifest) {
  const testing::TempDir dir;
  const std::string root = dir.file("run/checkpoints");
  SaverOptions options = quiet_options(root);
  options.engine = {};  // the best one here, direct where that pays
  options.file = {};
  options.now_s = [] { return 1234.5; };
  const auto saver = make_saver(std::move(options));
  const std::vector<OwnedTensor> tensors{counted("w", 3'000'000, 1), counted("bias", 17, -4)};
  SaveRequest request = request_of(1000, tensors);
  request.reference = {{"loss", 2.25}};
  request.cursor_json = "{\"position\":7}";
  const Result<PendingSave> pending = saver->save(request);
  ASSERT_TRUE(pending.ok()) << pending.status().message();
  ASSERT_TRUE(pending->wait().ok()) << pending->wait().message();
  EXPECT_EQ(pending->outcome(), SaveOutcome::committed);
  EXPECT_EQ(pending->generation(), 1U);
  const std::string step = root + "/step-000000001000";
  EXPECT_EQ(read_plainly(step + "/rank-00000.safetensors", "w"), tensors[0].values);
  EXPECT_EQ(read_plainly(step + "/rank-00000.safetensors", "bias"), tensors[1].values);
  testing::expect_whole(step);
  const CheckpointManifest manifest = testing::manifest_in(step);
  EXPECT_EQ(manifest.step, 1000U);
  EXPECT_EQ(manifest.time_s, 1234.5);
  EXPECT_EQ(manifest.reference.at("loss"), 2.25);
  EXPECT_EQ(manifest.files.at(0).chunks.size(), 3U);
  EXPECT_FALSE(manifest.parent.has_value());
  EXPECT_EQ(std::filesystem::read_symlink(root + "/latest"), "step-000000001000");
  struct stat info{};
  ASSERT_EQ(::stat((step + "/rank-00000.safetensors").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0444U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(step), {}), 2);
  ASSERT_TRUE(saver->close().ok());
  const std::set<std::string> others = {".catalog", ".lock", ".lock-1", "latest"};
  for (const auto& entry : std::filesystem::directory_iterator(root))
    EXPECT_TRUE(entry.path() == step || others.contains(entry.path().filename())) << entry.path();
}

TEST(CheckpointerTest, the_caller_may_change_its_tensors_as_soon_as_save_has_returned) {
  const testing::TempDir dir;
  Gate gate("checkpoint.staged_dir");
  GatedFileOps ops(gate);
  SaverOptions options = quiet_options(dir.path());
  options.ops = &ops;
  const auto saver = make_saver(std::move(options));
  std::vector<OwnedTensor> tensors{counted("w", 100'000, 1)};
  const std::vector<float> before = tensors[0].values;
  const Result<PendingSave> pending = saver->save(request_of(1, tensors));
  ASSERT_TRUE(pending.ok());
  gate.await();  // nothing was written yet
  std::fill(tensors[0].values.begin(), tensors[0].values.end(), -1.0F);
  EXPECT_FALSE(pending->is_done());
  EXPECT_EQ(pending->wait(nanoseconds(1)).code(), Code::unavailable);
  gate.open();
  ASSERT_TRUE(pending->wait().ok());
  EXPECT_EQ(read_plainly(dir.file("step-000000000001/rank-00000.safetensors"), "w"), before);
}

TEST(CheckpointerTest, more_than_the_memory_passes_through_a_ring_of_chunks) {
  const testing::TempDir dir;
  for (const EngineKind kind : {EngineKind::sync, EngineKind::threads}) {
    SaverOptions options = quiet_options(dir.file(std::string(engine_kind_name(kind))));
    options.engine = testing::engine_of(kind);
    options.memory_bytes = 8 << 20;
    const std::string step = options.directory + "/step-000000000005";
    const auto saver = make_saver(std::move(options));
    const std::vector<OwnedTensor> tensors{counted("w", 10'000'000, 1), counted("v", 1'000, 3)};
    const Status saved = save_through(*saver, request_of(5, tensors));
    ASSERT_TRUE(saved.ok()) << saved.message();
    EXPECT_EQ(read_plainly(step + "/rank-00000.safetensors", "w"), tensors[0].values);
    testing::expect_whole(step);
  }
}

TEST(CheckpointerTest, nonfinite_values_are_counted_for_each_tensor) {
  const testing::TempDir dir;
  const auto saver = make_saver(quiet_options(dir.path()));
  std::vector<OwnedTensor> tensors{counted("a", 2'000'000, 1), counted("b", 10, 1)};
  tensors[0].values[5] = tensors[0].values[1'999'999] = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(save_through(*saver, request_of(1, tensors)).ok());
  const CheckpointManifest manifest = testing::manifest_in(dir.file("step-000000000001"));
  EXPECT_EQ(manifest.tensors.at(0).nonfinite_count, 2U);
  EXPECT_EQ(manifest.tensors.at(1).nonfinite_count, 0U);
}

TEST(CheckpointerTest, a_step_of_this_run_is_refused_and_one_of_a_rewound_run_is_superseded) {
  const testing::TempDir dir;
  const std::vector<OwnedTensor> tensors{counted("w", 10, 1)};
  {
    const auto saver = make_saver(quiet_options(dir.path()));
    for (const std::uint64_t step : {1U, 2U, 3U})
      ASSERT_TRUE(save_through(*saver, request_of(step, tensors)).ok());
    EXPECT_EQ(saver->save(request_of(2, tensors)).status().code(), Code::already_exists);
    EXPECT_EQ(testing::manifest_in(dir.file("step-000000000003")).parent,
              (CheckpointParent{.step = 2,
                                .generation = 2,
                                .line = testing::manifest_in(dir.file("step-000000000002")).line}));
  }
  SaverOptions options = quiet_options(dir.path());
  options.parent = CheckpointParent{.step = 2, .generation = 2};
  const auto rewound = make_saver(std::move(options));
  EXPECT_EQ(rewound->save(request_of(1, tensors)).status().code(), Code::already_exists);
  ASSERT_TRUE(save_through(*rewound, request_of(3, tensors)).ok());
  EXPECT_EQ(testing::manifest_in(dir.file("step-000000000003")).generation, 4U);
  EXPECT_EQ(testing::manifest_in(dir.file("step-000000000003")).parent->step, 2U);
  EXPECT_EQ(testing::manifest_in(dir.file("step-000000000003.superseded-3")).generation, 3U);
  EXPECT_EQ(std::filesystem::read_symlink(dir.file("latest")), "step-000000000003");
}

TEST(CheckpointerTest, a_step_of_this_run_is_refused_when_retention_has_removed_its_children) {
  const testing::TempDir dir;
  const std::vector<OwnedTensor> tensors{counted("w", 10, 1)};
  const auto options = [&dir](std::optional<CheckpointParent> parent) {
    SaverOptions made = quiet_options(dir.path());
    made.retention.keep_last = 1;
    made.retention.keep_every = 100;
    made.parent = parent;
    return made;
  };
  {
    const auto saver = make_saver(options({}));
    for (const std::uint64_t step : {100U, 110U, 120U, 130U})
      ASSERT_TRUE(save_through(*saver, request_of(step, tensors)).ok());
    ASSERT_FALSE(std::filesystem::exists(dir.file("step-000000000120")));
    EXPECT_EQ(saver->save(request_of(100, tensors)).status().code(), Code::already_exists);
  }
  const auto again = make_saver(options(CheckpointParent{.step = 130, .generation = 4}));
  EXPECT_EQ(again->save(request_of(100, tensors)).status().code(), Code::already_exists);
  EXPECT_EQ(testing::manifest_in(dir.file("step-000000000100")).generation, 1U);
  EXPECT_EQ(testing::manifest_in(dir.file("step-000000000130")).generation, 4U);
}

TEST(CheckpointerTest, a_late_save_is_skipped_replaces_the_waiting_one_or_waits) {
  for (const LatePolicy policy : {LatePolicy::skip, LatePolicy::replace, LatePolicy::block}) {
    const testing::TempDir dir;
    Gate gate("checkpoint.staged_dir");
    GatedFileOps ops(gate);
    SaverOptions options = quiet_options(dir.path());
    options.ops = &ops;
    options.late = policy;
    options.in_flight = 2;
    const auto saver = make_saver(std::move(options));
    const std::vector<OwnedTensor> tensors{counted("w", 10, 1)};
    const Result<PendingSave> first = saver->save(request_of(1, tensors));
    gate.await();
    const Result<PendingSave> second = saver->save(request_of(2, tensors));
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(saver->progress().in_flight, 2U);
    EXPECT_EQ(saver->progress().step, 1U);
    // A blocked save must end once the writer continues: another thread opens the gate.
    std::jthread opener;
    if (policy == LatePolicy::block) opener = std::jthread([&] { gate.open(); });
    const Result<PendingSave> third = saver->save(request_of(3, tensors));
    ASSERT_TRUE(third.ok()) << third.status().message();
    gate.open();
    ASSERT_TRUE(saver->wait().ok());
    EXPECT_EQ(first->outcome(), SaveOutcome::committed);
    EXPECT_EQ(second->outcome(),
              policy == LatePolicy::replace ? SaveOutcome::replaced : SaveOutcome::committed);
    EXPECT_EQ(third->outcome(),
              policy == LatePolicy::skip ? SaveOutcome::skipped : SaveOutcome::committed);
    EXPECT_EQ(exists(dir.file("step-000000000002")), policy != LatePolicy::replace);
    EXPECT_EQ(exists(dir.file("step-000000000003")), policy != LatePolicy::skip);
  }
}

TEST(CheckpointerTest, others_may_look_at_it_and_wait_while_it_closes) {
  const testing::TempDir dir;
  const auto saver = make_saver(quiet_options(dir.path()));
  ASSERT_TRUE(saver->save(request_of(1, {counted("w", 1'000, 1)})).ok());
  {
    const std::jthread watcher([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        static_cast<void>(saver->progress());
        EXPECT_TRUE(saver->wait().ok());
      }
    });
    EXPECT_TRUE(saver->close().ok());
  }
  EXPECT_EQ(saver->progress().in_flight, 0U);
  EXPECT_EQ(saver->save(request_of(2, {})).status().code(), Code::invalid_argument);
}

TEST(CheckpointerTest, replacing_needs_one_that_waits) {
  SaverOptions options = quiet_options("somewhere");
  options.late = LatePolicy::replace;
  EXPECT_EQ(CheckpointSaver::make(std::move(options)).status().code(), Code::invalid_argument);
}

TEST(CheckpointerTest, a_save_is_durable_before_the_blocks_of_others_are_freed) {
  const testing::TempDir dir;
  Gate gate("owner.unlinked");
  GatedFileOps ops(gate);
  SaverOptions options = quiet_options(dir.path());
  options.ops = &ops;
  options.retention = {.keep_last = 1};
  bool is_full = false;
  options.free_bytes = [&](const std::string&) -> Result<std::uint64_t> {
    if (std::exchange(is_full, false)) {
      gate.open();
      return std::uint64_t{0};
    }
    return std::uint64_t{1} << 20;
  };
  const auto saver = make_saver(std::move(options));
  ASSERT_TRUE(save_through(*saver, request_of(1, {counted("w", 9, 1)})).ok());
  ASSERT_TRUE(save_through(*saver, request_of(2, {counted("w", 9, 2)})).ok());
  gate.await();
  EXPECT_FALSE(exists(dir.file(step_name(1)))) << "it is out of sight already";
  EXPECT_EQ(saver->wait(nanoseconds(0)).code(), Code::unavailable) << "and is being removed";
  is_full = true;  // until that has ended
  EXPECT_TRUE(save_through(*saver, request_of(3, {counted("w", 9, 3)})).ok());
  EXPECT_TRUE(saver->wait().ok());
  EXPECT_FALSE(exists(dir.file(step_name(2))));
}

}  // namespace
}  // namespace stoker
