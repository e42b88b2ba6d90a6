// What the model disk takes at a power cut, and what it must not take.
#include "support/model_disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>

#include "io/files/file.h"
#include "support/model_disk_text.h"

namespace stoker::testing {
namespace {

constexpr const char* kAbsent = "(absent)";

class ModelDiskTest : public ::testing::Test {
 protected:
  /// What the file may hold after a cut now.
  std::set<std::string> outcomes(const std::string& path, const CutOptions& options = {}) const {
    std::set<std::string> texts;
    for (const CutState& state : disk_.cut(options)) {
      ModelDisk after(state.disk);
      texts.insert(text_of(after, path).value_or(kAbsent));
    }
    return texts;
  }
  void write_durably(const std::string& path, std::string_view text) {
    ASSERT_TRUE(write_text(disk_, path, text).ok());
    ASSERT_TRUE(sync_file(disk_, path).ok());
    ASSERT_TRUE(disk_.fsync_dir("/").ok());
  }
  using Set = std::set<std::string>;

  ModelDisk disk_;
};

TEST_F(ModelDiskTest, what_was_never_synced_may_be_there_or_not) {
  ASSERT_TRUE(write_text(disk_, "/f", "new").ok());
  EXPECT_EQ(outcomes("/f"), (Set{kAbsent, "", "new", std::string(3, '\0')}));
}

TEST_F(ModelDiskTest, a_synced_file_keeps_its_bytes_and_may_lose_its_name) {
  ASSERT_TRUE(write_text(disk_, "/f", "new").ok());
  ASSERT_TRUE(sync_file(disk_, "/f").ok());
  EXPECT_EQ(outcomes("/f"), (Set{kAbsent, "new"}));
  ASSERT_TRUE(disk_.fsync_dir("/").ok());
  EXPECT_EQ(outcomes("/f"), Set{"new"});
}

TEST_F(ModelDiskTest, a_synced_directory_keeps_the_name_and_may_lose_the_bytes) {
  ASSERT_TRUE(write_text(disk_, "/f", "new").ok());
  ASSERT_TRUE(disk_.fsync_dir("/").ok());
  EXPECT_EQ(outcomes("/f"), (Set{"", "new", std::string(3, '\0')}));
}

TEST_F(ModelDiskTest, each_block_is_lost_by_itself) {
  const std::string a(kModelBlockBytes, 'a');
  const std::string b(kModelBlockBytes, 'b');
  write_durably("/f", a + a);
  ASSERT_TRUE(write_text(disk_, "/f", b + b).ok());
  const Set found = outcomes("/f");
  for (const std::string& text : {a + a, a + b, b + a, b + b}) EXPECT_TRUE(found.contains(text));
  EXPECT_EQ(found.size(), 9U) << "old, new and torn for both blocks";
}

TEST_F(ModelDiskTest, a_block_written_twice_may_be_as_it_was_in_between) {
  write_durably("/f", "one");
  ASSERT_TRUE(write_text(disk_, "/f", "two").ok());
  ASSERT_TRUE(write_text(disk_, "/f", "six").ok());
  EXPECT_EQ(outcomes("/f"), (Set{"one", "two", "six"}));
}

TEST_F(ModelDiskTest, a_truncated_file_may_be_long_and_one_that_grew_may_be_short_or_hollow) {
  write_durably("/f", "abcdef");
  const Result<UniqueFd> fd = disk_.open("/f", O_RDWR);
  ASSERT_TRUE(disk_.ftruncate(fd->get(), 2).ok());
  EXPECT_EQ(outcomes("/f"), (Set{"ab", "abcdef", std::string("ab\0\0\0\0", 6)}));
  ASSERT_TRUE(disk_.fdatasync(fd->get()).ok());
  EXPECT_EQ(outcomes("/f"), Set{"ab"});
  ASSERT_TRUE(disk_.fallocate(fd->get(), 4).ok());
  EXPECT_EQ(outcomes("/f"), (Set{"ab", std::string("ab\0\0", 4)}));
}

TEST_F(ModelDiskTest, a_rename_is_undone_or_done_and_never_both) {
  write_durably("/a", "moved");
  write_durably("/b", "old");
  ASSERT_TRUE(disk_.rename("/a", "/b").ok());
  EXPECT_EQ(disk_.cut().size(), 2U);
  EXPECT_EQ(outcomes("/a"), (Set{kAbsent, "moved"}));
  EXPECT_EQ(outcomes("/b"), (Set{"old", "moved"}));
  ASSERT_TRUE(disk_.fsync_dir("/").ok());
  EXPECT_EQ(outcomes("/b"), Set{"moved"});
}

TEST_F(ModelDiskTest, a_rename_between_directories_waits_for_both) {
  ASSERT_TRUE(disk_.mkdir("/from").ok());
  ASSERT_TRUE(disk_.mkdir("/to").ok());
  write_durably("/from/f", "x");
  ASSERT_TRUE(disk_.fsync_dir("/from").ok());
  ASSERT_TRUE(disk_.rename("/from/f", "/to/f").ok());
  ASSERT_TRUE(disk_.fsync_dir("/to").ok());
  EXPECT_EQ(disk_.cut().size(), 2U);
  EXPECT_EQ(outcomes("/to/f"), (Set{kAbsent, "x"}));
  ASSERT_TRUE(disk_.fsync_dir("/from").ok());
  EXPECT_EQ(outcomes("/to/f"), Set{"x"});
}

TEST_F(ModelDiskTest, names_of_one_directory_are_lost_in_any_subset) {
  write_durably("/a", "a");
  write_durably("/b", "b");
  ASSERT_TRUE(disk_.unlink("/a").ok());
  ASSERT_TRUE(disk_.link("/b", "/c").ok());
  EXPECT_EQ(disk_.cut().size(), 4U);
  ASSERT_TRUE(disk_.unlink("/c").ok());
  EXPECT_EQ(disk_.cut().size(), 4U) << "the name c goes only after it has come";
}

TEST_F(ModelDiskTest, a_directory_whose_name_is_lost_takes_along_what_it_holds) {
  ASSERT_TRUE(disk_.mkdir("/d").ok());
  ASSERT_TRUE(write_text(disk_, "/d/f", "x").ok());
  ASSERT_TRUE(sync_file(disk_, "/d/f").ok());
  ASSERT_TRUE(disk_.fsync_dir("/d").ok());
  EXPECT_EQ(outcomes("/d/f"), (Set{kAbsent, "x"}));
  ASSERT_TRUE(disk_.fsync_dir("/").ok());
  EXPECT_EQ(outcomes("/d/f"), Set{"x"});
}

TEST_F(ModelDiskTest, a_removed_directory_was_empty) {
  ASSERT_TRUE(disk_.mkdir("/d").ok());
  write_durably("/d/f", "x");
  ASSERT_TRUE(disk_.fsync_dir("/d").ok());
  EXPECT_EQ(disk_.rmdir("/d").os_error(), ENOTEMPTY);
  ASSERT_TRUE(disk_.rename("/d/f", "/f").ok());
  ASSERT_TRUE(disk_.rmdir("/d").ok());
  for (const CutState& state : disk_.cut()) {
    ModelDisk after(state.disk);
    EXPECT_NE(text_of(after, "/f").has_value(), text_of(after, "/d/f").has_value()) << state.lost;
  }
}

TEST_F(ModelDiskTest, a_symbolic_link_points_to_the_old_or_the_new) {
  write_durably("/one", "1");
  write_durably("/two", "2");
  ASSERT_TRUE(disk_.symlink("one", "/latest").ok());
  ASSERT_TRUE(disk_.fsync_dir("/").ok());
  ASSERT_TRUE(disk_.symlink("two", "/next").ok());
  ASSERT_TRUE(disk_.rename("/next", "/latest").ok());
  EXPECT_EQ(outcomes("/latest"), (Set{"1", "2"}));
  EXPECT_EQ(*disk_.read_link("/latest"), "two");
  EXPECT_EQ(*disk_.kind_of("/latest"), FileKind::symlink);
}

TEST_F(ModelDiskTest, a_file_under_two_names_is_one_file) {
  write_durably("/a", "x");
  ASSERT_TRUE(disk_.link("/a", "/b").ok());
  ASSERT_TRUE(disk_.fsync_dir("/").ok());
  ASSERT_TRUE(disk_.unlink("/a").ok());
  ASSERT_TRUE(write_text(disk_, "/b", "y").ok());
  ASSERT_TRUE(sync_file(disk_, "/b").ok());
  EXPECT_EQ(outcomes("/a"), (Set{kAbsent, "y"}));
  EXPECT_EQ(outcomes("/b"), Set{"y"});
}

TEST_F(ModelDiskTest, errors_are_those_of_a_filesystem) {
  write_durably("/f", "x");
  ASSERT_TRUE(disk_.mkdir("/d").ok());
  EXPECT_EQ(disk_.open("/none", O_RDONLY).status().os_error(), ENOENT);
  EXPECT_EQ(disk_.open("/none/f", O_CREAT | O_RDWR).status().os_error(), ENOENT);
  EXPECT_EQ(disk_.open("/f", O_CREAT | O_EXCL | O_RDWR).status().os_error(), EEXIST);
  EXPECT_EQ(disk_.open("/f/x", O_RDONLY).status().os_error(), ENOTDIR);
  EXPECT_EQ(disk_.mkdir("/d").os_error(), EEXIST);
  EXPECT_EQ(disk_.rename_noreplace("/f", "/d").os_error(), EEXIST);
  EXPECT_EQ(disk_.rename("/f", "/d").os_error(), EISDIR);
  EXPECT_EQ(disk_.rename("/d", "/f").os_error(), ENOTDIR);
  EXPECT_EQ(disk_.rename("/d", "/d/e").os_error(), EINVAL);
  EXPECT_EQ(disk_.unlink("/d").os_error(), EISDIR);
  EXPECT_EQ(disk_.rmdir("/f").os_error(), ENOTDIR);
  ASSERT_TRUE(disk_.symlink("loop", "/loop").ok());
  EXPECT_EQ(disk_.open("/loop", O_RDONLY).status().os_error(), ELOOP);
  EXPECT_EQ(disk_.list("/")->size(), 3U);
  const Result<UniqueFd> fd = disk_.open("/f", O_RDONLY);
  EXPECT_EQ(disk_.pwrite(fd->get(), bytes_of("y"), 0).status().os_error(), EBADF);
}

TEST_F(ModelDiskTest, a_lock_belongs_to_a_descriptor_and_ends_with_it_or_with_the_power) {
  write_durably("/lock", "");
  Result<UniqueFd> mine = disk_.open("/lock", O_RDWR);
  const Result<UniqueFd> other = disk_.open("/lock", O_RDWR);
  ASSERT_TRUE(disk_.try_lock(mine->get(), LockMode::exclusive).ok());
  EXPECT_EQ(disk_.try_lock(other->get(), LockMode::shared).code(), Code::unavailable);
  for (const CutState& state : disk_.cut()) {
    ModelDisk after(state.disk);
    const Result<UniqueFd> fd = after.open("/lock", O_RDWR);
    EXPECT_TRUE(after.try_lock(fd->get(), LockMode::exclusive).ok());
  }
  ASSERT_TRUE(disk_.close(*std::move(mine)).ok());
  EXPECT_TRUE(disk_.try_lock(other->get(), LockMode::exclusive).ok());
}

TEST_F(ModelDiskTest, a_descriptor_number_used_again_stands_for_the_new_file) {
  ASSERT_TRUE(write_text(disk_, "/b", "").ok());  // or it would take the number for its memory
  Result<UniqueFd> first = disk_.open("/a", O_RDWR | O_CREAT);
  const int number = first->get();
  first = Status(Code::cancelled, "closed without a word to the disk");
  const Result<UniqueFd> second = disk_.open("/b", O_RDWR);
  ASSERT_EQ(second->get(), number);
  ASSERT_TRUE(disk_.pwrite(number, bytes_of("x"), 0).ok());
  EXPECT_EQ(text_of(disk_, "/a"), "");
  EXPECT_EQ(text_of(disk_, "/b"), "x");
}

TEST_F(ModelDiskTest, what_the_engine_writes_is_in_the_same_state) {
  const auto engine = disk_.make_engine();
  ASSERT_TRUE(engine.ok());
  Result<File> file = File::create(disk_, "/f", {.policy = CachePolicy::buffered});
  ASSERT_TRUE(file.ok());
  std::vector<std::byte> memory(kModelBlockBytes, std::byte{'e'});
  const Result<Request> request = file->plan_write(0, memory.size(), memory);
  ASSERT_TRUE(perform(**engine, *request).ok());
  ASSERT_TRUE(disk_.fsync_dir("/").ok());
  const std::string text(kModelBlockBytes, 'e');
  EXPECT_TRUE(outcomes("/f").contains(text));
  EXPECT_TRUE(outcomes("/f").contains(""));
  ASSERT_TRUE(file->finish(100).ok());
  EXPECT_EQ(outcomes("/f"), Set{std::string(100, 'e')});
}

TEST_F(ModelDiskTest, more_losses_than_can_be_combined_are_sampled_alike_in_each_run) {
  write_durably("/f", "");
  ASSERT_TRUE(write_text(disk_, "/f", std::string(40 * kModelBlockBytes, 'x')).ok());
  const CutOptions options{.single_max = 50, .random_count = 20, .seed = 7};
  const Set first = outcomes("/f", options);
  EXPECT_EQ(first, outcomes("/f", options));
  EXPECT_GT(first.size(), 40U);
  EXPECT_TRUE(first.contains("")) << "all lost";
  EXPECT_TRUE(first.contains(std::string(40 * kModelBlockBytes, 'x'))) << "nothing lost";
}

}  // namespace
}  // namespace stoker::testing
