// A process that is forked in the middle of a save, as by a data loader, keeps no file of it open:
// a file that retention has removed would take its room on the disk for as long as that lives.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/unique_fd.h"
#include "checkpoint/gated_saves.h"
#include "checkpoint/save_support.h"

namespace stoker::testing {
namespace {

namespace fs = std::filesystem;

/// A child that lives until it is killed, as a worker of a data loader does.
class LivingChild {
 public:
  LivingChild() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::alarm(60);
      static_cast<void>(!::write(writer.get(), "!", 1));  // fork() has returned
      for (;;) ::pause();
    }
    writer = UniqueFd();
    char byte = 0;
    EXPECT_EQ(::read(reader.get(), &byte, 1), 1);
  }
  LivingChild(const LivingChild&) = delete;
  LivingChild& operator=(const LivingChild&) = delete;
  ~LivingChild() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  /// What it has open below `directory`, files that were removed among them.
  std::vector<std::string> open_below(const std::string& directory) const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid_) + "/fd")) {
      std::error_code ignored;
      std::string target = fs::read_symlink(entry.path(), ignored).string();
      if (target.starts_with(directory + "/")) found.push_back(std::move(target));
    }
    return found;
  }

 private:
  pid_t pid_ = -1;
};

class ForkDescriptorsTest : public ::testing::TestWithParam<CachePolicy> {};

TEST_P(ForkDescriptorsTest, a_child_of_a_save_keeps_no_file_of_it) {
  const TempDir dir;
  const std::string run = fs::canonical(dir.path()).string();  // as /proc names it
  Gate gate("checkpoint.preallocated");
  GatedFileOps ops(gate);
  SaverOptions options = quiet_options(run);
  options.ops = &ops;
  options.file.policy = GetParam();
  options.retention.keep_last = 1;
  const auto saver = make_saver(std::move(options));
  const Result<PendingSave> first = saver->save(request_of(1, {counted("w", 100'000, 1)}));
  ASSERT_TRUE(first.ok()) << first.status().message();
  gate.await();
  {
    const LivingChild child;
    EXPECT_EQ(child.open_below(run), std::vector<std::string>());
    gate.open();
    ASSERT_TRUE(first->wait().ok()) << first->wait().message();
    const Result<PendingSave> second = saver->save(request_of(2, {counted("w", 100'000, 2)}));
    ASSERT_TRUE(second.ok() && second->wait().ok());
    ASSERT_TRUE(saver->wait().ok());
    EXPECT_FALSE(fs::exists(run + "/" + step_name(1))) << "retention has removed it";
    EXPECT_EQ(child.open_below(run), std::vector<std::string>());
  }
  EXPECT_TRUE(saver->close().ok());
}

INSTANTIATE_TEST_SUITE_P(Policies, ForkDescriptorsTest,
                         ::testing::Values(CachePolicy::buffered, CachePolicy::automatic));

}  // namespace
}  // namespace stoker::testing
