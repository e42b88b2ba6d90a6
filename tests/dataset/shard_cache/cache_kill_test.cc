// Eight processes share a cache, and are killed at random: no wrong byte, no byte too many, no
// hang.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <atomic>
#include <map>
#include <thread>

#include "dataset/shard_cache/cache_ledger.h"
#include "dataset/shard_cache/cache_support.h"
#include "support/in_child.h"

namespace stoker::testing {
namespace {

constexpr std::size_t kChunk = ChunkId::kSizeMax;
constexpr std::size_t kChunks = 10;
constexpr std::uint64_t kLimit = 5 * (kChunk + kChunkHeadBytes);
constexpr int kProcesses = 8;

/// What the children tell the test, in memory that they share.
struct Told {
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> source_reads{0};
};

class CacheKillTest : public ::testing::Test {
 protected:
  CacheKillTest() {
    put_object(*memory_, "a", bytes_);
    void* const shared =
        ::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    told_ = new (shared) Told;
  }
  ~CacheKillTest() override { ::munmap(told_, sizeof(Told)); }

  std::shared_ptr<ObjectStore> source() const {
    return std::make_shared<WatchedStore>(memory_,
                                          [this](const std::string&, std::uint64_t, std::size_t) {
                                            ++told_->source_reads;
                                            return Status();
                                          });
  }

  /// Reads random ranges, so many or for ever, and compares each.
  void read_some(const std::string& directory, unsigned seed, std::uint64_t count) const {
    const auto cache = ShardCache::open({.directory = directory, .size_bytes = kLimit});
    if (!cache.ok()) {
      ++told_->failed;
      return;
    }
    const auto object = ShardCache::over(*cache, source())->open("a");
    std::mt19937_64 random(seed);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::size_t at = random() % (bytes_.size() - 200'000);
      const std::size_t size = 1 + random() % 200'000;
      const auto read = read_range(**object, at, size);
      if (!read) {
        ++told_->failed;
      } else if (*read != part_of(bytes_, at, size)) {
        ++told_->wrong;
      }
      ++told_->reads;
    }
  }

  pid_t start_reader(const std::string& directory, unsigned seed, std::uint64_t count) const {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::alarm(120);
    read_some(directory, seed, count);
    ::_exit(0);
  }

