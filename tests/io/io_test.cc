// The small parts: rate limiter, residency, mapped files, filesystem table, probe.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/unique_fd.h"
#include "io/engine/rate_limiter.h"
#include "io/engine/residency.h"
#include "io/files/filesystem.h"
#include "io/mapped_file.h"
#include "stoker/probe.h"
#include "support/in_child.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Deadline kStart{};  // a clock of the test's own: nothing here waits

TEST(RateLimiterTest, a_burst_passes_and_then_the_rate_holds) {
  RateLimiter limiter(1000, 500, kStart);
  EXPECT_EQ(limiter.reserve(500, kStart), nanoseconds(0));
  EXPECT_EQ(limiter.reserve(100, kStart), milliseconds(100));
  EXPECT_EQ(limiter.reserve(100, kStart), milliseconds(200)) << "callers queue up";
  EXPECT_EQ(limiter.reserve(0, kStart + milliseconds(200)), nanoseconds(0));
}

TEST(RateLimiterTest, the_long_run_never_exceeds_rate_and_burst) {
  RateLimiter limiter(1'000'000, 10'000, kStart);
  Deadline now = kStart;
  std::uint64_t moved = 0;
  for (int i = 0; i < 1000; ++i) {
    now += limiter.reserve(777, now);
    moved += 777;
    const std::chrono::duration<double> elapsed = now - kStart;
    ASSERT_LE(static_cast<double>(moved), 10'000 + elapsed.count() * 1e6 + 1);
  }
  EXPECT_NEAR(std::chrono::duration<double>(now - kStart).count(), 0.767, 0.001);
}

TEST(RateLimiterTest, an_idle_bucket_fills_to_its_burst_and_no_further) {
  RateLimiter limiter(1000, 500, kStart);
  EXPECT_EQ(limiter.reserve(1000, kStart + seconds(3600)), milliseconds(500));
}

TEST(RateLimiterTest, the_rate_can_be_changed_while_it_runs) {
  RateLimiter limiter(1000, 0, kStart);
  EXPECT_EQ(limiter.reserve(1000, kStart), seconds(1));
  limiter.set_rate(10'000, kStart + seconds(1));
  EXPECT_EQ(limiter.rate_bytes_per_s(), 10'000U);
  EXPECT_EQ(limiter.reserve(1000, kStart + seconds(1)), milliseconds(100));
  limiter.set_rate(0, kStart + seconds(1));
  EXPECT_EQ(limiter.reserve(1 << 30, kStart + seconds(1)), nanoseconds(0)) << "0 is unlimited";
  limiter.set_rate(1000, kStart + seconds(2));
  EXPECT_EQ(limiter.reserve(1000, kStart + seconds(2)), seconds(1)) << "no debt from free times";
}

TEST(RateLimiterTest, a_clock_that_steps_back_does_not_fill_the_bucket) {
  RateLimiter limiter(1000, 0, kStart + seconds(10));
  EXPECT_EQ(limiter.reserve(1000, kStart), seconds(1));
}

TEST(RateLimiterTest, what_is_given_back_keeps_nobody_waiting) {
  RateLimiter limiter(1000, 500, kStart);
  EXPECT_EQ(limiter.reserve(100'500, kStart), seconds(100));
  limiter.give_back(100'500);
  EXPECT_EQ(limiter.reserve(500, kStart), nanoseconds(0));
  limiter.give_back(100'500);
  EXPECT_EQ(limiter.reserve(600, kStart), milliseconds(100)) << "never more than the burst";
}

class ResidencyTest : public ::testing::Test {
 protected:
  ResidencyTest() {
    std::ofstream(path_) << std::string(kBytes, 'r');
    fd_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  }
  static constexpr std::size_t kBytes = 100'000;
  testing::TempDir dir_;
  const std::string path_ = dir_.file("data");
  UniqueFd fd_;
};

TEST_F(ResidencyTest, sees_pages_come_and_go_in_both_ways) {
  const auto kind = filesystem_of(fd_.get());
  if (!kind->local_block) GTEST_SKIP() << kind->name << " keeps its pages";
  const auto both_say = [&](std::uint64_t bytes, std::uint64_t offset, std::uint64_t size) {
    EXPECT_EQ(residency(fd_.get(), offset, size)->resident_bytes, bytes);
    EXPECT_EQ(testing::residency_by_mincore(fd_.get(), offset, size)->resident_bytes, bytes);
  };
  both_say(kBytes, 0, 0);
  both_say(8192, 4096, 8192);
  ASSERT_TRUE(evict(fd_.get()).ok());
  both_say(0, 0, 0);
  both_say(0, 1 << 30, 4096);
}

TEST_F(ResidencyTest, an_empty_file_and_a_bad_descriptor_are_told_apart) {
  const UniqueFd empty(::open(dir_.file("empty").c_str(), O_RDWR | O_CREAT, 0644));
  EXPECT_EQ(residency(empty.get())->size_bytes, 0U);
  EXPECT_EQ(residency(empty.get())->share(), 0);
  EXPECT_FALSE(residency(-1).ok());
  EXPECT_FALSE(evict(-1).ok());
}

TEST(MappedFileTest, shows_the_bytes_of_the_file) {
  const testing::TempDir dir;
  std::ofstream(dir.file("data")) << "mapped";
  for (const MapAdvice advice : {MapAdvice::normal, MapAdvice::sequential, MapAdvice::random}) {
    const auto file = MappedFile::open(dir.file("data"), advice);
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(file->bytes().data()), 6), "mapped");
    EXPECT_TRUE(file->will_need(2, 4).ok());
    EXPECT_EQ(file->will_need(2, 5).code(), Code::invalid_argument);
    EXPECT_EQ(file->will_need(7, 0).code(), Code::invalid_argument);
  }
}

TEST(MappedFileTest, empty_absent_and_irregular_files_are_told_apart) {
  const testing::TempDir dir;
  std::ofstream(dir.file("empty")).flush();
  EXPECT_TRUE(MappedFile::open(dir.file("empty"))->bytes().empty());
  EXPECT_EQ(MappedFile::open(dir.file("absent")).status().code(), Code::not_found);
  EXPECT_EQ(MappedFile::open(dir.path()).status().code(), Code::invalid_argument);
}

TEST(FilesystemTest, magic_numbers_have_names_and_unknown_ones_show_theirs) {
  EXPECT_EQ(filesystem_by_magic(0xEF53).name, "ext4");
  EXPECT_TRUE(filesystem_by_magic(0x58465342).local_block);
  EXPECT_FALSE(filesystem_by_magic(0x6969).local_block);
  EXPECT_EQ(filesystem_by_magic(0x1234).name, "unknown (0x1234)");
}

TEST(ProbeTest, finds_what_the_directory_can_do_and_leaves_nothing) {
  const testing::TempDir dir;
  const auto found = probe(dir.path());
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->path, dir.path());
  EXPECT_FALSE(found->kernel.empty());
  EXPECT_FALSE(found->filesystem.empty());
  EXPECT_FALSE(found->engine.empty());
  EXPECT_FALSE(found->engine_reason.empty());
  EXPECT_FALSE(found->write_path.empty());
  EXPECT_FALSE(found->read_path.empty());
  EXPECT_EQ(found->registered_buffers, found->registered_buffers_reason.empty());
  EXPECT_EQ(found->direct_io, found->direct_offset_align_bytes > 1);
  EXPECT_EQ(dir.entry_count(), 0);
}

TEST(ProbeTest, a_path_in_memory_is_read_and_written_through_the_cache) {
  const auto found = probe("/dev/shm");
  if (!found.ok()) GTEST_SKIP() << found.status().message();
  EXPECT_EQ(found->read_path, "buffered");
  EXPECT_EQ(found->write_path, "buffered");
}

TEST(ProbeTest, a_local_disk_is_read_past_the_cache_where_direct_reads_work) {
  const testing::TempDir dir;
  const UniqueFd fd(::open(dir.path().c_str(), O_RDONLY));
  const auto kind = filesystem_of(fd.get());
  if (!kind.ok() || !kind->local_block) GTEST_SKIP() << "no local disk here";
  const auto found = probe(dir.path());
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->read_path, found->direct_io ? "direct" : "buffered");
}

TEST(ProbeTest, absent_unwritable_and_wrong_paths_are_refused_with_their_name) {
  const testing::TempDir dir;
  EXPECT_EQ(probe(dir.file("absent")).status().code(), Code::not_found);
  std::ofstream(dir.file("plain")) << "x";
  EXPECT_EQ(probe(dir.file("plain")).status().code(), Code::invalid_argument);
  const auto denied = testing::in_child_as_nobody([&] {
    const auto found = probe(dir.path());
    if (found.status().code() != Code::denied) return 1;
    return found.status().message().find(dir.path()) == std::string::npos ? 2 : 0;
  });
  if (denied.exit_code != testing::kNotRoot) {
    EXPECT_EQ(denied.exit_code, 0);
  }
}

TEST(ProbeTest, an_ordinary_user_learns_why_buffers_stay_unregistered) {
  const testing::TempDir dir;
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0777));
  const auto end = testing::in_child_as_nobody([&] {
    const auto found = probe(dir.path());
    if (!found.ok() || found->memlock_bytes != 64 << 10) return 1;
    if (found->engine != "uring") return 0;
    return found->registered_buffers_reason.find("RLIMIT_MEMLOCK") == std::string::npos ? 2 : 0;
  });
  if (end.exit_code == testing::kNotRoot) GTEST_SKIP() << "needs root to become nobody";
  EXPECT_EQ(end.exit_code, 0);
}

}  // namespace
}  // namespace stoker
