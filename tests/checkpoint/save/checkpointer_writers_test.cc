#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/directory/owner_directory.h"
#include "checkpoint/gated_saves.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/save/checkpointer.h"
#include "checkpoint/save_support.h"
#include "support/in_child.h"

namespace stoker {
namespace {

using testing::counted;
using testing::exists;
using testing::Gate;
using testing::GatedFileOps;
using testing::make_saver;
using testing::opened;
using testing::OwnedTensor;
using testing::quiet_options;
using testing::request_of;
using testing::save_through;

TEST(CheckpointerWritersTest, a_forked_child_can_neither_use_nor_harm_it) {
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

TEST(CheckpointerWritersTest, several_checkpointers_work_side_by_side_but_not_in_one_directory) {
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

TEST(CheckpointerWritersTest, a_writer_that_was_presumed_dead_cannot_publish) {
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

TEST(CheckpointerWritersTest, writers_that_race_for_a_directory_write_one_after_the_other) {
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
