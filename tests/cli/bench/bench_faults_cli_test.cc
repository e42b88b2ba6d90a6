// `stoker bench` when the place is bad: each failure is one line that says what to do.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "cli/run_command.h"
#include "support/loop_disk.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

std::vector<std::string> disk(const std::string& path, const std::vector<std::string>& more = {}) {
  std::vector<std::string> args = {"bench", "disk", path, "--size", "8MiB", "--time", "2ms"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

/// A small tmpfs in a mount namespace of the child's own: nobody else sees it, and it is gone with
/// the child. False if we may not mount.
std::function<bool()> with_tmpfs(const std::string& path, const char* options,
                                 unsigned long flags) {
  return [=] {
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount("stoker-test", path.c_str(), "tmpfs", flags, options) == 0;
  };
}

/// What a process has read from block devices so far.
std::uint64_t read_by(pid_t process) {
  std::ifstream counters("/proc/" + std::to_string(process) + "/io");
  std::string name;
  std::uint64_t bytes = 0;
  while (counters >> name >> bytes)
    if (name == "read_bytes:") return bytes;
  return 0;
}

/// Whether a child has not ended; it stays to be waited for.
bool is_running(pid_t child) {
  siginfo_t ended{};
  return ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0;
}

#define SKIP_IF_NOT_SET_UP(ran, why) \
  if ((ran).exit_code == kCannotSetUp) GTEST_SKIP() << (why)

TEST(BenchFaultsCliTest, directory_that_is_not_there) {
  const TempDir dir;
  const Ran ran = run_stoker({.args = disk(dir.file("nothing"))});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"No such file", "a directory that exists"})) << ran.err;
}

TEST(BenchFaultsCliTest, file_instead_of_a_directory_is_misuse) {
  const TempDir dir;
  std::ofstream(dir.file("file")) << "x";
  const Ran ran = run_stoker({.args = disk(dir.file("file"))});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(is_one_line_with(ran.err, {"not a directory"})) << ran.err;
}

TEST(BenchFaultsCliTest, directory_of_somebody_else) {
  const TempDir dir;
  for (const mode_t mode : {0755U, 0700U}) {  // not writable; not even readable
    ASSERT_EQ(::chmod(dir.path().c_str(), mode), 0);
    const Ran ran = run_stoker({.args = disk(dir.path()), .in_child = become_nobody});
    SKIP_IF_NOT_SET_UP(ran, "only root can become nobody");
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_TRUE(is_one_line_with(ran.err, {"Permission denied", "choose a directory"})) << ran.err;
    EXPECT_EQ(dir.entry_count(), 0);
  }
}

TEST(BenchFaultsCliTest, ordinary_user_with_little_locked_memory_measures) {
  const TempDir dir;
  ASSERT_EQ(::chmod(dir.path().c_str(), 0777), 0);
  const Ran ran = run_stoker({.args = disk(dir.path(), {"--json"}), .in_child = become_nobody});
  SKIP_IF_NOT_SET_UP(ran, "only root can become nobody");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(dir.entry_count(), 0);
}

TEST(BenchFaultsCliTest, read_only_filesystem) {
  const TempDir dir;
  const Ran ran = run_stoker(
      {.args = disk(dir.path()), .in_child = with_tmpfs(dir.path(), "size=64m", MS_RDONLY)});
  SKIP_IF_NOT_SET_UP(ran, "only root can mount");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"Read-only file system", "choose a directory"}))
      << ran.err;
}

TEST(BenchFaultsCliTest, too_little_room_is_refused_before_a_byte_is_written) {
  const TempDir dir;
  for (const char* command : {"disk", "cliff"}) {
    std::vector<std::string> args = {"bench", command, dir.path()};
    args.insert(args.end(), {std::string(command) == "disk" ? "--size" : "--bytes", "1PiB"});
    const Ran ran = run_stoker({.args = args});
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_TRUE(is_one_line_with(ran.err, {"free", "another directory", args[3]})) << ran.err;
    EXPECT_EQ(dir.entry_count(), 0);
  }
}

/// Room was there when it was looked at, and then it was not: inodes run out at the small files.
TEST(BenchFaultsCliTest, disk_that_fills_up_on_the_way) {
  const TempDir dir;
  const Ran ran =
      run_stoker({.args = {"bench", "disk", dir.path(), "--size", "8MiB", "--only", "small_create"},
                  .in_child = with_tmpfs(dir.path(), "size=64m,nr_inodes=20", 0)});
  SKIP_IF_NOT_SET_UP(ran, "only root can mount");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"No space left", "--size"})) << ran.err;
}

TEST(BenchFaultsCliTest, tmpfs_is_measured_and_nothing_there_is_called_cold) {
  const TempDir dir;
  const Ran ran = run_stoker(
      {.args = disk(dir.path(), {"--json"}), .in_child = with_tmpfs(dir.path(), "size=64m", 0)});
  SKIP_IF_NOT_SET_UP(ran, "only root can mount");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out.find("\"cold\""), std::string::npos) << "tmpfs evicts nothing";
}

/// Every file it makes may grow to 2 MiB and no further.
TEST(BenchFaultsCliTest, write_that_the_system_refuses) {
  const TempDir dir;
  const Ran ran = run_stoker({.args = disk(dir.path(), {"--only", "seq_write"}), .in_child = [] {
                                constexpr rlimit kSmall{2 << 20, 2 << 20};
                                return ::setrlimit(RLIMIT_FSIZE, &kSmall) == 0;
                              }});
  EXPECT_EQ(ran.exit_code, 1) << ran.signal;
  EXPECT_TRUE(is_one_line_with(ran.err, {"File too large", "ulimit -f"})) << ran.err;
  EXPECT_EQ(dir.entry_count(), 0);
}

/// A real one: the loop device under a mounted ext4 loses its bytes while they are being read.
TEST(BenchFaultsCliTest, device_that_vanishes_in_the_middle) {
  const TempDir dir;
  const std::string mount_point = dir.file("mounted");
  ASSERT_EQ(::mkdir(mount_point.c_str(), 0700), 0);
  constexpr std::uint64_t kFileBytes = 16 << 20;
  LoopDisk device(dir.file("image"), 64 << 20);
  if (!device.is_there()) GTEST_SKIP() << "no loop devices here";
  bool vanished = false;
  const Ran ran = run_stoker(
      {.args = {"bench", "disk", mount_point, "--size", "16MiB", "--policy", "direct", "--only",
                "rand_read", "--block", "4KiB", "--depth", "32", "--time", "60s", "-v"},
       .in_child =
           [&] {
             return ::unshare(CLONE_NEWNS) == 0 &&
                    ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                    ::mount(device.name().c_str(), mount_point.c_str(), "ext4", 0, nullptr) == 0;
           },
       .on_err_line =
           [&](pid_t child, std::string_view line) {
             if (line.find("random read") == std::string_view::npos) return;
             // Not before it has read its whole file twice over: else the open would fail.
             while (read_by(child) < 2 * kFileBytes && is_running(child)) std::this_thread::yield();
             vanished = device.vanish();
           }});
  SKIP_IF_NOT_SET_UP(ran, "only root can mount");
  ASSERT_TRUE(vanished) << ran.err;
  EXPECT_EQ(ran.exit_code, 1) << ran.signal << ran.err;
  const std::size_t last = ran.err.rfind('\n', ran.err.size() - 2) + 1;
  EXPECT_TRUE(is_one_line_with(ran.err.substr(last), {"Input/output error", "kernel log"}))
      << ran.err;
}

}  // namespace
}  // namespace stoker::testing
