#include "io/files/directories.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "io/files/forwarding_file_ops.h"
#include "io/files/lock_file.h"
#include "support/bystander.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

namespace fs = std::filesystem;

TEST(DirectoriesTest, a_tree_is_removed_and_links_in_it_are_not_followed) {
  const TempDir dir;
  const Bystander other;
  fs::create_directories(dir.file("tree/a/b"));
  std::ofstream(dir.file("tree/a/file")) << "x";
  fs::create_symlink(other.path(), dir.file("tree/a/link"));
  fs::create_symlink(other.file(), dir.file("tree/link"));
  ASSERT_EQ(::mkfifo(dir.file("tree/fifo").c_str(), 0600), 0);
  EXPECT_TRUE(remove_tree(posix_file_ops(), dir.file("tree")).ok());
  EXPECT_EQ(dir.entry_count(), 0);
  EXPECT_EQ(other.harm(), "");
  EXPECT_TRUE(remove_tree(posix_file_ops(), dir.file("tree")).ok()) << "gone already";
  EXPECT_TRUE(remove_tree(posix_file_ops(), dir.file("no/such/tree")).ok());
}

TEST(DirectoriesTest, a_link_to_a_tree_is_removed_and_the_tree_is_not) {
  const TempDir dir;
  const Bystander other;
  fs::create_symlink(other.path(), dir.file("link"));
  EXPECT_TRUE(remove_tree(posix_file_ops(), dir.file("link")).ok());
  EXPECT_EQ(dir.entry_count(), 0);
  EXPECT_EQ(other.harm(), "");
}

/// Whoever waits for the right moment: when the kind of a name has been asked for, a link has it.
class SwapsForLink final : public ForwardingFileOps {
 public:
  SwapsForLink(std::string name, std::string target)
      : ForwardingFileOps(posix_file_ops()), name_(std::move(name)), target_(std::move(target)) {}

  Result<FileInfo> info_of(const PathAt& path) override {
    Result<FileInfo> info = ForwardingFileOps::info_of(path);
    if (info.ok() && path.text().ends_with(name_)) {
      fs::rename(path.text(), path.text() + ".moved");
      fs::create_symlink(target_, path.text());
    }
    return info;
  }

 private:
  std::string name_;
  std::string target_;
};

TEST(DirectoriesTest, a_tree_that_becomes_a_link_while_it_is_removed_leads_nowhere) {
  const TempDir dir;
  const Bystander other;
  fs::create_directories(dir.file("tree/a"));
  SwapsForLink ops("/tree", other.path());
  EXPECT_FALSE(remove_tree(ops, dir.file("tree")).ok());
  EXPECT_TRUE(fs::is_symlink(dir.file("tree")));
  EXPECT_EQ(other.harm(), "");
}

TEST(DirectoriesTest, a_directory_of_our_own_is_made_or_taken_but_not_through_a_link) {
  const TempDir dir;
  const Bystander other;
  FileOps& ops = posix_file_ops();
  EXPECT_TRUE(make_own_directory(ops, dir.file("own")).ok());
  EXPECT_TRUE(make_own_directory(ops, dir.file("own")).ok());
  fs::create_symlink(other.path(), dir.file("link"));
  fs::create_symlink(other.file("none"), dir.file("dangling"));
  std::ofstream(dir.file("file")) << "x";
  for (const char* name : {"link", "dangling", "file"}) {
    const Status status = make_own_directory(ops, dir.file(name));
    EXPECT_EQ(status.code(), Code::invalid_argument) << name;
    EXPECT_NE(status.message().find(dir.file(name)), std::string_view::npos);
  }
  EXPECT_EQ(other.harm(), "");
}

TEST(LockFileTest, is_created_once_and_never_changed) {
  const TempDir dir;
  const std::string path = dir.file("lock");
  Result<UniqueFd> fd = open_lock_file(posix_file_ops(), path);
  ASSERT_TRUE(fd.ok()) << fd.status().message();
  EXPECT_EQ(::fcntl(fd->get(), F_GETFL) & O_ACCMODE, O_RDWR) << "NFS wants that";
  std::ofstream(path) << "not to be truncated";
  EXPECT_TRUE(open_lock_file(posix_file_ops(), path).ok());
  EXPECT_EQ(contents_of(path), "not to be truncated");
}

TEST(LockFileTest, nothing_but_a_regular_file_is_a_lock) {
  const TempDir dir;
  const Bystander other;
  fs::create_symlink(other.file(), dir.file("link"));
  fs::create_symlink(other.file("none"), dir.file("dangling"));
  fs::create_directory(dir.file("directory"));
  ASSERT_EQ(::mkfifo(dir.file("fifo").c_str(), 0600), 0);
  ASSERT_EQ(::mknod(dir.file("socket").c_str(), S_IFSOCK | 0600, 0), 0);
  for (const char* name : {"link", "dangling", "directory", "fifo", "socket"}) {
    const Status status = open_lock_file(posix_file_ops(), dir.file(name)).status();
    EXPECT_EQ(status.code(), Code::invalid_argument) << name << ": " << status.message();
  }
  EXPECT_EQ(other.harm(), "");
}

}  // namespace
}  // namespace stoker::testing