  const TempDir dir_;
  const std::vector<std::byte> bytes_ = noise(kChunks * kChunk, 3);
  const std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>();
  Told* told_;
};

/// The bytes of all files, while nobody may add one: with the ledger locked, and left as by a
/// process that dies with it.
std::uint64_t bytes_in(const std::string& directory) {
  const auto ledger = CacheLedger::lock(posix_file_ops(), directory + "/ledger", Deadline::max());
  EXPECT_TRUE(ledger.ok());
  std::map<std::string, std::uint64_t> files;  // one may move from new/ to chunks/ meanwhile
  for (const char* const folder : {"/new", "/chunks"})
    for (const auto& file : files_below(directory + folder)) {
      std::error_code gone;
      const std::uintmax_t size = std::filesystem::file_size(file, gone);
      if (!gone) files[file.filename().string()] = size;
    }
  std::uint64_t bytes = 0;
  for (const auto& [name, size] : files) bytes += size;
  return bytes;
}

TEST_F(CacheKillTest, no_byte_is_wrong_whoever_is_killed_and_whatever_is_flipped) {
  const std::string directory = dir_.file("cache");
  std::mt19937_64 random(11);
  unsigned seed = 0;
  std::vector<pid_t> readers;
  for (int i = 0; i < kProcesses; ++i)
    readers.push_back(start_reader(directory, ++seed, UINT64_MAX));
  constexpr int kKills = 40;
  for (int kill = 0; kill < kKills; ++kill) {
    // A few reads later: the event, and no time.
    const std::uint64_t until = told_->reads + 1 + random() % 40;
    while (told_->reads < until) std::this_thread::yield();
    EXPECT_LE(bytes_in(directory), kLimit);
    const std::size_t victim = random() % readers.size();
    ASSERT_EQ(::kill(readers[victim], SIGKILL), 0);
    ASSERT_EQ(::waitpid(readers[victim], nullptr, 0), readers[victim]);
    readers[victim] = start_reader(directory, ++seed, UINT64_MAX);
    const auto files = files_below(directory + "/chunks");
    if (files.empty() || kill % 4 != 0) continue;
    const auto& file = files[random() % files.size()];
    std::error_code gone;
    const std::uintmax_t size = std::filesystem::file_size(file, gone);
    if (gone || size == 0) continue;
    std::fstream bad(file, std::ios::in | std::ios::out | std::ios::binary);  // may be gone by now
    bad.seekp(static_cast<std::streamoff>(random() % size));
    bad.put('\x5a');
  }
  for (const pid_t reader : readers) {
    ASSERT_EQ(::kill(reader, SIGKILL), 0);
    ASSERT_EQ(::waitpid(reader, nullptr, 0), reader);
  }
  EXPECT_EQ(told_->wrong, 0U);
  EXPECT_EQ(told_->failed, 0U);
  // The next process finds a cache that works, and exact figures.
  const auto cache = open_cache(directory, kLimit);
  EXPECT_TRUE(cache->trouble().ok()) << cache->trouble().message();
  EXPECT_EQ(cache->stats().used_bytes, bytes_below(directory + "/chunks"));
  EXPECT_EQ(files_below(directory + "/new").size(), 0U);
  EXPECT_LE(cache->stats().used_bytes, kLimit);
}

TEST_F(CacheKillTest, processes_that_want_the_same_chunks_fetch_each_once) {
  const std::string directory = dir_.file("cache");
  const auto big = ShardCache::open({.directory = directory, .size_bytes = 2 * bytes_.size()});
  ASSERT_TRUE(big.ok());
  std::vector<pid_t> readers;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(120);
      const auto cache =
          ShardCache::open({.directory = directory, .size_bytes = 2 * bytes_.size()});
      const auto object = ShardCache::over(*cache, source())->open("a");
      for (std::size_t k = 0; k < kChunks; ++k)
        if (read_range(**object, k * kChunk + 5, 100) != part_of(bytes_, k * kChunk + 5, 100))
          ++told_->wrong;
      ::_exit(0);
    }
    readers.push_back(child);
  }
  for (const pid_t reader : readers) {
    int status = 0;
    ASSERT_EQ(::waitpid(reader, &status, 0), reader);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(told_->wrong, 0U);
  EXPECT_EQ(told_->source_reads, kChunks);
}

TEST_F(CacheKillTest, a_disk_that_is_full_is_streamed_past) {
  // In a mount namespace of its own; a real filesystem that has room for two chunks.
  const auto end = in_child([&] {
    if (::geteuid() != 0 || ::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return kNotRoot;
    const std::string disk = dir_.file("disk");
    std::filesystem::create_directory(disk);
    if (::mount("none", disk.c_str(), "tmpfs", 0, "size=20m") != 0) return kNotRoot;
    read_some(disk + "/cache", 5, 200);
    // Also if the last byte is gone: not even the ledger can be written.
    std::ofstream filler(disk + "/filler", std::ios::binary);
    const std::vector<char> block(1 << 20, 'x');
    while (filler.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
    read_some(disk + "/cache", 6, 50);
    return told_->wrong == 0 && told_->failed == 0 && told_->reads == 250 ? 0 : 1;
  });
  if (end.exit_code == kNotRoot) GTEST_SKIP() << "needs root, and mounts";
  EXPECT_EQ(end.exit_code, 0);
}

TEST_F(CacheKillTest, a_disk_that_became_read_only_is_read_and_not_written) {
  const auto end = in_child([&] {
    if (::geteuid() != 0 || ::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return kNotRoot;
    const std::string disk = dir_.file("disk");
    std::filesystem::create_directory(disk);
    if (::mount("none", disk.c_str(), "tmpfs", 0, "size=100m") != 0) return kNotRoot;
    read_some(disk + "/cache", 5, 20);
    if (::mount("none", disk.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0)
      return kNotRoot;
    read_some(disk + "/cache", 6, 20);
    return told_->wrong == 0 && told_->failed == 0 && told_->reads == 40 ? 0 : 1;
  });
  if (end.exit_code == kNotRoot) GTEST_SKIP() << "needs root, and mounts";
  EXPECT_EQ(end.exit_code, 0);
}

}  // namespace
}  // namespace stoker::testing
