#include "io/files/publish.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "support/faulty_file_ops.h"
#include "support/in_child.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::ChildEnd;
using testing::contents_of;
using testing::FaultyFileOps;
using testing::in_child;

/// Ends the process, as a power switch would, at one named crash point.
class CrashingFileOps final : public FaultyFileOps {
 public:
  explicit CrashingFileOps(std::string point)
      : FaultyFileOps(posix_file_ops(), kNever, 0), point_(std::move(point)) {}
  void reached(std::string_view crash_point) override {
    if (crash_point == point_) ::kill(::getpid(), SIGKILL);
  }

 private:
  const std::string point_;
};

/// A filesystem that refuses RENAME_NOREPLACE, as NFS does.
class NfsLikeFileOps final : public FaultyFileOps {
 public:
  explicit NfsLikeFileOps(int fail_at = kNever, int os_error = 0)
      : FaultyFileOps(posix_file_ops(), fail_at, os_error, Removals::counted) {}
  Status rename_noreplace(const PathAt&, const PathAt&) override {
    return Status(Code::unsupported, "RENAME_NOREPLACE", EINVAL);
  }
};

class PublishTest : public ::testing::Test {
 protected:
  Status publish(FileOps& ops, std::string_view text) const {
    return publish_file(ops, path_, std::as_bytes(std::span(text)));
  }
  /// A staged directory with a file, a nested file and a symbolic link.
  std::string stage() const {
    const std::string staged = dir_.file("staged");
    std::filesystem::create_directories(staged + "/nested");
    std::ofstream(staged + "/a") << "one";
    std::ofstream(staged + "/nested/b") << "two";
    std::filesystem::create_symlink("a", staged + "/link");
    return staged;
  }
  static bool is_whole(const std::string& path) {
    return contents_of(path + "/a") == "one" && contents_of(path + "/nested/b") == "two" &&
           std::filesystem::is_symlink(path + "/link");
  }

  testing::TempDir dir_;
  const std::string path_ = dir_.file("manifest");
};

// Fails each file operation in turn until none is left to fail, and checks after every one that a
// reader would find the old manifest or the new one, whole.
TEST_F(PublishTest, any_single_fault_leaves_the_old_file_or_the_new_one) {
  constexpr int kOperations = 8;  // open, 3 short writes, fsync, close, rename, fsync_dir
  for (const int error : {EIO, ENOSPC}) {
    for (int fault = 0; fault <= kOperations; ++fault) {
      SCOPED_TRACE(fault);
      ASSERT_TRUE(publish(posix_file_ops(), "old").ok());

      FaultyFileOps ops(posix_file_ops(), /*fail_at=*/fault, error);
      const Status status = publish(ops, "new!");

      EXPECT_EQ(ops.fired(), fault < kOperations);
      EXPECT_EQ(status.os_error(), ops.fired() ? error : 0) << status.message();
      EXPECT_EQ(contents_of(path_), fault < kOperations - 1 ? "old" : "new!");
      EXPECT_EQ(dir_.entry_count(), 1) << "a staging file was left behind";
    }
  }
}

TEST_F(PublishTest, an_interrupted_write_goes_on_and_an_interrupted_fsync_does_not) {
  for (int fault = 0; fault <= 7; ++fault) {
    ASSERT_TRUE(publish(posix_file_ops(), "old").ok());
    FaultyFileOps ops(posix_file_ops(), fault, EINTR);
    const Status status = publish(ops, "new!");
    ASSERT_TRUE(ops.fired());
    EXPECT_EQ(status.ok(), ops.failed_op() == "pwrite") << ops.failed_op();
    EXPECT_EQ(dir_.entry_count(), 1);
  }
}

TEST_F(PublishTest, staging_files_of_a_killed_process_with_the_same_number_are_no_obstacle) {
  const ChildEnd end = in_child([&] {
    for (int n = 0; n < 50; ++n) {
      std::ofstream(path_ + ".staged-" + std::to_string(::getpid()) + "-" + std::to_string(n))
          << "x";
    }
    return publish(posix_file_ops(), "new!").ok() ? 0 : 1;
  });
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(contents_of(path_), "new!");
  EXPECT_EQ(dir_.entry_count(), 51) << "what belongs to another process is not removed";
}

