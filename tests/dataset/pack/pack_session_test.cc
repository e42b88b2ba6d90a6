#include "dataset/pack/pack_session.h"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <filesystem>
#include <set>

#include "dataset/pack_support.h"
#include "support/hooked_file_ops.h"

namespace stoker::testing {
namespace {

std::vector<std::vector<std::uint64_t>> deal(const PackDir& dir, const PackInput& source,
                                             std::uint64_t tasks, TaskShare share) {
  std::vector<std::vector<std::uint64_t>> all;
  for (std::uint64_t task = 0; task < tasks; ++task) {
    PackOptions options = small_shards("tar", 1);
    options.task = task;
    options.task_count = tasks;
    auto session = PackSession::open(posix_file_ops(), source, dir.file("dst"), options, share);
    EXPECT_TRUE(session.ok()) << session.status().message();
    if (session.ok()) all.push_back((*session)->shards());
  }
  return all;
}

TEST(PackSessionTest, tasks_share_all_shards_and_none_twice) {
  const PackDir dir;
  write_images(dir.file("src"), 10);
  const auto source = open_source(dir.file("src"));
  for (const TaskShare share : {TaskShare::every_nth, TaskShare::adjacent}) {
    for (const std::uint64_t tasks : {1U, 2U, 3U, 7U, 10U, 13U}) {
      std::multiset<std::uint64_t> seen;
      for (const auto& shards : deal(dir, *source, tasks, share))
        seen.insert(shards.begin(), shards.end());
      EXPECT_EQ(seen, (std::multiset<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})) << tasks;
    }
  }
}

TEST(PackSessionTest, adjacent_shards_stay_together) {
  const PackDir dir;
  write_images(dir.file("src"), 10);
  const auto source = open_source(dir.file("src"));
  const auto dealt = deal(dir, *source, 3, TaskShare::adjacent);
  ASSERT_EQ(dealt.size(), 3U);
  EXPECT_EQ(dealt[0], (std::vector<std::uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(dealt[1], (std::vector<std::uint64_t>{4, 5, 6}));
  EXPECT_EQ(dealt[2], (std::vector<std::uint64_t>{7, 8, 9}));
}

TEST(PackSessionTest, a_mount_point_for_its_own_files_is_refused_at_the_start) {
  const PackDir dir;
  write_images(dir.file("src"), 3);
  const auto source = open_source(dir.file("src"));
  const std::string own = dir.file("dst/.stoker");
  for (const std::string& folder : {own, dir.file("elsewhere")})
    std::filesystem::create_directories(folder);
  if (::mount(dir.file("elsewhere").c_str(), own.c_str(), nullptr, MS_BIND, nullptr) != 0)
    GTEST_SKIP() << "a bind mount takes root in a place that allows it";
  const Status refused = PackSession::open(posix_file_ops(), *source, dir.file("dst"),
                                           small_shards("tar", 1), TaskShare::adjacent)
                             .status();
  EXPECT_EQ(::umount(own.c_str()), 0);
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(refused.message().find(own + ": something is mounted there"), std::string::npos)
      << refused.message();
  EXPECT_TRUE(std::filesystem::is_empty(dir.file("elsewhere")));
}

TEST(PackSessionTest, a_lock_whose_file_was_removed_meanwhile_is_not_held) {
  const PackDir dir;
  write_images(dir.file("src"), 3);
  const auto source = open_source(dir.file("src"));
  const auto open = [&](FileOps& ops) {
    return PackSession::open(ops, *source, dir.file("dst"), small_shards("tar", 1),
                             TaskShare::adjacent);
  };
  auto first = open(posix_file_ops());
  ASSERT_TRUE(first.ok());
  bool is_removed = false;
  // Between opening the file and locking it, the first one withdraws.
  HookedFileOps ops(posix_file_ops(), [&](std::string_view op, const PathAt*) -> Status {
    if (op == "try_lock" && !std::exchange(is_removed, true)) {
      std::filesystem::create_directories(dir.file("dst/kept"));
      (*first)->withdraw();
      std::filesystem::remove(dir.file("dst/kept"));
    }
    return {};
  });
  auto second = open(ops);
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_TRUE(is_removed);
  EXPECT_EQ(open(posix_file_ops()).status().code(), Code::unavailable);
}

TEST(PackSessionTest, closing_before_all_is_packed_is_refused) {
  const PackDir dir;
  write_images(dir.file("src"), 3);
  const auto source = open_source(dir.file("src"));
  auto session = PackSession::open(posix_file_ops(), *source, dir.file("dst"),
                                   small_shards("tar", 1), TaskShare::adjacent);
  ASSERT_TRUE(session.ok());
  const Result<PackReport> report = (*session)->close(0);
  EXPECT_EQ(report.status().code(), Code::unavailable);
  EXPECT_NE(report.status().message().find("3 of 3 shards are not packed yet"), std::string::npos);
}

}  // namespace
}  // namespace stoker::testing
