// Options of a checkpointer that concern what is beside it: other nodes, writers and checkpoints.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "stoker/checkpoint.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::TempDir;
using namespace std::chrono_literals;

class CheckpointOptionsTest : public ::testing::Test {
 protected:
  std::string directory() const { return dir_.file("run"); }
  static std::string step_file(const std::string& directory, int step, int rank = 0) {
    return directory + "/step-00000000000" + std::to_string(step) + "/rank-0000" +
           std::to_string(rank) + ".safetensors";
  }

  TempDir dir_{testing::fast_parent()};
};

/// A rank on a node of its own: the same path names another directory there.
int save_and_restore_on_a_node(const std::string& node, const std::string& meeting,
                               std::uint64_t rank) {
  ::alarm(60);
  if (::chdir(node.c_str()) != 0) return 2;
  const auto saver = Checkpointer::open({.directory = "/proc/self/cwd/run",
                                         .deadline = 50s,
                                         .ranks = {.rank = rank, .world_size = 2},
                                         .job = "private",
                                         .meeting = meeting,
                                         .has_private_disks = true});
  if (!saver.ok()) return 3;
  std::vector<double> own(1000, static_cast<double>(rank + 1));
  TensorView mine = tensor(own);
  mine.is_per_rank = true;
  Tree trees = {{"own", mine}};
  const Result<PendingSave> pending = (*saver)->save(1, trees);
  if (!pending.ok() || !pending->wait().ok()) return 4;
  own.assign(own.size(), -1);
  const auto restored = (*saver)->restore(trees);
  if (!restored.ok() || !*restored || (*restored)->step != 1) return 5;
  if (own != std::vector<double>(own.size(), static_cast<double>(rank + 1))) return 6;
  return (*saver)->close().ok() ? 0 : 7;
}

TEST_F(CheckpointOptionsTest, a_uri_is_not_taken_for_a_local_directory) {
  const auto opened = Checkpointer::open({.directory = "s3://bucket/run"});
  EXPECT_EQ(opened.status().code(), Code::unsupported);
  EXPECT_NE(opened.status().message().find("s3://bucket/run"), std::string_view::npos);
}

TEST_F(CheckpointOptionsTest, every_node_stores_what_its_ranks_save_on_its_private_disk) {
  const std::string meeting = dir_.file("meeting");
  fs::create_directory(meeting);
  std::vector<pid_t> ranks;
  for (std::uint64_t rank = 0; rank < 2; ++rank) {
    const std::string node = dir_.file("node" + std::to_string(rank));
    fs::create_directory(node);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(save_and_restore_on_a_node(node, meeting, rank));
    ranks.push_back(child);
  }
  for (const pid_t rank : ranks) {
    int end = 0;
    ASSERT_EQ(::waitpid(rank, &end, 0), rank);
    EXPECT_TRUE(WIFEXITED(end));
    EXPECT_EQ(WEXITSTATUS(end), 0);
  }
  for (const int rank : {0, 1}) {
    const std::string run = dir_.file("node" + std::to_string(rank) + "/run");
    EXPECT_TRUE(fs::exists(step_file(run, 1, rank))) << run;
    EXPECT_FALSE(fs::exists(step_file(run, 1, 1 - rank))) << run;
  }
}

TEST_F(CheckpointOptionsTest, private_disks_need_a_meeting) {
  const auto refused = Checkpointer::open({.directory = directory(),
                                           .ranks = {.rank = 0, .world_size = 2},
                                           .job = "private",
                                           .has_private_disks = true});
  EXPECT_EQ(refused.status().code(), Code::invalid_argument);
  EXPECT_NE(refused.status().message().find("meeting"), std::string_view::npos);
}

TEST_F(CheckpointOptionsTest, unchanged_files_are_linked_unless_dedup_is_off) {
  std::vector<double> weights(std::size_t{1} << 20, 1);
  for (const bool is_linked : {true, false}) {
    const std::string run = dir_.file(is_linked ? "linked" : "written");
    const auto saver = Checkpointer::open({.directory = run, .dedup = is_linked});
    ASSERT_TRUE(saver.ok());
    for (std::uint64_t step = 1; step <= 4; ++step) {
      const auto pending = (*saver)->save(step, {{"w", tensor(weights)}});
      ASSERT_TRUE(pending.ok() && pending->wait().ok());
    }
    std::uintmax_t most = 0;
    for (const auto& file : fs::directory_iterator(run + "/step-000000000004"))
      most = std::max(most, file.hard_link_count());
    EXPECT_EQ(most > 1, is_linked);
  }
}

TEST_F(CheckpointOptionsTest, a_silent_writer_of_another_machine_is_dead_after_lock_ttl) {
  const auto save = [&](std::uint64_t step, CheckpointerOptions options) {
    options.directory = directory();
    const auto saver = Checkpointer::open(std::move(options));
    if (!saver.ok()) return saver.status();
    Tree trees = {{"n", nullptr}};
    STOKER_TRY((*saver)->restore(trees).status());
    const auto pending = (*saver)->save(step, {{"n", static_cast<std::int64_t>(step)}});
    return pending.ok() ? pending->wait() : pending.status();
  };
  ASSERT_TRUE(save(1, {}).ok());
  // As another machine has left it that was switched off.
  std::string record =
      R"({"beat":3,"boot_id":"of another machine","device":1,"host":"far","job":"","pid":7,)"
      R"("released":false,"token":"00112233445566778899aabbccddeeff"})";
  record.resize(1024, ' ');
  std::ofstream(directory() + "/.lock-1") << record;
  const Status refused = save(2, {.lock_timeout = 0s});
  EXPECT_EQ(refused.code(), Code::unavailable);
  EXPECT_NE(refused.message().find("far"), std::string_view::npos) << refused.message();
  const Status taken = save(2, {.lock_timeout = 30s, .lock_ttl = 20ms});
  EXPECT_TRUE(taken.ok()) << taken.message();
  EXPECT_EQ(Checkpointer::open({.directory = directory(), .lock_ttl = 0s}).status().code(),
            Code::invalid_argument);
}

TEST_F(CheckpointOptionsTest, a_checkpoint_is_read_by_any_number_of_threads) {
  std::vector<std::uint32_t> values(std::size_t{3} << 20);  // three chunks
  std::iota(values.begin(), values.end(), 7U);
  const auto saver = Checkpointer::open({.directory = directory()});
  ASSERT_TRUE(saver.ok());
  const auto pending = (*saver)->save(1, {{"w", tensor(values)}});
  ASSERT_TRUE(pending.ok() && pending->wait().ok());
  for (const CheckpointOpenOptions options : {CheckpointOpenOptions{.thread_count = 1, .depth = 1},
                                              CheckpointOpenOptions{.thread_count = 3, .depth = 2},
                                              CheckpointOpenOptions{.thread_count = 64}}) {
    const Result<Checkpoint> opened = Checkpoint::open(directory(), options);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const auto read = opened->read_values<std::uint32_t>("w");
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_TRUE(*read == values);
    EXPECT_TRUE(opened->verify().ok());
  }
}

}  // namespace
}  // namespace stoker
