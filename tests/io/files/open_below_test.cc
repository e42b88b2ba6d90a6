#include "io/files/open_below.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>

#include "io/files/file_ops.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

/// A directory with a file and a folder, links out of it, and something outside to be kept.
class OpenBelowTest : public ::testing::TestWithParam<LookupBelow> {
 protected:
  OpenBelowTest() {
    fs::create_directories(dir_.file("root/folder/inner"));
    fs::create_directory(dir_.file("outside"));
    std::ofstream(dir_.file("outside/kept")) << "kept";
    std::ofstream(dir_.file("root/file")) << "a";
    std::ofstream(dir_.file("root/folder/inner/file")) << "b";
    fs::create_symlink("../outside", dir_.file("root/link"));
    fs::create_symlink("../outside/kept", dir_.file("root/file_link"));
    fs::create_symlink("folder", dir_.file("root/inner_link"));
    root_ = UniqueFd(::open(dir_.file("root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }

  int error_of(std::string_view name, int flags = O_RDONLY) const {
    const Result<UniqueFd> fd = open_below(root_.get(), name, flags, GetParam());
    return fd.ok() ? 0 : fd.status().os_error();
  }

  const testing::TempDir dir_;
  UniqueFd root_;
};

TEST_P(OpenBelowTest, finds_what_is_in_the_directory) {
  EXPECT_EQ(error_of("file"), 0);
  EXPECT_EQ(error_of("folder/inner/file"), 0);
  EXPECT_EQ(error_of("", O_RDONLY | O_DIRECTORY), 0);
  EXPECT_EQ(error_of("none"), ENOENT);
  EXPECT_EQ(error_of("none/file"), ENOENT);
  EXPECT_EQ(error_of("file/inner"), ENOTDIR);
  EXPECT_EQ(error_of("folder/new", O_WRONLY | O_CREAT | O_EXCL), 0);
  EXPECT_EQ(error_of("folder/new", O_WRONLY | O_CREAT | O_EXCL), EEXIST);
}

TEST_P(OpenBelowTest, follows_no_link_wherever_it_leads) {
  EXPECT_EQ(error_of("link/kept"), ELOOP);
  EXPECT_EQ(error_of("file_link"), ELOOP);
  EXPECT_EQ(error_of("inner_link/inner/file"), ELOOP) << "not even one that stays inside";
  EXPECT_EQ(error_of("file_link", O_WRONLY | O_CREAT | O_EXCL), EEXIST);
  EXPECT_EQ(error_of("link/made", O_WRONLY | O_CREAT | O_EXCL), ELOOP);
  EXPECT_FALSE(fs::exists(dir_.file("outside/made")));
}

TEST_P(OpenBelowTest, leads_nowhere_outside) {
  for (const char* name :
       {"..", "../outside/kept", "folder/../file", "/etc/passwd", ".", "a//b", "folder/", "/"})
    EXPECT_EQ(error_of(name), EINVAL) << name;
}

INSTANTIATE_TEST_SUITE_P(Lookups, OpenBelowTest,
                         ::testing::Values(LookupBelow::automatic, LookupBelow::by_components),
                         [](const auto& named) {
                           return named.param == LookupBelow::automatic ? "automatic"
                                                                        : "by_components";
                         });

/// Every call of FileOps below a root in which one name is a link to a directory outside.
class CallsBelowTest : public ::testing::Test {
 protected:
  CallsBelowTest() {
    fs::create_directories(dir_.file("root/real"));
    fs::create_directory(dir_.file("outside"));
    std::ofstream(dir_.file("outside/kept")) << "kept";
    std::ofstream(dir_.file("root/real/file")) << "a";
    fs::create_symlink("../outside", dir_.file("root/link"));
    root_ = std::make_shared<const RootDirectory>(RootDirectory{
        .path = dir_.file("root"),
        .fd = UniqueFd(::open(dir_.file("root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC))});
  }
  PathAt at(std::string_view name) const { return {root_, name}; }

  const testing::TempDir dir_;
  FileOps& ops_ = posix_file_ops();
  std::shared_ptr<const RootDirectory> root_;
};

TEST_F(CallsBelowTest, none_reads_writes_or_removes_through_a_link) {
  const PathAt kept = at("link/kept");
  const PathAt made = at("link/made");
  const PathAt file = at("real/file");
  EXPECT_EQ(ops_.open(kept, O_RDONLY).status().os_error(), ELOOP);
  EXPECT_EQ(ops_.open(made, O_WRONLY | O_CREAT | O_EXCL).status().os_error(), ELOOP);
  EXPECT_EQ(ops_.rename(file, made).os_error(), ELOOP);
  EXPECT_EQ(ops_.rename(kept, at("real/taken")).os_error(), ELOOP);
  EXPECT_EQ(ops_.rename_noreplace(file, made).os_error(), ELOOP);
  EXPECT_EQ(ops_.link(kept, at("real/linked")).os_error(), ELOOP);
  EXPECT_EQ(ops_.link(file, made).os_error(), ELOOP);
  EXPECT_EQ(ops_.symlink("x", made).os_error(), ELOOP);
  EXPECT_EQ(ops_.read_link(kept).status().os_error(), ELOOP);
  EXPECT_EQ(ops_.info_of(kept).status().os_error(), ELOOP);
  EXPECT_EQ(ops_.unlink(kept).os_error(), ELOOP);
  EXPECT_EQ(ops_.mkdir(made).os_error(), ELOOP);
  EXPECT_EQ(ops_.rmdir(made).os_error(), ELOOP);
  EXPECT_EQ(ops_.list_names(at("link")).status().os_error(), ELOOP);
  EXPECT_EQ(ops_.fsync_dir(at("link")).os_error(), ELOOP);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_.file("outside")), {}), 1);
  EXPECT_EQ(testing::contents_of(dir_.file("outside/kept")), "kept");
}

TEST_F(CallsBelowTest, a_link_itself_is_seen_as_one_and_can_be_replaced_or_removed) {
  EXPECT_EQ(*ops_.kind_of(at("link")), FileKind::symlink);
  EXPECT_EQ(*ops_.read_link(at("link")), "../outside");
  ASSERT_TRUE(ops_.symlink("real", at("next")).ok());
  ASSERT_TRUE(ops_.rename(at("next"), at("link")).ok());
  EXPECT_EQ(*ops_.read_link(at("link")), "real");
  ASSERT_TRUE(ops_.unlink(at("link")).ok());
  EXPECT_TRUE(fs::exists(dir_.file("outside/kept")));
}

TEST_F(CallsBelowTest, the_root_is_the_directory_that_was_opened_whatever_becomes_of_its_name) {
  fs::rename(dir_.file("root"), dir_.file("moved"));
  fs::create_directory(dir_.file("root"));
  ASSERT_TRUE(ops_.mkdir(at("made")).ok());
  EXPECT_TRUE(fs::exists(dir_.file("moved/made")));
  EXPECT_FALSE(fs::exists(dir_.file("root/made")));
}

TEST_F(CallsBelowTest, names_come_with_their_kinds_and_inodes) {
  ASSERT_EQ(::mkfifo(dir_.file("root/pipe").c_str(), 0600), 0);
  const Result<std::vector<DirectoryName>> names = ops_.list_names(at(""));
  ASSERT_TRUE(names.ok());
  ASSERT_EQ(names->size(), 3U);
  EXPECT_EQ(names->at(0).kind, FileKind::symlink);
  EXPECT_EQ(names->at(1).kind, FileKind::other);
  EXPECT_EQ(names->at(2).kind, FileKind::directory);
  EXPECT_EQ(names->at(2).inode, ops_.info_of(at("real"))->inode);
  EXPECT_EQ(ops_.info_of(at(""))->kind, FileKind::directory);
}

TEST(PathAtTest, knows_its_parts) {
  EXPECT_EQ(PathAt("a/b").parent().text(), "a");
  EXPECT_EQ(PathAt("/a").parent().text(), "/");
  EXPECT_EQ(PathAt("a").parent().text(), ".");
  EXPECT_EQ((PathAt("a") / "b").text(), "a/b");
  EXPECT_EQ(PathAt("a/b").last(), "b");
  const auto root = std::make_shared<const RootDirectory>(RootDirectory{.path = "r", .fd = {}});
  const PathAt below(root, "x/y");
  EXPECT_EQ(below.text(), "r/x/y");
  EXPECT_EQ(below.name(), "x/y");
  EXPECT_EQ(below.parent().name(), "x");
  EXPECT_EQ(below.parent().parent().name(), "");
  EXPECT_EQ((PathAt(root, "") / "z").name(), "z");
}

}  // namespace
}  // namespace stoker
