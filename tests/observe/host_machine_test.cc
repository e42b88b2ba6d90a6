#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "observe/doctor.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;
using testing::TempDir;

constexpr milliseconds kPatient{30'000};

class HostMachineTest : public ::testing::Test {
 protected:
  void write(const std::string& name, std::size_t bytes) {
    std::ofstream(dir_.file(name)) << std::string(bytes, 'x');
  }

  const TempDir dir_;
  const std::unique_ptr<Machine> machine_ = make_host_machine();
};

TEST_F(HostMachineTest, a_command_gives_its_output_and_exit_status) {
  Result<CommandResult> result = machine_->run({"echo", "a b", "$HOME;c"}, kPatient);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->exit_code, 0);
  EXPECT_EQ(result->output, "a b $HOME;c\n") << "no shell may see the words";
  result = machine_->run({"false"}, kPatient);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->exit_code, 1);
}

TEST_F(HostMachineTest, a_missing_program_is_not_found) {
  EXPECT_EQ(machine_->run({"stoker-no-such-program"}, kPatient).status().code(), Code::not_found);
  EXPECT_EQ(machine_->run({}, kPatient).status().code(), Code::invalid_argument);
}

TEST_F(HostMachineTest, a_command_that_hangs_is_given_up) {
  EXPECT_EQ(machine_->run({"sleep", "600"}, milliseconds(20)).status().code(), Code::unavailable);
}

TEST_F(HostMachineTest, endless_output_is_cut) {
  write("large", (std::size_t{1} << 20) + 5000);
  const Result<CommandResult> result = machine_->run({"cat", dir_.file("large")}, kPatient);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->output.size(), std::size_t{1} << 20);
}

TEST_F(HostMachineTest, reads_are_timed_in_large_files_alone) {
  write("large", std::size_t{64} << 20);
  const Result<ReadTiming> timing = machine_->time_reads(dir_.file("large"));
  if (!timing.ok() && timing.status().os_error() == EINVAL)
    GTEST_SKIP() << "the temporary directory takes no direct I/O";
  ASSERT_TRUE(timing.ok()) << timing.status().message();
  EXPECT_GE(timing->count, 1u);
  EXPECT_GT(timing->median.count(), 0);

  write("small", 1 << 20);
  EXPECT_EQ(machine_->time_reads(dir_.file("small")).status().code(), Code::invalid_argument);
  write("sparse", 0);
  ASSERT_EQ(::truncate(dir_.file("sparse").c_str(), off_t{1} << 30), 0);
  EXPECT_EQ(machine_->time_reads(dir_.file("sparse")).status().code(), Code::invalid_argument);
  EXPECT_EQ(machine_->time_reads(dir_.file("gone")).status().code(), Code::not_found);
}

TEST_F(HostMachineTest, a_large_file_is_cut_and_a_missing_one_not_found) {
  write("large", (std::size_t{1} << 20) + 5000);
  const Result<std::string> text = machine_->read_text(dir_.file("large"));
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->size(), std::size_t{1} << 20);
  EXPECT_EQ(machine_->read_text(dir_.file("gone")).status().code(), Code::not_found);
  EXPECT_FALSE(machine_->read_text(dir_.path()).ok()) << "a directory is no text";
}

TEST_F(HostMachineTest, a_pipe_without_a_writer_does_not_hang) {
  ASSERT_EQ(::mkfifo(dir_.file("pipe").c_str(), 0600), 0);
  const Result<std::string> text = machine_->read_text(dir_.file("pipe"));
  EXPECT_TRUE(!text.ok() || text->empty());
}

TEST_F(HostMachineTest, entries_are_listed_in_order_with_their_kinds) {
  write("b", 3);
  ASSERT_EQ(::mkdir(dir_.file("a").c_str(), 0700), 0);
  std::filesystem::create_symlink("b", dir_.file("c"));
  const Result<std::vector<DirectoryEntry>> entries = machine_->list(dir_.path(), 10);
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 3U);
  EXPECT_EQ((*entries)[0].name, "a");
  EXPECT_EQ((*entries)[0].kind, DirectoryEntry::Kind::directory);
  EXPECT_EQ((*entries)[1].kind, DirectoryEntry::Kind::file);
  EXPECT_EQ((*entries)[2].kind, DirectoryEntry::Kind::other);
  EXPECT_EQ(machine_->list(dir_.path(), 2)->size(), 2U);
  EXPECT_EQ(machine_->list(dir_.file("gone"), 2).status().code(), Code::not_found);
}

TEST_F(HostMachineTest, links_are_read_and_resolved) {
  write("b", 3);
  std::filesystem::create_symlink("b", dir_.file("c"));
  EXPECT_EQ(*machine_->read_link(dir_.file("c")), "b");
  EXPECT_EQ(*machine_->resolve(dir_.file("c")), *machine_->resolve(dir_.file("b")));
  EXPECT_EQ(machine_->resolve(dir_.file("gone")).status().code(), Code::not_found);
  EXPECT_EQ(machine_->stat(dir_.file("b"))->size_bytes, 3U);
  EXPECT_TRUE(machine_->stat(dir_.path())->is_directory);
  EXPECT_FALSE(machine_->stat(dir_.file("gone")).ok());
  EXPECT_FALSE(machine_->volume(dir_.file("gone")).ok());
  EXPECT_NE(machine_->volume(dir_.path())->block_bytes, 0U);
}

TEST_F(HostMachineTest, this_very_machine_can_be_examined) {
  const Result<Findings> findings = examine(*machine_, {.paths = {dir_.path()}, .stop = {}});
  ASSERT_TRUE(findings.ok()) << findings.status().message();
  EXPECT_TRUE(std::any_of(findings->begin(), findings->end(), [](const Finding& finding) {
    return finding.subject == "io_uring" && !finding.seen.empty();
  }));
}

}  // namespace
}  // namespace stoker
