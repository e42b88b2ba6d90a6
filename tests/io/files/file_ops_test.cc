#include "io/files/file_ops.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/temp_dir.h"

namespace stoker {
namespace {

class FileOpsTest : public ::testing::Test {
 protected:
  FileOps& ops_ = posix_file_ops();
  testing::TempDir dir_;
};

TEST_F(FileOpsTest, a_link_says_where_it_points_and_nothing_else_does) {
  ASSERT_TRUE(ops_.symlink("step-7", dir_.file("latest")).ok());
  const Result<std::string> target = ops_.read_link(dir_.file("latest"));
  ASSERT_TRUE(target.ok()) << target.status().message();
  EXPECT_EQ(*target, "step-7");
  EXPECT_EQ(ops_.read_link(dir_.path()).status().code(), Code::invalid_argument);
  EXPECT_EQ(ops_.read_link(dir_.file("none")).status().code(), Code::not_found);
}

TEST_F(FileOpsTest, the_kind_of_a_name_is_told_without_following_it) {
  ASSERT_TRUE(ops_.mkdir(dir_.file("d")).ok());
  ASSERT_TRUE(ops_.symlink("d", dir_.file("l")).ok());
  ASSERT_TRUE(ops_.open(dir_.file("f"), O_WRONLY | O_CREAT).ok());
  EXPECT_EQ(*ops_.kind_of(dir_.file("d")), FileKind::directory);
  EXPECT_EQ(*ops_.kind_of(dir_.file("l")), FileKind::symlink);
  EXPECT_EQ(*ops_.kind_of(dir_.file("f")), FileKind::regular);
  EXPECT_EQ(*ops_.kind_of("/dev/null"), FileKind::other);
  EXPECT_EQ(ops_.kind_of(dir_.file("none")).status().code(), Code::not_found);
}

TEST_F(FileOpsTest, a_file_can_be_closed_to_writers) {
  const Result<UniqueFd> fd = ops_.open(dir_.file("f"), O_WRONLY | O_CREAT);
  ASSERT_TRUE(fd.ok());
  ASSERT_TRUE(ops_.fchmod(fd->get(), 0444).ok());
  struct stat info{};
  ASSERT_EQ(::fstat(fd->get(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0444U);
}

}  // namespace
}  // namespace stoker
