#include "checkpoint/restore/restore_choice.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/save_support.h"
#include "io/files/forwarding_file_ops.h"

namespace stoker {
namespace {

using testing::counted;
using testing::make_saver;
using testing::quiet_options;
using testing::request_of;

/// Counts the lists of directories.
class CountedLists final : public ForwardingFileOps {
 public:
  CountedLists() : ForwardingFileOps(posix_file_ops()) {}
  Result<std::vector<DirectoryName>> list_names(const PathAt& path) override {
    ++count;
    return ForwardingFileOps::list_names(path);
  }
  int count = 0;
};

TEST(RestoreChoiceRemovedTest,
     a_directory_that_is_removed_meanwhile_is_not_listed_again_and_again) {
  const testing::TempDir dir;
  const std::string root = dir.file("run");
  const auto saver = make_saver(quiet_options(root));
  ASSERT_TRUE(saver->save(request_of(1, {counted("w", 4, 1)})).ok());
  ASSERT_TRUE(saver->close().ok());
  CountedLists ops;
  const Result<CheckpointDirectory> directory = CheckpointDirectory::open(ops, root);
  ASSERT_TRUE(directory.ok());
  int lists_before = 0;
  const Result<RestoreChoice> choice = choose_checkpoint(
      {.directory = StoreHandle(*directory)}, [&](const CheckpointReader& reader) {
        std::filesystem::remove_all(root);
        lists_before = ops.count;
        return Status(Code::not_found, std::string(reader.manifest().tool) + ": was removed");
      });
  EXPECT_EQ(choice.status().code(), Code::not_found);
  EXPECT_GT(lists_before, 0);
  EXPECT_EQ(ops.count, lists_before);
}

}  // namespace
}  // namespace stoker
