#include "observe/mount_table.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

constexpr std::string_view kTable =
    "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw,discard\n"
    "40 27 8:1 / /data rw,noatime shared:7 master:2 - xfs /dev/sda1 rw,logbufs=8,logbufs=16\n"
    "41 40 0:44 / /data/my\\040set\\134x rw - nfs4 filer:/a\\040b rw,hard\n"
    "42 27 0:50 / /data rw - tmpfs tmpfs rw\n";

TEST(MountTableTest, a_line_gives_device_place_type_source_and_options) {
  const std::vector<MountEntry> mounts = parse_mountinfo(kTable);
  ASSERT_EQ(mounts.size(), 4U);
  EXPECT_EQ(mounts[1].device_major, 8U);
  EXPECT_EQ(mounts[1].device_minor, 1U);
  EXPECT_EQ(mounts[1].mount_point, "/data");
  EXPECT_EQ(mounts[1].type, "xfs");
  EXPECT_EQ(mounts[1].source, "/dev/sda1");
  EXPECT_TRUE(mounts[1].has_option("noatime"));
  EXPECT_TRUE(mounts[1].has_option("rw"));
  EXPECT_FALSE(mounts[1].has_option("log"));
  EXPECT_EQ(mounts[1].find_option("logbufs"), "16");
  EXPECT_EQ(mounts[1].find_option("logbuf"), "");
}

TEST(MountTableTest, octal_escapes_are_undone) {
  const std::vector<MountEntry> mounts = parse_mountinfo(kTable);
  EXPECT_EQ(mounts[2].mount_point, "/data/my set\\x");
  EXPECT_EQ(mounts[2].source, "filer:/a b");
}

TEST(MountTableTest, the_longest_mount_point_wins_and_then_the_last) {
  const std::vector<MountEntry> mounts = parse_mountinfo(kTable);
  EXPECT_EQ(find_mount(mounts, "/")->type, "ext4");
  EXPECT_EQ(find_mount(mounts, "/database")->type, "ext4");  // not under /data
  EXPECT_EQ(find_mount(mounts, "/data/a")->type, "tmpfs");   // mounted over the XFS
  EXPECT_EQ(find_mount(mounts, "/data/my set\\x/y")->type, "nfs4");
  EXPECT_EQ(find_mount({}, "/data"), nullptr);
}

TEST(MountTableTest, malformed_lines_are_skipped) {
  for (const char* bad :
       {"", "\n\n", "27 1 254:0 / /", "27 1 254:0 / / rw - ext4", "27 1 x:0 / / rw - ext4 a rw",
        "27 1 254 / / rw - ext4 a rw", "27 1 99999999999:0 / / rw - ext4 a rw", "- - - - - - - - -",
        "27 1 254:0 / / rw shared:1 ext4 /dev/root rw"})
    EXPECT_TRUE(parse_mountinfo(bad).empty()) << bad;
}

// A fixed generator stands for the fuzzer here: whatever bytes come, nothing breaks.
TEST(MountTableTest, any_bytes_are_survived) {
  std::uint64_t state = 7;
  for (int round = 0; round < 2000; ++round) {
    std::string text(kTable);
    for (int change = 0; change < 20; ++change) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      text[(state >> 33) % text.size()] = static_cast<char>(state >> 24);
    }
    const std::vector<MountEntry> mounts = parse_mountinfo(text);
    static_cast<void>(find_mount(mounts, text));
  }
}

}  // namespace
}  // namespace stoker
