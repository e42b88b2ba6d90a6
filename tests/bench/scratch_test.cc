#include "bench/scratch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "io/files/filesystem.h"
#include "support/bystander.h"
#include "support/faulty_file_ops.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::stoker::testing::FaultyFileOps;
using ::stoker::testing::TempDir;

TEST(ScratchFileTest, has_no_name_but_can_be_opened_again) {
  const TempDir dir;
  Result<ScratchFile> scratch = ScratchFile::create(posix_file_ops(), dir.path(), {});
  ASSERT_TRUE(scratch.ok()) << scratch.status().message();
  EXPECT_EQ(dir.entry_count(), 0);
  ASSERT_EQ(::write(scratch->file().buffered_fd(), "abc", 3), 3);
  const Result<File> again =
      File::open(posix_file_ops(), scratch->reopen_path(), {.policy = CachePolicy::buffered});
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->size_bytes(), 3u);
}

TEST(ScratchDirectoryTest, is_removed_with_all_it_holds) {
  const TempDir dir;
  {
    const Result<ScratchDirectory> scratch = ScratchDirectory::create(posix_file_ops(), dir.path());
    ASSERT_TRUE(scratch.ok()) << scratch.status().message();
    for (const char* name : {"/0", "/1", "/2"}) std::ofstream(scratch->path() + name) << name;
    EXPECT_EQ(dir.entry_count(), 1);
  }
  EXPECT_EQ(dir.entry_count(), 0);
}

TEST(ScratchDirectoryTest, sweep_takes_the_dead_and_leaves_the_living_and_strangers) {
  const TempDir dir;
  const Result<ScratchDirectory> living = ScratchDirectory::create(posix_file_ops(), dir.path());
  ASSERT_TRUE(living.ok());
  const std::string dead = dir.file(".stoker-bench-dir-1-dead");  // as a SIGKILL leaves it
  std::filesystem::create_directory(dead);
  std::ofstream(dead + "/lock") << "";
  std::ofstream(dead + "/0") << "sample";
  std::filesystem::create_directory(dir.file("someone-elses"));

  EXPECT_EQ(sweep_scratch(posix_file_ops(), dir.path()), 1u);
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_TRUE(std::filesystem::exists(living->path()));
  EXPECT_TRUE(std::filesystem::exists(dir.file("someone-elses")));
}

TEST(ScratchDirectoryTest, sweep_never_goes_through_a_link) {
  const TempDir dir;
  ::stoker::testing::Bystander other;
  other.add("lock");
  other.add("deep/file");
  const auto planted = [&](const std::string& name) {
    return dir.file(".stoker-bench-dir-1-" + name);
  };
  std::filesystem::create_directory_symlink(other.path(), planted("link"));
  std::filesystem::create_directory(planted("linked-lock"));
  std::filesystem::create_symlink(other.file("lock"), planted("linked-lock") + "/lock");
  std::filesystem::create_directory(planted("fifo"));
  ASSERT_EQ(::mkfifo((planted("fifo") + "/lock").c_str(), 0600), 0);
  std::filesystem::create_directory(planted("dead"));
  std::ofstream(planted("dead") + "/lock") << "";
  std::filesystem::create_directory_symlink(other.path(), planted("dead") + "/0");

  sweep_scratch(posix_file_ops(), dir.path());
  EXPECT_EQ(other.harm(), "");
  EXPECT_FALSE(std::filesystem::exists(planted("dead")));
  EXPECT_TRUE(std::filesystem::is_symlink(planted("link")));
}

TEST(ScratchDirectoryTest, any_single_fault_leaves_nothing_behind) {
  for (const int error : {EIO, ENOSPC, EINTR}) {
    bool fired = true;
    for (int fault = 0; fired; ++fault) {
      SCOPED_TRACE(fault);
      const TempDir dir;
      FaultyFileOps ops(posix_file_ops(), fault, error);
      {
        const Result<ScratchDirectory> scratch = ScratchDirectory::create(ops, dir.path());
        fired = ops.fired();
        EXPECT_EQ(scratch.ok(), !fired);
        EXPECT_EQ(scratch.status().os_error(), fired ? error : 0);
        if (!fired) break;  // and its removal is the next test's
      }
      // list() itself may have been failed, which keeps the clean-up from finding its files; what
      // stays then is one empty directory that the error message names.
      if (ops.failed_op() != "list") {
        EXPECT_EQ(dir.entry_count(), 0) << ops.failed_op();
      }
    }
  }
}

TEST(ScratchDirectoryTest, what_a_failed_removal_leaves_is_swept_by_the_next_run) {
  for (const int error : {EIO, ENOSPC, EINTR}) {
    bool fired = true;
    bool was_removal = false;
    for (int fault = 0; fired; ++fault) {
      const TempDir dir;
      FaultyFileOps ops(posix_file_ops(), fault, error, FaultyFileOps::Removals::counted);
      {
        const Result<ScratchDirectory> scratch = ScratchDirectory::create(ops, dir.path());
        if (!scratch.ok()) continue;  // the test above
        for (const char* name : {"/0", "/1"}) std::ofstream(scratch->path() + name) << name;
      }
      fired = ops.fired();
      SCOPED_TRACE(ops.failed_op());
      sweep_scratch(posix_file_ops(), dir.path());
      // Without its lock the directory is nobody's, and empty.
      EXPECT_EQ(dir.entry_count(), ops.failed_op() == "rmdir" ? 1 : 0);
      was_removal |= ops.failed_op() == "unlink" || ops.failed_op() == "rmdir";
      ASSERT_LT(fault, 50);
    }
    EXPECT_TRUE(was_removal) << "no fault reached the removal";
  }
}

TEST(ScratchFileTest, any_single_fault_fails_its_creation) {
  for (const int error : {EIO, ENOSPC, EINTR}) {
    bool fired = true;
    for (int fault = 0; fired; ++fault) {
      const TempDir dir;
      FaultyFileOps ops(posix_file_ops(), fault, error, FaultyFileOps::Removals::counted);
      const Result<ScratchFile> scratch =
          ScratchFile::create(ops, dir.path(), {.policy = CachePolicy::buffered});
      fired = ops.fired();
      EXPECT_EQ(scratch.status().os_error(), fired ? error : 0) << ops.failed_op();
      EXPECT_EQ(dir.entry_count(), ops.failed_op() == "unlink" ? 1 : 0);
      ASSERT_LT(fault, 50);
    }
  }
}

TEST(CheckRoomTest, too_little_room_is_refused_with_what_to_change) {
  const TempDir dir;
  EXPECT_TRUE(check_room(dir.path(), 4096, "--size").ok());
  const Result<std::uint64_t> free_bytes = free_bytes_of(dir.path());
  ASSERT_TRUE(free_bytes.ok());
  const Status status = check_room(dir.path(), *free_bytes + 1, "--size");
  EXPECT_EQ(status.code(), Code::no_space);
  for (const char* part : {"free", "--size", "another directory"})
    EXPECT_NE(status.message().find(part), std::string_view::npos) << status.message();
  EXPECT_EQ(check_room(dir.path(), ~std::uint64_t{0}, "--size").code(), Code::no_space);
}

TEST(CheckRoomTest, path_that_is_no_directory_is_misuse) {
  const TempDir dir;
  std::ofstream(dir.file("file")) << "x";
  EXPECT_EQ(check_room(dir.file("file"), 1, "--size").code(), Code::invalid_argument);
  EXPECT_EQ(check_room(dir.file("nothing"), 1, "--size").code(), Code::not_found);
}

}  // namespace
}  // namespace stoker
