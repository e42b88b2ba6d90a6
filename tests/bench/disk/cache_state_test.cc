#include "bench/disk/cache_state.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "bench/scratch.h"
#include "io/files/filesystem.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::stoker::testing::TempDir;

constexpr std::uint64_t kBytes = 4 << 20;

Result<ScratchFile> make_file(const std::string& directory) {
  STOKER_ASSIGN(ScratchFile scratch, ScratchFile::create(posix_file_ops(), directory,
                                                         {.policy = CachePolicy::buffered}));
  const std::string data(kBytes, 'x');
  if (::pwrite(scratch.file().buffered_fd(), data.data(), data.size(), 0) != std::ssize(data))
    return Status(Code::io_error, "write");
  return scratch;
}

TEST(CacheStateTest, cold_and_warm_are_proven_on_a_disk) {
  const TempDir dir;
  Result<ScratchFile> file = make_file(dir.path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  const int fd = file->file().buffered_fd();
  const Result<FilesystemKind> kind = filesystem_of(fd);
  if (!kind.ok() || !kind->local_block) GTEST_SKIP() << "the temporary directory is not on a disk";
  Result<BufferPool> pool = BufferPool::make(BufferPool::Options{});
  ASSERT_TRUE(pool.ok());

  Result<CacheCheck> check = make_cold(fd);
  ASSERT_TRUE(check.ok()) << check.status().message();
  EXPECT_EQ(check->state, CacheState::cold) << check->note;
  EXPECT_EQ(check->note, "");

  check = make_warm(fd, kBytes, *pool, {});
  ASSERT_TRUE(check.ok()) << check.status().message();
  EXPECT_EQ(check->state, CacheState::warm) << check->note;
  EXPECT_EQ(check->resident_share, 1.0);
}

TEST(CacheStateTest, failed_eviction_is_told) {
  const Result<UniqueFd> shm = posix_file_ops().open("/dev/shm", O_RDONLY | O_DIRECTORY);
  if (!shm.ok() || filesystem_of(shm->get())->name != "tmpfs")
    GTEST_SKIP() << "there is no tmpfs at /dev/shm";
  const TempDir dir("/dev/shm");
  Result<ScratchFile> file = make_file(dir.path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Result<CacheCheck> check = make_cold(file->file().buffered_fd());
  ASSERT_TRUE(check.ok()) << check.status().message();
  EXPECT_NE(check->state, CacheState::cold);
  EXPECT_NE(check->note.find("100 %"), std::string::npos) << check->note;
}

}  // namespace
}  // namespace stoker
