#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "checkpoint/lock_support.h"
#include "support/faulty_file_ops.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::FaultyFileOps;
using testing::opened;

/// Refuses hard links, as some filesystems do.
class NoLinks final : public ForwardingFileOps {
 public:
  NoLinks() : ForwardingFileOps(posix_file_ops()) {}
  Status link(const PathAt& /*from*/, const PathAt& /*to*/) override {
    return {Code::unsupported, "no links here"};
  }
};

/// The names in a directory, other than `.lock` and epochs that are released.
std::string left_in(const std::string& directory) {
  std::string left;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name == kLockName) continue;
    const std::optional<std::uint64_t> epoch = parse_epoch_name(name);
    const std::optional<LockRecord> record =
        epoch ? testing::epoch_in(directory, *epoch) : std::nullopt;
    if (record && record->is_released) continue;
    left += name + " ";
  }
  return left;
}

class LockFaultsTest : public ::testing::TestWithParam<bool> {};

// On a full disk each attempt to take the lock, as by `prune`, would leave one file more.
TEST_P(LockFaultsTest, an_attempt_that_fails_leaves_nothing_and_says_what_to_do) {
  NoLinks no_links;
  FileOps& target = GetParam() ? posix_file_ops() : static_cast<FileOps&>(no_links);
  int failed = 0;
  for (int fault = 0;; ++fault) {
    const testing::TempDir dir;
    {
      ASSERT_TRUE(WriterLock::acquire(opened(dir.path()), {}).ok());
    }
    FaultyFileOps ops(target, fault, ENOSPC);
    const Result<CheckpointDirectory> directory = CheckpointDirectory::open(ops, dir.path());
    if (!directory.ok()) continue;
    LockOptions options;
    options.ttl = nanoseconds(0);  // without a heart, which would count as well
    const Result<std::unique_ptr<WriterLock>> lock = WriterLock::acquire(*directory, options);
    if (!ops.fired()) break;
    if (lock.ok()) continue;  // there was a way around
    SCOPED_TRACE(std::to_string(fault) + ": " + ops.failed_op());
    ++failed;
    EXPECT_EQ(left_in(dir.path()), "");
    if (ops.failed_op() == "pwrite" || ops.failed_op() == "fsync" || ops.failed_op() == "mkdir") {
      EXPECT_EQ(lock.status().code(), Code::no_space);
      EXPECT_NE(lock.status().message().find("rm -rf DIR/step-N"), std::string_view::npos)
          << lock.status().message();
    }
    EXPECT_TRUE(WriterLock::acquire(opened(dir.path()), {}).ok());
  }
  EXPECT_GT(failed, 6);
}

INSTANTIATE_TEST_SUITE_P(Links, LockFaultsTest, ::testing::Bool(),
                         [](const auto& named) { return named.param ? "with" : "without"; });

}  // namespace
}  // namespace stoker
