// A cache over a store: what is read, from where, and what happens to files that are not what they
// should be.
#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "conformance/object_store_suite.h"
#include "dataset/shard_cache/cache_support.h"
#include "io/engine/residency.h"
#include "support/faulty_file_ops.h"
#include "support/hooked_file_ops.h"
#include "support/in_child.h"

namespace stoker::testing {
namespace {

/// A cached store with the directory of its cache.
template <typename Store>
struct InTempDir {
  TempDir dir;
  std::shared_ptr<ObjectStore> store;
};

template <typename Store>
std::shared_ptr<ObjectStore> cached(std::shared_ptr<Store> source) {
  auto made = std::make_shared<InTempDir<Store>>();
  made->store = ShardCache::over(open_cache(made->dir.file("cache")), std::move(source));
  return {made, made->store.get()};
}
std::shared_ptr<ObjectStore> over_memory() {
  return cached(std::make_shared<MemoryStore>());
}
std::shared_ptr<ObjectStore> over_files() {
  return cached(local_store());
}
std::shared_ptr<ObjectStore> without_a_directory() {
  static HookedFileOps ops(posix_file_ops(), [](std::string_view op, const PathAt*) {
    return op == "mkdir" ? Status::from_errno(EROFS, "mkdir", "cache") : Status();
  });
  auto made = std::make_shared<InTempDir<MemoryStore>>();
  made->store = ShardCache::over(open_cache(made->dir.file("cache"), 64 << 20, &ops),
                                 std::make_shared<MemoryStore>());
  return {made, made->store.get()};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(cached, ObjectStoreSuite,
                         ::testing::Values(ObjectStoreMaker{"over_memory", over_memory},
                                           ObjectStoreMaker{"over_files", over_files},
                                           ObjectStoreMaker{"without_a_directory",
                                                            without_a_directory}),
                         object_store_name);

namespace {

constexpr std::size_t kChunk = ChunkId::kSizeMax;

class CachedStoreTest : public ::testing::Test {
 protected:
  CachedStoreTest() { put_object(*memory_, "a", bytes_); }

  std::unique_ptr<const Object> open(const std::shared_ptr<ShardCache>& cache,
                                     const std::string& key = "a") {
    auto object = ShardCache::over(cache, source_)->open(key);
    EXPECT_TRUE(object.ok()) << object.status().message();
    return *std::move(object);
  }
  std::string chunks() const { return dir_.file("cache/chunks"); }

  const TempDir dir_;
  const std::vector<std::byte> bytes_ = noise(2 * kChunk + 100'000, 5);
  const std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>();
  const std::shared_ptr<WatchedStore> source_ = std::make_shared<WatchedStore>(memory_);
};

TEST_F(CachedStoreTest, what_was_read_once_is_read_from_the_disk_also_by_the_next_process) {
  for (int run = 0; run < 2; ++run) {
    const auto cache = open_cache(dir_.file("cache"));
    const auto object = open(cache);
    for (int pass = 0; pass < 2; ++pass)
      for (const std::size_t at : {std::size_t{0}, kChunk - 10, 2 * kChunk + 5})
        EXPECT_EQ(read_range(*object, at, 50'000), part_of(bytes_, at, 50'000)) << at;
    EXPECT_TRUE(cache->trouble().ok()) << cache->trouble().message();
    EXPECT_EQ(cache->stats().fetches, run == 0 ? 3U : 0U);
    EXPECT_EQ(cache->stats().used_bytes,
              run == 0 ? cache->stats().used_bytes : bytes_below(dir_.file("cache/chunks")));
  }
  EXPECT_EQ(source_->read_bytes(), bytes_.size());
  EXPECT_EQ(source_->read_count(), 3U) << "one read for each chunk";
  EXPECT_EQ(bytes_below(chunks()), bytes_.size() + 3 * kChunkHeadBytes);
}

TEST_F(CachedStoreTest, the_directory_is_for_its_owner_alone) {
  std::filesystem::create_directory(dir_.file("cache"));
  open_cache(dir_.file("cache"));
  struct stat info{};
  ASSERT_EQ(::stat(dir_.file("cache").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
}

TEST_F(CachedStoreTest, a_directory_with_other_files_is_refused_and_left_alone) {
  std::filesystem::create_directory(dir_.file("home"));
  std::ofstream(dir_.file("home/thesis.txt")) << "words";
  struct stat before{};
  ASSERT_EQ(::stat(dir_.file("home").c_str(), &before), 0);
  const auto cache = ShardCache::open({.directory = dir_.file("home"), .size_bytes = 64 << 20});
  EXPECT_EQ(cache.status().code(), Code::invalid_argument);
  struct stat after{};
  ASSERT_EQ(::stat(dir_.file("home").c_str(), &after), 0);
  EXPECT_EQ(after.st_mode, before.st_mode);
  EXPECT_EQ(ShardCache::open({.directory = dir_.file("c"), .size_bytes = 1 << 20}).status().code(),
            Code::invalid_argument);
}

TEST_F(CachedStoreTest, a_replaced_object_is_fetched_anew) {
  const auto cache = open_cache(dir_.file("cache"));
  EXPECT_EQ(read_range(*open(cache), 0, 100), part_of(bytes_, 0, 100));
  const std::vector<std::byte> other = noise(bytes_.size(), 6);
  put_object(*memory_, "a", other);
  EXPECT_EQ(read_range(*open(cache), 0, 100), part_of(other, 0, 100));
}

TEST_F(CachedStoreTest, a_chunk_with_a_flipped_bit_is_healed_from_the_source) {
  for (const std::uint64_t at : {std::uint64_t{9}, std::uint64_t{kChunkHeadBytes + 10},
                                 std::uint64_t{kChunkHeadBytes + 70'000}}) {
    {
      const auto cache = open_cache(dir_.file("cache"));
      EXPECT_EQ(read_range(*open(cache), 0, 100'000), part_of(bytes_, 0, 100'000));
    }
    const auto files = files_below(chunks());
    ASSERT_EQ(files.size(), 1U);
    flip_bit(files[0], at);
    const auto cache = open_cache(dir_.file("cache"));
    const auto object = open(cache);
    const std::uint64_t before = source_->read_count();
    EXPECT_EQ(read_range(*object, 0, 100'000), part_of(bytes_, 0, 100'000));
    EXPECT_EQ(cache->stats().healed, 1U);
    EXPECT_EQ(source_->read_count(), before + 1);
    EXPECT_EQ(read_range(*object, 0, 100'000), part_of(bytes_, 0, 100'000));
    EXPECT_EQ(source_->read_count(), before + 1);
  }
}

/// Drops the chunk files from the page cache, so that they are read past it.
void evict_all(const std::string& folder) {
  for (const std::filesystem::path& path : files_below(folder)) {
    const auto fd = posix_file_ops().open(path.string(), O_RDONLY);
    ASSERT_TRUE(fd.ok());
    ASSERT_TRUE(evict(fd->get()).ok());
  }
}

TEST_F(CachedStoreTest, many_ranges_that_are_on_the_disk_alone_are_read_and_healed_together) {
  constexpr std::size_t kRanges = 200;
  constexpr std::size_t kRangeBytes = 70'001;
  for (const bool is_damaged : {false, true}) {
    SCOPED_TRACE(is_damaged);
    {
      const auto cache = open_cache(dir_.file("cache"));
      for (const std::size_t at : {std::size_t{0}, kChunk, 2 * kChunk})
        read_range(*open(cache), at, 10);
    }
    const auto files = files_below(chunks());
    ASSERT_EQ(files.size(), 3U);
    if (is_damaged) flip_bit(files[0], kChunkHeadBytes + 50'000);
    evict_all(chunks());
    const std::uint64_t before = source_->read_count();
    const auto cache = open_cache(dir_.file("cache"));
    const auto store = ShardCache::over(cache, source_);
    const auto object = *store->open("a");
    const auto source = *store->make_source(kRanges);
    std::vector<std::vector<std::byte>> found(kRanges, std::vector<std::byte>(kRangeBytes));
    std::vector<Request> requests;
    const auto start_of = [&](std::size_t i) {
      return i * (bytes_.size() - kRangeBytes) / kRanges;
    };
    for (std::size_t i = 0; i < kRanges; ++i) {
      requests.push_back(request_of(*object, start_of(i), found[i]));
      requests.back().tag = i;
    }
    ASSERT_EQ(*source->submit(requests), kRanges);
    std::vector<Completion> done(kRanges);
    for (std::size_t count = 0; count < kRanges;) {
      const auto reaped = source->reap(std::span(done).subspan(count), 1, std::chrono::seconds(60));
      ASSERT_TRUE(reaped.ok() && *reaped > 0);
      count += *reaped;
    }
    for (const Completion& each : done) {
      ASSERT_EQ(each.result, static_cast<std::int64_t>(kRangeBytes)) << each.tag;
      ASSERT_EQ(found[each.tag], part_of(bytes_, start_of(each.tag), kRangeBytes)) << each.tag;
    }
    EXPECT_EQ(cache->stats().healed, is_damaged ? 1U : 0U);
    EXPECT_EQ(source_->read_count() - before, is_damaged ? 1U : 0U);
    EXPECT_TRUE(cache->trouble().ok()) << cache->trouble().message();
  }
}

TEST_F(CachedStoreTest, a_chunk_that_is_damaged_while_it_is_open_is_healed_too) {
  const auto cache = open_cache(dir_.file("cache"));
  const auto object = open(cache);
  EXPECT_EQ(read_range(*object, 0, 10), part_of(bytes_, 0, 10));
  std::filesystem::resize_file(files_below(chunks())[0], 0);
  EXPECT_EQ(read_range(*object, 0, 10), part_of(bytes_, 0, 10));
  EXPECT_EQ(cache->stats().healed, 1U);
}

TEST_F(CachedStoreTest, planted_names_and_files_are_not_followed_and_do_no_harm) {
  {
    const auto cache = open_cache(dir_.file("cache"));
    EXPECT_EQ(read_range(*open(cache), 0, 10), part_of(bytes_, 0, 10));
  }
  const std::filesystem::path chunk = files_below(chunks())[0];
  const std::string secret = dir_.file("secret");
  std::ofstream(secret) << "secret";
  std::ofstream(chunk.parent_path() / "notes.txt") << "not a chunk";
  std::ofstream(dir_.file("cache/new/notes.txt")) << "not a chunk";
  std::ofstream(dir_.file("cache/orders/notes.txt")) << "not an order";
  std::filesystem::create_directory(chunk.parent_path() / "folder");
  const auto plant = [&](int kind) {
    std::filesystem::remove_all(chunk);
    if (kind == 0) std::filesystem::create_symlink(secret, chunk);
    if (kind == 1) std::filesystem::create_directory(chunk);
    if (kind == 2) {
      EXPECT_EQ(::mkfifo(chunk.c_str(), 0600), 0);
    }
    if (kind == 3) std::ofstream(chunk).close();
  };
  for (int kind = 0; kind < 4; ++kind) {
    plant(kind);
    const auto cache = open_cache(dir_.file("cache"));
    ASSERT_TRUE(cache->trouble().ok()) << cache->trouble().message();
    const auto object = open(cache);
    EXPECT_EQ(read_range(*object, 5, 100), part_of(bytes_, 5, 100)) << kind;
    const std::uint64_t before = source_->read_count();
    EXPECT_EQ(read_range(*object, 5, 100), part_of(bytes_, 5, 100)) << kind;
    EXPECT_EQ(source_->read_count(), before) << kind;
  }
  EXPECT_EQ(std::filesystem::file_size(secret), 6U);
}

TEST_F(CachedStoreTest, the_files_never_exceed_the_size_and_what_was_used_last_stays) {
  constexpr std::uint64_t kLimit = 5 * (kChunk + kChunkHeadBytes);
  std::vector<std::byte> big = noise(8 * kChunk, 8);
  put_object(*memory_, "big", big);
  const auto cache = open_cache(dir_.file("cache"), kLimit);
  const auto object = open(cache, "big");
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(read_range(*object, i * kChunk, 10), part_of(big, i * kChunk, 10));
    EXPECT_LE(bytes_below(dir_.file("cache/chunks")) + bytes_below(dir_.file("cache/new")), kLimit);
  }
  EXPECT_EQ(cache->stats().evicted, 3U);
  const std::uint64_t before = source_->read_count();
  for (std::size_t i = 3; i < 8; ++i) read_range(*object, i * kChunk, 10);
  EXPECT_EQ(source_->read_count(), before);
  read_range(*object, 0, 10);
  EXPECT_EQ(source_->read_count(), before + 1);
}

TEST_F(CachedStoreTest, what_a_dead_fetcher_left_is_counted_and_then_removed) {
  const std::string name(32, 'a');
  {
    open_cache(dir_.file("cache"));
    std::ofstream(dir_.file("cache/new/" + name + "-0-800000")) << "half a chunk";
    std::filesystem::resize_file(dir_.file("cache/new/" + name + "-0-800000"), kChunk);
  }
  const auto cache = open_cache(dir_.file("cache"));
  EXPECT_EQ(files_below(dir_.file("cache/new")).size(), 0U);
  EXPECT_EQ(cache->stats().used_bytes, 0U);
}

TEST_F(CachedStoreTest, a_ledger_that_was_left_half_way_or_is_damaged_is_made_anew) {
  const auto cache = open_cache(dir_.file("cache"));
  const auto object = open(cache);
  read_range(*object, 0, 10);
  for (const std::string& text : {std::string(), std::string(24, 'x'), std::string(1000, '\0')}) {
    std::ofstream(dir_.file("cache/ledger"), std::ios::trunc) << text;
    // As of a fetcher that died before it saw that the chunk is there.
    std::ofstream(dir_.file("cache/new/") + files_below(chunks())[0].filename().string()).close();
    const auto other = open_cache(dir_.file("cache"));
    EXPECT_EQ(other->stats().used_bytes, bytes_below(chunks()));
  }
  std::ofstream(dir_.file("cache/ledger"), std::ios::trunc).close();
  read_range(*object, kChunk, 10);  // counts the files, and then adds its own
  EXPECT_EQ(cache->stats().used_bytes, bytes_below(chunks()));
}

TEST_F(CachedStoreTest, an_object_without_an_identity_or_a_version_is_only_passed_through) {
  class Nameless final : public ObjectStore {
   public:
    explicit Nameless(std::shared_ptr<ObjectStore> store) : store_(std::move(store)) {}
    Result<std::unique_ptr<const Object>> open(const std::string& key,
                                               CachePolicy policy) override {
      return store_->open(key, policy);
    }
    Result<Entry> look(const std::string& key) override { return store_->look(key); }
    Status list(const std::string& f, const Found& found) override {
      return store_->list(f, found);
    }
    Result<std::unique_ptr<Upload>> upload(const std::string& k) override {
      return store_->upload(k);
    }
    Status remove(const std::string& key) override { return store_->remove(key); }

   private:
    std::shared_ptr<ObjectStore> store_;
  };
  const auto cache = open_cache(dir_.file("cache"));
  const auto store = ShardCache::over(cache, std::make_shared<Nameless>(source_));
  const auto object = store->open("a");
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(read_range(**object, 10, 100), part_of(bytes_, 10, 100));
  EXPECT_EQ(source_->read_bytes(), 100U);
  EXPECT_EQ(files_below(chunks()).size(), 0U);
}

TEST_F(CachedStoreTest, a_bad_place_of_the_source_costs_only_the_ranges_that_need_it) {
  const auto bad = std::make_shared<WatchedStore>(
      memory_, [](const std::string&, std::uint64_t offset, std::size_t size) {
        constexpr std::uint64_t kBad = 1000;
        return offset <= kBad && kBad < offset + size ? Status::from_errno(EIO, "read", "a")
                                                      : Status();
      });
  const auto cache = open_cache(dir_.file("cache"));
  const auto object = ShardCache::over(cache, bad)->open("a");
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(read_range(**object, 2000, 100), part_of(bytes_, 2000, 100));
  EXPECT_EQ(read_range(**object, 0, 1000), part_of(bytes_, 0, 1000));
  std::vector<std::byte> memory(100);
  const Status failed = (*object)->read(990, 100, memory).status();
  EXPECT_EQ(failed.os_error(), EIO);
  EXPECT_TRUE(cache->trouble().ok()) << "the cache is well";
  EXPECT_EQ(files_below(dir_.file("cache/new")).size(), 0U);
}

TEST_F(CachedStoreTest, a_file_that_was_modified_in_place_is_not_cached_under_its_old_version) {
  const std::string path = dir_.file("data");
  std::ofstream(path) << std::string(1000, 'a');
  const auto cache = open_cache(dir_.file("cache"));
  const auto object = ShardCache::over(cache, local_store())->open(path);
  ASSERT_TRUE(object.ok());
  std::filesystem::last_write_time(
      path, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  read_range(**object, 0, 10);
  EXPECT_EQ(files_below(chunks()).size(), 0U);
}

TEST_F(CachedStoreTest, threads_that_want_one_chunk_fetch_it_once) {
  const auto cache = open_cache(dir_.file("cache"));
  const auto object = open(cache);
  std::atomic<int> good{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        const std::size_t at = static_cast<std::size_t>(i) * 1000;
        good += read_range(*object, at, 500) == part_of(bytes_, at, 500) ? 1 : 0;
      });
  }
  EXPECT_EQ(good, 4);
  EXPECT_EQ(source_->read_count(), 1U);
}

TEST_F(CachedStoreTest, a_fetcher_that_is_stuck_is_waited_for_until_the_timeout_only) {
  const auto cache = ShardCache::open({.directory = dir_.file("cache"),
                                       .size_bytes = 64 << 20,
                                       .busy_timeout = std::chrono::milliseconds(20)});
  ASSERT_TRUE(cache.ok());
  const ChunkId id{.object = object_id("memory:a", open(*cache)->info()),
                   .offset_bytes = 0,
                   .size_bytes = kChunk};
  ChunkFetch stuck;
  ASSERT_EQ((*cache)->begin(id, stuck), CacheDirectory::Begin::fetch);
  EXPECT_EQ(read_range(*open(*cache), 7, 100), part_of(bytes_, 7, 100));
  EXPECT_EQ(source_->read_bytes(), 100U) << "the range alone, past the cache";
  (*cache)->abandon(std::move(stuck));
  EXPECT_EQ(read_range(*open(*cache), 7, 100), part_of(bytes_, 7, 100));
  EXPECT_EQ(files_below(chunks()).size(), 1U);
}

TEST_F(CachedStoreTest, a_forked_child_reads_and_writes_the_same_cache) {
  const auto cache = open_cache(dir_.file("cache"));
  const auto object = open(cache);
  read_range(*object, 0, 10);
  const auto child = in_child([&] {
    const bool old = read_range(*object, 100, 1000) == part_of(bytes_, 100, 1000);
    const bool cold = read_range(*object, kChunk, 1000) == part_of(bytes_, kChunk, 1000);
    return old && cold && source_->read_count() == 2 ? 0 : 1;
  });
  EXPECT_EQ(child.exit_code, 0);
  EXPECT_EQ(source_->read_count(), 1U);
  EXPECT_EQ(read_range(*object, kChunk, 1000), part_of(bytes_, kChunk, 1000));
  EXPECT_EQ(source_->read_count(), 1U) << "what the child fetched is here";
}

TEST_F(CachedStoreTest, any_single_fault_of_the_disk_costs_no_byte_and_no_place) {
  const std::vector<std::byte> small = noise(100'000, 9);
  for (const char* const key : {"b", "c", "d"}) put_object(*memory_, key, small);
  int fired = 0;
  for (int fail_at = 0;; ++fail_at) {
    const TempDir dir;
    FaultyFileOps ops(posix_file_ops(), fail_at, EIO);
    auto cache = ShardCache::open(
        {.directory = dir.file("cache"), .size_bytes = ShardCache::kSizeMin, .ops = &ops});
    ASSERT_TRUE(cache.ok()) << cache.status().message();
    for (int pass = 0; pass < 2; ++pass)
      for (const char* const key : {"b", "c", "d"})
        ASSERT_EQ(read_range(*open(*cache, key), 5, 70'000), part_of(small, 5, 70'000))
            << fail_at << " " << ops.failed_op();
    if (!ops.fired()) break;
    ++fired;
    // A failed removal leaves a file that the next process removes.
    const auto next = open_cache(dir.file("cache"));
    EXPECT_TRUE(next->trouble().ok()) << next->trouble().message();
    EXPECT_EQ(next->stats().used_bytes, bytes_below(dir.file("cache/chunks"))) << fail_at;
    EXPECT_EQ(files_below(dir.file("cache/new")).size(), 0U) << fail_at << ops.failed_op();
  }
  EXPECT_GT(fired, 30);
}

TEST_F(CachedStoreTest, a_full_disk_means_streaming_and_is_said_once) {
  HookedFileOps ops(posix_file_ops(), [](std::string_view op, const PathAt*) {
    return op == "fallocate" ? Status::from_errno(ENOSPC, "fallocate", "") : Status();
  });
  const auto cache = open_cache(dir_.file("cache"), 64 << 20, &ops);
  const auto object = open(cache);
  for (std::size_t at = 0; at < 10'000; at += 1000)
    EXPECT_EQ(read_range(*object, at, 1000), part_of(bytes_, at, 1000));
  EXPECT_EQ(cache->trouble().code(), Code::no_space) << cache->trouble().message();
  EXPECT_NE(cache->trouble().message().find(dir_.file("cache")), std::string_view::npos);
  EXPECT_EQ(source_->read_bytes(), 10'000U);
  EXPECT_EQ(cache->stats().failures, 1U) << "it is not tried again for each range";
}

TEST_F(CachedStoreTest, a_user_without_rights_reads_past_the_cache) {
  open_cache(dir_.file("cache"));  // root's
  std::filesystem::permissions(dir_.path(), std::filesystem::perms::all);
  std::filesystem::permissions(dir_.file("cache"), std::filesystem::perms::all);
  const auto end = in_child_as_nobody([&] {
    const auto cache = ShardCache::open({.directory = dir_.file("cache"), .size_bytes = 64 << 20});
    if (!cache.ok() || (*cache)->trouble().code() != Code::denied) return 1;
    const auto object = ShardCache::over(*cache, source_)->open("a");
    return object.ok() && read_range(**object, 5, 100) == part_of(bytes_, 5, 100) ? 0 : 2;
  });
  if (end.exit_code == kNotRoot) GTEST_SKIP() << "needs root";
  EXPECT_EQ(end.exit_code, 0);
}

}  // namespace
}  // namespace stoker::testing
