#include "checkpoint/save/checkpointer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <limits>
#include <set>
#include <thread>

#include "checkpoint/directory/owner_directory.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/save_support.h"
#include "io/files/forwarding_file_ops.h"
#include "support/faulty_file_ops.h"
#include "support/in_child.h"

namespace stoker {
namespace {

using testing::counted;
using testing::make_saver;
using testing::opened;
using testing::OwnedTensor;
using testing::quiet_options;
using testing::read_plainly;
using testing::request_of;

/// Saves and waits for the end.
Status save_through(Checkpointer& saver, const SaveRequest& request) {
  STOKER_ASSIGN(const Pending pending, saver.save(request));
  EXPECT_TRUE(pending.is_staged());
  return pending.wait();
}

bool exists(const std::string& path) {
  return std::filesystem::exists(std::filesystem::symlink_status(path));
}

/// Holds the writer's thread at a crash point until it is let go.
class Gate {
 public:
  explicit Gate(std::string point) : point_(std::move(point)) {}
  void pass(std::string_view point) {
    if (point != point_) return;
    MutexLock lock(mutex_);
    is_reached_ = true;
    changed_.notify_all();
    while (!is_open_) changed_.wait(mutex_);
  }
  void await() {
    MutexLock lock(mutex_);
    while (!is_reached_) changed_.wait(mutex_);
  }
  void open() {
    MutexLock lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  const std::string point_;
  Mutex mutex_;
  Condition changed_;
  bool is_reached_ STOKER_GUARDED_BY(mutex_) = false;
  bool is_open_ STOKER_GUARDED_BY(mutex_) = false;
};

class GatedFileOps final : public testing::FaultyFileOps {
 public:
  explicit GatedFileOps(Gate& gate) : FaultyFileOps(posix_file_ops(), kNever, 0), gate_(gate) {}
  void reached(std::string_view point) override { gate_.pass(point); }