TEST_F(PublishTest, a_full_disk_reports_no_space_and_keeps_the_old_file) {
  ASSERT_TRUE(publish(posix_file_ops(), "old").ok());
  FaultyFileOps ops(posix_file_ops(), /*fail_at=*/1, ENOSPC);
  EXPECT_EQ(publish(ops, "new!").code(), Code::no_space);
  EXPECT_EQ(contents_of(path_), "old");
}

TEST_F(PublishTest, a_path_without_directory_publishes_into_the_current_one) {
  const ChildEnd end = in_child([&] {  // the current directory belongs to the process
    if (::chdir(dir_.path().c_str()) != 0) return 1;
    return publish_file(posix_file_ops(), "manifest", {}).ok() ? 0 : 2;
  });
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(PublishTest, a_kill_at_any_crash_point_leaves_the_old_file_or_the_new_one) {
  const std::pair<const char*, const char*> expected[] = {{"publish_file.staged", "old"},
                                                          {"publish_file.synced", "old"},
                                                          {"publish_file.switched", "new!"},
                                                          {"publish_file.durable", "new!"}};
  for (const auto& [point, contents] : expected) {
    ASSERT_TRUE(publish(posix_file_ops(), "old").ok());
    const ChildEnd end = in_child([&, name = point] {
      CrashingFileOps ops(name);
      return publish(ops, "new!").ok() ? 0 : 1;
    });
    EXPECT_EQ(end.signal, SIGKILL) << point << " was never reached";
    EXPECT_EQ(contents_of(path_), contents) << point;
  }
}

TEST_F(PublishTest, two_publishers_of_one_path_do_not_share_a_staging_file) {
  // Both are in the middle when the other one runs: the inner publish happens at a crash point.
  class Nested final : public FaultyFileOps {
   public:
    explicit Nested(std::string path)
        : FaultyFileOps(posix_file_ops(), kNever, 0), path_(std::move(path)) {}
    void reached(std::string_view point) override {
      constexpr std::string_view kInner = "inner";
      if (point == "publish_file.staged")
        inner_ = publish_file(posix_file_ops(), path_, std::as_bytes(std::span(kInner)));
    }
    Status inner_;

   private:
    const std::string path_;
  } ops(path_);
  EXPECT_TRUE(publish(ops, "outer").ok());
  EXPECT_TRUE(ops.inner_.ok()) << ops.inner_.message();
  EXPECT_EQ(contents_of(path_), "outer");
  EXPECT_EQ(dir_.entry_count(), 1);
}

TEST_F(PublishTest, a_file_that_must_be_new_never_replaces_one) {
  constexpr std::string_view kText = "new!";
  NfsLikeFileOps nfs_like;
  for (FileOps* ops : {&posix_file_ops(), static_cast<FileOps*>(&nfs_like)}) {
    const auto publish_new = [&] {
      return publish_file(*ops, path_, std::as_bytes(std::span(kText)), IfExists::fail);
    };
    ASSERT_TRUE(publish(posix_file_ops(), "old").ok());
    EXPECT_EQ(publish_new().code(), Code::already_exists);
    EXPECT_EQ(contents_of(path_), "old");
    EXPECT_EQ(dir_.entry_count(), 1) << "a staging file was left behind";
    std::filesystem::remove(path_);
    EXPECT_TRUE(publish_new().ok());
    EXPECT_EQ(contents_of(path_), "new!");
    EXPECT_EQ(dir_.entry_count(), 1);
  }
}

TEST_F(PublishTest, any_single_fault_leaves_a_new_file_whole_or_absent) {
  constexpr std::string_view kText = "new!";
  const auto sweep = [&](int error,
                         const std::function<std::unique_ptr<FaultyFileOps>(int)>& make) {
    bool fired = true;
    for (int fault = 0; fired; ++fault) {
      const testing::TempDir dir;
      const std::string path = dir.file("manifest");
      const std::unique_ptr<FaultyFileOps> ops = make(fault);
      const Status status =
          publish_file(*ops, path, std::as_bytes(std::span(kText)), IfExists::fail);
      fired = ops->fired();
      const std::string op = ops->failed_op();
      SCOPED_TRACE(std::to_string(error) + " at " + op);
      // A second name that stays is nobody's; a write that was interrupted continues.
      const bool harmless = !fired || op == "unlink" || (error == EINTR && op == "pwrite");
      EXPECT_EQ(status.os_error(), harmless ? 0 : error) << status.message();
      const bool is_there = harmless || op == "fsync_dir";
      EXPECT_EQ(contents_of(path), is_there ? "new!" : "");
      EXPECT_EQ(dir.entry_count(), op == "unlink" ? 2 : is_there ? 1 : 0);
      ASSERT_LT(fault, 50);
    }
  };
  for (const int error : {EIO, ENOSPC, EINTR}) {
    sweep(error, [&](int fault) {
      return std::make_unique<FaultyFileOps>(posix_file_ops(), fault, error,
                                             FaultyFileOps::Removals::counted);
    });
    sweep(error, [&](int fault) { return std::make_unique<NfsLikeFileOps>(fault, error); });
  }
}

TEST_F(PublishTest, a_directory_appears_whole_under_its_final_name) {
  const std::string staged = stage();
  const std::string final_path = dir_.file("step-1");
  ASSERT_TRUE(publish_directory(posix_file_ops(), staged, final_path).ok());
  EXPECT_TRUE(is_whole(final_path));
  EXPECT_FALSE(std::filesystem::exists(staged));
}

TEST_F(PublishTest, a_directory_never_replaces_one_that_is_there) {
  const std::string final_path = dir_.file("step-1");
  std::filesystem::create_directories(final_path);
  std::ofstream(final_path + "/precious") << "x";
  NfsLikeFileOps nfs_like;
  for (FileOps* ops : {&posix_file_ops(), static_cast<FileOps*>(&nfs_like)}) {
    const std::string staged = stage();
    EXPECT_EQ(publish_directory(*ops, staged, final_path).code(), Code::already_exists);
    EXPECT_EQ(contents_of(final_path + "/precious"), "x");
    EXPECT_TRUE(is_whole(staged));
    std::filesystem::remove_all(staged);
  }
}

TEST_F(PublishTest, a_filesystem_without_noreplace_still_publishes) {
  NfsLikeFileOps ops;
  ASSERT_TRUE(publish_directory(ops, stage(), dir_.file("step-1")).ok());
  EXPECT_TRUE(is_whole(dir_.file("step-1")));
}

TEST_F(PublishTest, any_single_fault_leaves_the_directory_staged_or_published) {
  const std::string final_path = dir_.file("step-1");
  for (const int error : {EIO, ENOSPC, EINTR}) {
    bool finished = false;
    for (int fault = 0; !finished; ++fault) {
      const std::string staged = stage();
      FaultyFileOps ops(posix_file_ops(), fault, error);
      const Status status = publish_directory(ops, staged, final_path);
      finished = !ops.fired();
      EXPECT_EQ(status.os_error(), finished ? 0 : error) << ops.failed_op();
      const bool renamed = std::filesystem::exists(final_path);
      EXPECT_NE(renamed, std::filesystem::exists(staged));
      EXPECT_TRUE(is_whole(renamed ? final_path : staged));
      std::filesystem::remove_all(final_path);
      std::filesystem::remove_all(staged);
      ASSERT_LT(fault, 100);
    }
  }
}

TEST_F(PublishTest, a_kill_at_any_crash_point_leaves_the_directory_staged_or_published) {
  const std::string final_path = dir_.file("step-1");
  for (const auto& [point, published] : {std::pair{"publish_directory.synced", false},
                                         {"publish_directory.renamed", true},
                                         {"publish_directory.durable", true}}) {
    const std::string staged = stage();
    const ChildEnd end = in_child([&, name = point] {
      CrashingFileOps ops(name);
      return publish_directory(ops, staged, final_path).ok() ? 0 : 1;
    });
    EXPECT_EQ(end.signal, SIGKILL) << point << " was never reached";
    EXPECT_TRUE(is_whole(published ? final_path : staged)) << point;
    std::filesystem::remove_all(final_path);
    std::filesystem::remove_all(staged);
  }
}

TEST_F(PublishTest, a_read_only_directory_is_denied_to_an_ordinary_user) {
  std::filesystem::permissions(dir_.path(), std::filesystem::perms(0755));
  const ChildEnd end = testing::in_child_as_nobody(
      [&] { return publish(posix_file_ops(), "x").code() == Code::denied ? 0 : 1; });
  if (end.exit_code == testing::kNotRoot) GTEST_SKIP() << "needs root to become nobody";
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(dir_.entry_count(), 0);
}

}  // namespace
}  // namespace stoker
