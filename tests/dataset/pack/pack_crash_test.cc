// What a kill, a failing disk and a full one leave behind, and what a restart makes of it.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <csignal>

#include "dataset/pack_support.h"
#include "dataset/shards/dataset_manifest.h"
#include "support/faulty_file_ops.h"
#include "support/in_child.h"

namespace stoker::testing {
namespace {

constexpr std::size_t kSamples = 10;

struct Case {
  std::string format;
  std::unique_ptr<PackInput> source;
};

/// The same small job in each format.
std::vector<Case> make_cases(const PackDir& dir) {
  write_images(dir.file("src"), kSamples);
  write_text(dir.file("t.bin"), noise(2 * 64 * kSamples, 5));
  std::vector<Case> cases;
  for (const char* format : {"tar", "mds", "tfrecord"})
    cases.push_back({format, open_source(dir.file("src"))});
  cases.push_back(
      {"tokens", open_source(dir.file("t.bin"), {.dtype = Dtype::uint16, .sequence_length = 64})});
  cases.push_back(
      {"counted", open_source(dir.file("t.bin"), {.dtype = Dtype::int32, .sequence_length = 32})});
  return cases;
}

/// Ends the process at the n-th crash point, as a kill does.
class KillAt final : public FaultyFileOps {
 public:
  explicit KillAt(int countdown)
      : FaultyFileOps(posix_file_ops(), kNever, 0), countdown_(countdown) {}
  void reached(std::string_view /*crash_point*/) override {
    if (countdown_-- == 0) ::raise(SIGKILL);
  }

 private:
  int countdown_;
};

bool pack_in(FileOps& ops, const Case& job, const std::string& directory) {
  return pack(ops, *job.source, directory, small_shards(job.format, 4)).ok();
}

/// Every shard with a final name is one of the uninterrupted run's, byte for byte.
void expect_only_whole_files(const std::string& directory,
                             const std::map<std::string, std::string>& whole) {
  for (const auto& [name, bytes] : visible_files(directory)) {
    ASSERT_TRUE(whole.contains(name)) << name;
    EXPECT_EQ(bytes, whole.at(name)) << name;
  }
}

TEST(PackCrashTest, a_kill_at_any_crash_point_and_a_restart_give_the_same_bytes) {
  const PackDir dir;
  for (const Case& job : make_cases(dir)) {
    SCOPED_TRACE(job.format);
    ASSERT_TRUE(pack_in(posix_file_ops(), job, dir.file("one-" + job.format)));
    const auto whole = visible_files(dir.file("one-" + job.format));
    int kills = 0;
    for (;; ++kills) {
      SCOPED_TRACE(kills);
      const std::string directory = dir.file(job.format + "-" + std::to_string(kills));
      const ChildEnd end = in_child([&] {
        KillAt ops(kills);
        return pack_in(ops, job, directory) ? 0 : 1;
      });
      if (end.exit_code == 0) break;
      ASSERT_EQ(end.signal, SIGKILL);
      expect_only_whole_files(directory, whole);
      ASSERT_TRUE(pack_in(posix_file_ops(), job, directory));
      EXPECT_EQ(visible_files(directory), whole);
      EXPECT_EQ(staged_count(directory), 0U);
      EXPECT_EQ(read_all(directory).size(), kSamples);
    }
    EXPECT_GT(kills, 30) << "there are more crash points than that";
  }
}

TEST(PackCrashTest, a_kill_after_any_sample_and_a_restart_give_the_same_bytes) {
  const PackDir dir;
  const auto cases = make_cases(dir);
  const Case& job = cases.front();
  ASSERT_TRUE(pack_in(posix_file_ops(), job, dir.file("one")));
  const auto whole = visible_files(dir.file("one"));
  const std::string directory = dir.file("dst");
  // One kill after the other in one directory: each run gets a little further.
  for (std::uint64_t killed_at = 0; killed_at < kSamples; ++killed_at) {
    const ChildEnd end = in_child([&] {
      PackOptions options = small_shards(job.format, 4);
      options.progress = [&](const PackProgress& now) {
        if (now.samples_done > killed_at) ::raise(SIGKILL);
      };
      return pack(posix_file_ops(), *job.source, directory, options).ok() ? 0 : 1;
    });
    EXPECT_EQ(end.signal, SIGKILL) << killed_at;
    expect_only_whole_files(directory, whole);
  }
  ASSERT_TRUE(pack_in(posix_file_ops(), job, directory));
  EXPECT_EQ(visible_files(directory), whole);
  EXPECT_EQ(staged_count(directory), 0U);
}

TEST(PackCrashTest, any_single_fault_leaves_whole_files_and_a_restart_finishes) {
  const PackDir dir;
  for (const Case& job : make_cases(dir)) {
    SCOPED_TRACE(job.format);
    ASSERT_TRUE(pack_in(posix_file_ops(), job, dir.file("one-" + job.format)));
    const auto whole = visible_files(dir.file("one-" + job.format));
    int fail_at = 0;
    for (;; ++fail_at) {
      SCOPED_TRACE(fail_at);
      const std::string directory = dir.file(job.format + "-" + std::to_string(fail_at));
      FaultyFileOps ops(posix_file_ops(), fail_at, EIO);
      const bool packed = pack_in(ops, job, directory);
      if (!ops.fired()) {
        EXPECT_TRUE(packed);
        break;
      }
      SCOPED_TRACE(ops.failed_op());
      EXPECT_FALSE(packed);
      expect_only_whole_files(directory, whole);
      if (std::filesystem::exists(directory)) {
        EXPECT_EQ(staged_count(directory), 0U);
      }
      ASSERT_TRUE(pack_in(posix_file_ops(), job, directory));
      EXPECT_EQ(visible_files(directory), whole);
    }
    EXPECT_GT(fail_at, 60);
  }
}

TEST(PackCrashTest, a_full_disk_leaves_whole_shards_and_room_lets_it_finish) {
  const PackDir dir;
  for (std::size_t i = 0; i < 24; ++i)
    write_text(dir.file("src/t/f" + std::to_string(100 + i) + ".bin"),
               noise(100'000, static_cast<unsigned>(i)));
  const auto source = open_source(dir.file("src"));
  ASSERT_TRUE(pack(posix_file_ops(), *source, dir.file("one"), small_shards("tar")).ok());
  const auto whole = visible_files(dir.file("one"));
  const std::string disk = dir.file("disk");
  std::filesystem::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "mounting a small tmpfs takes root in a place that allows it";
  const auto report = pack(posix_file_ops(), *source, disk + "/dst", small_shards("tar"));
  EXPECT_EQ(report.status().code(), Code::no_space) << report.status().message();
  expect_only_whole_files(disk + "/dst", whole);
  EXPECT_EQ(staged_count(disk + "/dst"), 0U);
  EXPECT_GE(visible_files(disk + "/dst").size(), 1U);
  EXPECT_EQ(::mount("tmpfs", disk.c_str(), "tmpfs", MS_REMOUNT, "size=8m"), 0);
  EXPECT_TRUE(pack(posix_file_ops(), *source, disk + "/dst", small_shards("tar")).ok());
  EXPECT_EQ(visible_files(disk + "/dst"), whole);
  EXPECT_EQ(::umount(disk.c_str()), 0);
}

}  // namespace
}  // namespace stoker::testing