 private:
  Gate& gate_;
};

TEST(CheckpointerTest, a_save_is_a_directory_of_plain_safetensors_with_a_manifest) {
  const testing::TempDir dir;
  const std::string root = dir.file("run/checkpoints");
  CheckpointerOptions options = quiet_options(root);
  options.engine = {};  // the best one here, direct where that pays
  options.file = {};
  options.now_s = [] { return 1234.5; };
  const auto saver = make_saver(std::move(options));
  const std::vector<OwnedTensor> tensors{counted("w", 3'000'000, 1), counted("bias", 17, -4)};
  SaveRequest request = request_of(1000, tensors);
  request.reference = {{"loss", 2.25}};
  request.cursor_json = "{\"position\":7}";
  const Result<Pending> pending = saver->save(request);
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
  CheckpointerOptions options = quiet_options(dir.path());
  options.ops = &ops;
  const auto saver = make_saver(std::move(options));
  std::vector<OwnedTensor> tensors{counted("w", 100'000, 1)};
  const std::vector<float> before = tensors[0].values;
  const Result<Pending> pending = saver->save(request_of(1, tensors));
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
    CheckpointerOptions options = quiet_options(dir.file(std::string(engine_kind_name(kind))));
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
  CheckpointerOptions options = quiet_options(dir.path());
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
    CheckpointerOptions made = quiet_options(dir.path());
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
    CheckpointerOptions options = quiet_options(dir.path());
    options.ops = &ops;
    options.late = policy;
    options.in_flight = 2;
    const auto saver = make_saver(std::move(options));
    const std::vector<OwnedTensor> tensors{counted("w", 10, 1)};
    const Result<Pending> first = saver->save(request_of(1, tensors));
    gate.await();
    const Result<Pending> second = saver->save(request_of(2, tensors));
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(saver->progress().in_flight, 2U);
    EXPECT_EQ(saver->progress().step, 1U);
    // A blocked save must end once the writer goes on: another thread opens the gate.
    std::jthread opener;
    if (policy == LatePolicy::block) opener = std::jthread([&] { gate.open(); });
    const Result<Pending> third = saver->save(request_of(3, tensors));
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

TEST(CheckpointerTest, replacing_needs_one_that_waits) {
  CheckpointerOptions options = quiet_options("somewhere");
  options.late = LatePolicy::replace;
  EXPECT_EQ(Checkpointer::make(std::move(options)).status().code(), Code::invalid_argument);
}

TEST(CheckpointerTest, an_error_is_told_once_by_the_next_call_and_always_by_its_own_pending) {
  const testing::TempDir dir;
  std::atomic<bool> is_broken{true};
  CheckpointerOptions options = quiet_options(dir.path());
  options.engine = [&]() -> Result<std::unique_ptr<Engine>> {
    if (is_broken) return Status(Code::no_space, "no engine today");
    return make_engine(EngineKind::sync, {});
  };
  const auto saver = make_saver(std::move(options));
  const std::vector<OwnedTensor> tensors{counted("w", 10, 1)};
  const Result<Pending> failing = saver->save(request_of(1, tensors));
  ASSERT_TRUE(failing.ok());
  EXPECT_EQ(failing->wait().code(), Code::no_space);
  EXPECT_EQ(failing->outcome(), SaveOutcome::failed);
  is_broken = false;
  EXPECT_EQ(saver->save(request_of(2, tensors)).status().code(), Code::no_space);
  EXPECT_TRUE(save_through(*saver, request_of(2, tensors)).ok());
  EXPECT_TRUE(saver->wait().ok());
  EXPECT_EQ(failing->wait().code(), Code::no_space);
  EXPECT_TRUE(saver->close().ok());
  EXPECT_EQ(saver->save(request_of(3, tensors)).status().code(), Code::invalid_argument);
}

TEST(CheckpointerTest, an_error_that_the_caller_has_is_not_told_again) {
  const testing::TempDir dir;
  std::atomic<bool> is_broken{true};
  CheckpointerOptions options = quiet_options(dir.path());
  options.engine = [&]() -> Result<std::unique_ptr<Engine>> {
    if (is_broken) return Status(Code::no_space, "no engine today");
    return make_engine(EngineKind::sync, {});
  };
  const auto saver = make_saver(std::move(options));
  const std::vector<OwnedTensor> tensors{counted("w", 10, 1)};
  const auto fail = [&](std::uint64_t step) {
    const Result<Pending> failing = saver->save(request_of(step, tensors));
    EXPECT_TRUE(failing.ok());
    EXPECT_EQ(failing->wait().code(), Code::no_space);
    failing->set_told();
  };
  fail(1);
  fail(2);
  const Result<Pending> untold = saver->save(request_of(3, tensors));
  ASSERT_TRUE(untold.ok());
  static_cast<void>(untold->wait());
  const Status raised = saver->save(request_of(4, tensors)).status();
  EXPECT_NE(raised.message().find("save step 3"), std::string::npos) << raised.message();
  fail(4);
  EXPECT_TRUE(saver->wait().ok());
  is_broken = false;
  EXPECT_TRUE(save_through(*saver, request_of(5, tensors)).ok());
  EXPECT_TRUE(saver->close().ok());
}

TEST(CheckpointerTest, room_for_one_more_is_looked_for_before_the_copy) {
  const testing::TempDir dir;
  CheckpointerOptions options = quiet_options(dir.path());
  options.free_bytes = [](const std::string&) -> Result<std::uint64_t> {
    return std::uint64_t{4096 + 39};
  };
  const auto saver = make_saver(std::move(options));
  EXPECT_EQ(saver->save(request_of(1, {counted("w", 10, 1)})).status().code(), Code::no_space);
  EXPECT_TRUE(save_through(*saver, request_of(1, {counted("w", 9, 1)})).ok());
}

/// Fails to take checkpoints out of sight, or to remove them afterwards.
class NoRetentionFileOps final : public ForwardingFileOps {
 public:
  explicit NoRetentionFileOps(bool can_hide)
      : ForwardingFileOps(posix_file_ops()), can_hide_(can_hide) {}

  Status rename(const PathAt& from, const PathAt& to) override {
    if (!can_hide_ && to.last().starts_with("retire-")) return Status(Code::io_error, "rename");
    return ForwardingFileOps::rename(from, to);
  }
  Status unlink(const PathAt& path) override {
    if (path.text().find("/remove-") != std::string::npos) return Status(Code::io_error, "unlink");
    return ForwardingFileOps::unlink(path);
  }

 private:
  bool can_hide_;
};

TEST(CheckpointerTest, retention_can_fail_without_undoing_the_commit) {
  for (const bool can_hide : {false, true}) {
    const testing::TempDir dir;
    NoRetentionFileOps ops(can_hide);
    CheckpointerOptions options = quiet_options(dir.path());
    options.ops = &ops;
    options.retention = {.keep_last = 1};
    const auto saver = make_saver(std::move(options));
    ASSERT_TRUE(save_through(*saver, request_of(1, {counted("w", 9, 1)})).ok());
    const Result<Pending> pending = saver->save(request_of(2, {counted("w", 9, 2)}));
    ASSERT_TRUE(pending.ok());
    // Blocks are freed after the save was acknowledged: the next call tells.
    EXPECT_EQ(pending->wait().ok(), can_hide);
    EXPECT_TRUE(pending->is_durable());
    const Status told = saver->wait();
    EXPECT_EQ(told.code(), Code::io_error);
    EXPECT_NE(told.message().find("save step 2: it is committed, but retention failed"),
              std::string_view::npos)
        << told.message();
    EXPECT_TRUE(saver->wait().ok()) << "told once";
    EXPECT_EQ(exists(dir.file(step_name(1))), !can_hide);
  }
}

TEST(CheckpointerTest, what_fails_behind_a_commit_does_not_cost_the_next_save) {
  const testing::TempDir dir;
  NoRetentionFileOps ops(/*can_hide=*/false);
  CheckpointerOptions options = quiet_options(dir.path());
  options.ops = &ops;
  options.retention = {.keep_last = 1};
  const auto saver = make_saver(std::move(options));
  for (const std::uint64_t step : {1U, 2U, 3U, 4U}) {
    const Result<Pending> pending = saver->save(request_of(step, {counted("w", 9, 1)}));
    ASSERT_TRUE(pending.ok()) << pending.status().message();
    EXPECT_EQ(pending->wait().ok(), step == 1) << "its own pending tells";
    EXPECT_TRUE(pending->is_durable());
  }
  EXPECT_EQ(saver->wait().code(), Code::io_error) << "and so does this, once";
  EXPECT_TRUE(saver->close().ok());
  for (const std::uint64_t step : {1U, 2U, 3U, 4U})
    testing::expect_whole(dir.file(step_name(step)));
}

TEST(CheckpointerTest, a_directory_that_is_replaced_gets_the_next_save) {
  const testing::TempDir dir;
  const std::string old = dir.file("old");
  const std::string path = dir.file("run");
  for (const bool is_removed : {false, true}) {
    const auto saver = make_saver(quiet_options(path));
    ASSERT_TRUE(save_through(*saver, request_of(1, {counted("w", 9, 1)})).ok());
    if (is_removed)
      std::filesystem::remove_all(path);
    else
      std::filesystem::rename(path, old);
    ASSERT_TRUE(save_through(*saver, request_of(2, {counted("w", 9, 2)})).ok());
    ASSERT_TRUE(save_through(*saver, request_of(3, {counted("w", 9, 3)})).ok());
    EXPECT_TRUE(saver->close().ok());
    testing::expect_whole(path + "/" + step_name(2));
    testing::expect_whole(path + "/" + step_name(3));
    EXPECT_FALSE(exists(old + "/" + step_name(2)));
    std::filesystem::remove_all(path);
  }
}

TEST(CheckpointerTest, a_save_is_durable_before_the_blocks_of_others_are_freed) {
  const testing::TempDir dir;
  Gate gate("owner.unlinked");
  GatedFileOps ops(gate);
  CheckpointerOptions options = quiet_options(dir.path());
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

TEST(CheckpointerTest, a_forked_child_can_neither_use_nor_harm_it) {
  const testing::TempDir dir;
  Gate gate("checkpoint.staged_dir");
  GatedFileOps ops(gate);
  CheckpointerOptions options = quiet_options(dir.path());
  options.ops = &ops;
  auto saver = make_saver(std::move(options));
  const std::vector<OwnedTensor> tensors{counted("w", 10, 1)};
  const Result<Pending> pending = saver->save(request_of(1, tensors));
  ASSERT_TRUE(pending.ok());
  gate.await();  // the fork comes in the middle of a save
  const testing::ChildEnd end = testing::in_child([&] {
    if (saver->save(request_of(2, tensors)).status().code() != Code::unsupported) return 1;
    if (saver->wait().code() != Code::unsupported) return 2;
    if (pending->wait().code() != Code::unsupported) return 3;
    saver.reset();
    return 0;
  });
  EXPECT_EQ(end.exit_code, 0);
  gate.open();
  EXPECT_TRUE(pending->wait().ok()) << pending->wait().message();
  EXPECT_TRUE(saver->close().ok());
}

TEST(CheckpointerTest, close_gives_up_what_does_not_end_in_time) {
  const testing::TempDir dir;
  static Gate gate("checkpoint.staged_dir");  // outlives the writer's thread, which is given up
  static GatedFileOps ops(gate);
  CheckpointerOptions options = quiet_options(dir.path());
  options.ops = &ops;
  const auto saver = make_saver(std::move(options));
  const Result<Pending> pending = saver->save(request_of(1, {counted("w", 10, 1)}));
  ASSERT_TRUE(pending.ok());
  gate.await();
  EXPECT_EQ(saver->close(nanoseconds(1)).code(), Code::unavailable);
  gate.open();
  EXPECT_TRUE(pending->wait().ok());
}

TEST(CheckpointerTest, several_checkpointers_work_side_by_side_but_not_in_one_directory) {
  const testing::TempDir dir;
  const auto one = make_saver(quiet_options(dir.file("one")));
  const auto two = make_saver(quiet_options(dir.file("two")));
  const auto rival = make_saver(quiet_options(dir.file("one")));
  const std::vector<OwnedTensor> tensors{counted("w", 10, 1)};
  EXPECT_TRUE(save_through(*one, request_of(1, tensors)).ok());
  EXPECT_TRUE(save_through(*two, request_of(1, tensors)).ok());
  const Status refused = rival->save(request_of(2, tensors)).status();
  EXPECT_EQ(refused.code(), Code::unavailable);
  EXPECT_NE(refused.message().find("pid " + std::to_string(::getpid())), std::string_view::npos);
  EXPECT_TRUE(one->close().ok());
  EXPECT_TRUE(save_through(*rival, request_of(2, tensors)).ok());
}

TEST(CheckpointerTest, a_writer_that_was_presumed_dead_cannot_publish) {
  for (const char* point : {"checkpoint.staged_dir", "checkpoint.directory_synced"}) {
    const testing::TempDir dir;
    Gate gate(point);
    GatedFileOps ops(gate);
    CheckpointerOptions options = quiet_options(dir.path());
    options.ops = &ops;
    const auto saver = make_saver(std::move(options));
    const Result<Pending> pending = saver->save(request_of(1, {counted("w", 10, 1)}));
    ASSERT_TRUE(pending.ok());
    gate.await();
    const OwnerDirectory successor(opened(dir.path()), "successor");  // on another host
    ASSERT_TRUE(successor.make().ok());
    ASSERT_TRUE(successor.take_over().ok());
    ASSERT_TRUE(successor.sweep().ok());
    gate.open();
    EXPECT_EQ(pending->wait().code(), Code::unavailable) << pending->wait().message();
    EXPECT_NE(pending->wait().message().find("another writer has taken over"),
              std::string_view::npos);
    EXPECT_EQ(pending->outcome(), SaveOutcome::failed);
    EXPECT_FALSE(exists(dir.file("step-000000000001")));
    EXPECT_FALSE(exists(dir.file("latest")));
  }
}

TEST(CheckpointerTest, writers_that_race_for_a_directory_write_one_after_the_other) {
  const testing::TempDir dir;
  constexpr std::uint64_t kEach = 6;
  {
    std::vector<std::jthread> writers;
    for (const std::uint64_t first : {std::uint64_t{0}, kEach})
      writers.emplace_back([&dir, first] {
        for (std::uint64_t step = first; step < first + kEach; ++step) {
          CheckpointerOptions options = quiet_options(dir.path());
          options.lock.timeout = std::chrono::minutes(5);
          const auto saver = make_saver(std::move(options));
          const Status saved = save_through(*saver, request_of(step, {counted("w", 50, 1)}));
          EXPECT_TRUE(saved.ok()) << saved.message();
        }
      });
  }
  std::set<std::uint64_t> generations;
  for (std::uint64_t step = 0; step < 2 * kEach; ++step) {
    testing::expect_whole(dir.file(step_name(step)));
    generations.insert(testing::manifest_in(dir.file(step_name(step))).generation);
  }
  EXPECT_EQ(generations.size(), 2 * kEach);
  EXPECT_EQ(*generations.rbegin(), 2 * kEach);
}

}  // namespace
}  // namespace stoker
