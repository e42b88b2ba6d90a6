#include "dataset/index/index_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>

#include "dataset/dataset_support.h"
#include "support/faulty_file_ops.h"
#include "support/hooked_file_ops.h"
#include "support/in_child.h"

namespace stoker::testing {
namespace {

class IndexStoreTest : public ::testing::Test {
 protected:
  IndexStoreTest() {
    for (std::size_t i = 0; i < 3; ++i) write_tar(shard(i), make_samples(10 + i, i * 100));
  }
  std::string shard(std::size_t i) const { return dir_.file("s" + std::to_string(i) + ".tar"); }

  std::unique_ptr<ShardSource> source() const {
    const std::string pattern = dir_.path();
    auto opened = open_shards({&pattern, 1});
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return *std::move(opened);
  }
  /// Whether it had to be built.
  bool builds(const IndexOptions& options = {}) const {
    const auto file = open_index_file(*source(), options);
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file.ok() && file->is_new;
  }
  std::string path() const { return dir_.path() + "/.stoker/" + index_name(*source()); }
  std::ptrdiff_t left_behind() const {
    std::ptrdiff_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path() + "/.stoker"))
      count += entry.path().filename().string().find(".staged-") != std::string::npos ? 1 : 0;
    return count;
  }

  const DatasetDir dir_;
};

TEST_F(IndexStoreTest, is_built_once_and_then_opened) {
  std::vector<std::uint64_t> progress;
  const auto first = open_index_file(*source(), {.progress = [&](const IndexProgress& now) {
    EXPECT_EQ(now.shard_count, 3U);
    progress.push_back(now.samples_found);
  }});
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_TRUE(first->is_new);
  EXPECT_EQ(first->path, path());
  EXPECT_EQ(first->index.sample_count(), 33U);
  EXPECT_EQ(first->index.shards()[2].first_sample, 21U);
  EXPECT_FALSE(first->index.has_checksums());
  ASSERT_EQ(progress.size(), 3U);
  EXPECT_EQ(progress.back(), 33U);

  EXPECT_FALSE(builds());
  EXPECT_TRUE(builds({.rebuild = true}));
  EXPECT_FALSE(builds());
}

TEST_F(IndexStoreTest, is_the_same_whatever_the_number_of_threads) {
  const auto one = build_index(*source(), {.checksums = true, .thread_count = 1});
  const auto many = build_index(*source(), {.checksums = true, .thread_count = 8});
  ASSERT_TRUE(one.ok() && many.ok());
  EXPECT_EQ(*one, *many);
}

TEST_F(IndexStoreTest, checksums_are_added_when_asked_for_and_kept_when_not) {
  EXPECT_TRUE(builds());
  EXPECT_TRUE(builds({.checksums = true}));
  EXPECT_TRUE(open_index(*source())->has_checksums());
  EXPECT_FALSE(builds());
}

TEST_F(IndexStoreTest, a_shard_that_changed_means_a_new_index) {
  EXPECT_TRUE(builds());
  touch(shard(1));
  EXPECT_TRUE(builds()) << "another time";
  struct stat was{};
  ASSERT_EQ(::stat(shard(1).c_str(), &was), 0);
  write_tar(shard(1), make_samples(60));
  const timespec times[2] = {was.st_atim, was.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, shard(1).c_str(), times, 0), 0);
  EXPECT_TRUE(builds()) << "another size, the old time";
  EXPECT_EQ(open_index(*source())->sample_count(), 10U + 60 + 12);
  std::filesystem::rename(shard(0), dir_.file("z.tar"));
  EXPECT_TRUE(builds()) << "another name";
  EXPECT_EQ(open_index(*source())->shards().back().name, "z.tar");
  EXPECT_FALSE(builds());
}

TEST_F(IndexStoreTest, checksums_outlive_a_copy_and_the_shard_that_changed_is_held_against_them) {
  EXPECT_TRUE(builds({.checksums = true}));
  touch(shard(1));
  EXPECT_FALSE(builds()) << "another time alone";
  EXPECT_TRUE(open_index(*source())->has_checksums());
  const auto whole = ShardDataset::open(dir_.path());
  ASSERT_TRUE(whole.ok());
  const ByteRange bad = (*whole)->index().locate(12)->record;
  std::fstream file(shard(1), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(bad.offset_bytes + 512 + 1));
  file.put('\xff');
  file.close();
  const auto dataset = ShardDataset::open(dir_.path());
  ASSERT_TRUE(dataset.ok());
  SampleRecord record;
  EXPECT_TRUE((*dataset)->read(11, record).ok());
  const Status status = (*dataset)->read(12, record);
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_NE(status.message().find(": key \"folder/0102\": checksum mismatch"),
            std::string_view::npos)
      << status.message();
  EXPECT_TRUE(builds({.rebuild = true})) << "the way out";
}

TEST_F(IndexStoreTest, a_shard_that_cannot_be_begun_is_named) {
  write_file(shard(1), {});
  const auto file = open_index_file(*source(), {});
  EXPECT_EQ(file.status().code(), Code::corrupt);
  EXPECT_TRUE(file.status().message().starts_with(shard(1) + ": offset 0: "))
      << file.status().message();
}

TEST_F(IndexStoreTest, checksums_are_not_made_over_bytes_that_their_digests_deny) {
  const std::string directory = dir_.file("mds");
  write_mds(directory, make_samples(20), 10);
  std::fstream file(directory + "/shard.00001.mds",
                    std::ios::in | std::ios::out | std::ios::binary | std::ios::ate);
  file.seekp(-3, std::ios::end);
  file.put('\xff');
  file.close();
  const auto opened = open_shards({&directory, 1});
  ASSERT_TRUE(opened.ok());
  const Status status = open_index_file(**opened, {.checksums = true}).status();
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_TRUE(status.message().starts_with(directory + "/shard.00001.mds: ")) << status.message();
  EXPECT_NE(status.message().find("sha256"), std::string_view::npos);
}

TEST_F(IndexStoreTest, a_changed_idx_beside_the_same_bin_means_a_new_index) {
  const DatasetDir tokens;
  const std::string pattern = tokens.file("t.idx");
  const auto count = [&] { return open_index(**open_shards({&pattern, 1}))->sample_count(); };
  write_megatron(tokens.file("t"), std::vector<std::size_t>{4, 0, 3});
  EXPECT_EQ(count(), 3U);
  // The same tokens cut in other places: Megatron's .bin is the same, byte for byte and in time.
  struct stat was{};
  ASSERT_EQ(::stat(tokens.file("t.bin").c_str(), &was), 0);
  write_megatron(tokens.file("u"), std::vector<std::size_t>{7});
  std::filesystem::rename(tokens.file("u.idx"), tokens.file("t.idx"));
  EXPECT_EQ(count(), 1U);
}

TEST_F(IndexStoreTest, a_megatron_pair_without_a_token_is_refused_in_so_many_words) {
  const DatasetDir tokens;
  const std::string pattern = tokens.file("t.idx");
  write_megatron(tokens.file("t"), std::vector<std::size_t>{0, 0});
  const auto index = open_index(**open_shards({&pattern, 1}));
  ASSERT_EQ(index.status().code(), Code::invalid_argument);
  EXPECT_NE(index.status().message().find("all its sequences are empty"), std::string_view::npos)
      << index.status().message();
}

TEST_F(IndexStoreTest, a_damaged_or_foreign_file_in_its_place_is_replaced) {
  EXPECT_TRUE(builds());
  const std::string good = contents_of(path());
  std::string newer = good;
  newer[8] = 99;
  for (const std::string& bad : {std::string(), std::string("x"), good.substr(0, 5000), newer}) {
    write_file(path(), bytes_of(bad));
    EXPECT_TRUE(builds());
    EXPECT_EQ(contents_of(path()), good);
  }
}

TEST_F(IndexStoreTest, opening_looks_at_no_entry_and_each_block_is_checked_when_it_is_used) {
  constexpr std::uint64_t kSamples = 100'000;
  constexpr std::size_t kHeader = 4096;
  constexpr std::size_t kBlock = 64 << 10;
  IndexWriter writer("tar", false);
  writer.add_shard("a.tar", kSamples * 512, kSamples * 512, 0);
  for (std::uint64_t i = 0; i < kSamples; ++i) ASSERT_TRUE(writer.add_sample({i * 512, 512}).ok());
  std::vector<std::byte> bytes = writer.finish();
  const std::size_t block_count = kSamples / 4096 + 1;
  for (std::size_t block = 1; block < block_count; ++block)
    bytes[kHeader + block * kBlock + 40] ^= std::byte{1};
  write_file(dir_.file("index"), bytes);
  const auto index = Index::open(dir_.file("index"));
  ASSERT_TRUE(index.ok()) << "all blocks but one are damaged, and none was looked at";
  EXPECT_TRUE(index->locate(17).ok());
  for (std::size_t block = 1; block < block_count; ++block)
    EXPECT_EQ(index->locate(block * 4096).status().code(), Code::corrupt);
}

TEST_F(IndexStoreTest, damage_in_any_part_of_it_is_found_when_asked_for_and_replaced) {
  for (const bool checksums : {false, true}) {
    EXPECT_TRUE(builds({.checksums = checksums, .rebuild = true}));
    const std::string good = contents_of(path());
    // From behind the mark, the version and the flags, which say whether it had checksums.
    for (std::size_t at = 16; at < good.size(); at += 997) {
      SCOPED_TRACE(at);
      flip_bit(path(), at);
      const auto file = open_index_file(*source(), {.check_all = true});
      ASSERT_TRUE(file.ok()) << file.status().message();
      EXPECT_TRUE(file->is_new);
      EXPECT_NE(file->damage.message().find(path()), std::string_view::npos);
      EXPECT_TRUE(contents_of(path()) == good) << "with its checksums";
    }
    EXPECT_TRUE(builds({.checksums = checksums, .rebuild = true}));
    EXPECT_TRUE(open_index_file(*source(), {.check_all = true})->damage.ok());
  }
}

TEST_F(IndexStoreTest, readers_take_the_one_in_the_cache_that_has_replaced_a_damaged_one) {
  const DatasetDir cache;
  HookedFileOps read_only(posix_file_ops(), [](std::string_view op, const PathAt* path) -> Status {
    const bool is_lock = op == "open" && path->text().ends_with(".lock");
    return is_lock && path->text().find("/.stoker/") != std::string::npos
               ? Status(Code::denied, "read-only")
               : Status();
  });
  IndexOptions options{.cache_directory = cache.path(), .ops = &read_only};
  const auto age = [](const std::string& path) {
    const auto time = std::filesystem::last_write_time(path);
    std::filesystem::last_write_time(path, time - std::chrono::seconds(9));
  };
  EXPECT_TRUE(builds());
  for (int time = 0; time < 2; ++time) {  // the second time an older one in the cache is whole
    flip_bit(path(), 4096 + 40);
    options.check_all = true;
    const auto replaced = open_index_file(*source(), options);
    ASSERT_TRUE(replaced.ok()) << replaced.status().message();
    EXPECT_TRUE(replaced->is_new);
    EXPECT_FALSE(replaced->damage.ok());
    options.check_all = false;
    age(path());
    const auto found = open_index_file(*source(), options);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->path, replaced->path);
    EXPECT_TRUE(found->index.verify().ok());
    flip_bit(path(), 4096 + 40);
    age(replaced->path);
    age(replaced->path);
  }
}

TEST_F(IndexStoreTest, a_shard_that_cannot_be_scanned_leaves_no_index) {
  flip_bit(shard(1), 5);
  const auto index = open_index(*source());
  ASSERT_FALSE(index.ok());
  EXPECT_EQ(index.status().code(), Code::corrupt);
  EXPECT_NE(index.status().message().find(shard(1)), std::string_view::npos);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(IndexStoreTest, a_shard_of_another_format_under_the_same_ending_is_called_that) {
  write_tfrecord(shard(1), make_samples(3));
  Status status = open_index(*source()).status();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(status.message(), shard(1) +
                                  ": its format is tfrecord, the others are tar; name "
                                  "shards of one format");
  write_file(shard(1), bytes_of("\x1f\x8b\x08" + std::string(2000, 'x')));
  status = open_index(*source()).status();
  EXPECT_EQ(status.code(), Code::unsupported) << status.message();
}

TEST_F(IndexStoreTest, a_shard_that_changes_before_the_scan_is_not_indexed) {
  const auto opened = source();
  write_tar(shard(1), make_samples(50));
  const auto index = open_index(*opened);
  EXPECT_EQ(index.status().code(), Code::unavailable) << index.status().message();
}

TEST_F(IndexStoreTest, a_stop_request_leaves_nothing) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(open_index(*source(), {.stop = stop.get_token()}).status().code(), Code::cancelled);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(IndexStoreTest, of_many_processes_one_builds) {
  constexpr int kProcesses = 6;
  int gate[2] = {-1, -1};
  ASSERT_EQ(::pipe(gate), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      ::close(gate[1]);
      char byte = 0;
      if (::read(gate[0], &byte, 1) != 0) ::_exit(3);  // ends when the parent closes its end
      const auto file = open_index_file(*source(), {});
      ::_exit(!file.ok() || file->index.sample_count() != 33 ? 2 : file->is_new ? 1 : 0);
    }
    children.push_back(child);
  }
  ::close(gate[0]);
  ::close(gate[1]);
  int built = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_LT(WEXITSTATUS(status), 2);
    built += WEXITSTATUS(status);
  }
  EXPECT_EQ(built, 1);
  EXPECT_EQ(left_behind(), 0);
}

TEST_F(IndexStoreTest, a_child_forked_during_the_build_does_not_keep_the_lock) {
  pid_t child = 0;
  const auto fork_once = [&](const IndexProgress&) {
    if (child != 0) return;
    child = ::fork();
    if (child == 0) {
      ::alarm(60);
      for (;;) ::pause();
    }
  };
  EXPECT_TRUE(builds({.progress = fork_once}));
  std::stop_source stop;
  stop.request_stop();  // so that waiting would be seen
  const auto again = open_index_file(*source(), {.rebuild = true, .stop = stop.get_token()});
  EXPECT_EQ(again.status().message(), "stopped while indexing") << "and not while waiting";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(IndexStoreTest, a_dataset_that_cannot_be_written_to_has_its_index_in_the_cache) {
  const DatasetDir cache;
  ASSERT_EQ(::chmod(cache.path().c_str(), 0777), 0);
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
  const ChildEnd end = in_child_as_nobody([&] {
    const std::string pattern = dir_.path();
    const auto opened = open_shards({&pattern, 1});
    if (!opened.ok()) return 2;
    const Status nowhere = open_index(**opened).status();
    if (nowhere.code() != Code::denied ||
        nowhere.message().find("cache directory") == std::string_view::npos)
      return 3;
    const IndexOptions options{.cache_directory = cache.file("deep/er")};
    const auto built = open_index_file(**opened, options);
    if (!built.ok() || !built->is_new || !built->path.starts_with(cache.path())) return 4;
    const auto found = open_index_file(**opened, options);
    return found.ok() && !found->is_new && found->path == built->path ? 0 : 5;
  });
  if (end.exit_code == kNotRoot) GTEST_SKIP() << "only root can become nobody";
  EXPECT_EQ(end.exit_code, 0) << end.signal;
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/.stoker"));
}

TEST_F(IndexStoreTest, an_index_that_no_place_takes_is_kept_in_memory_where_that_is_allowed) {
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
  const ChildEnd end = in_child_as_nobody([&] {
    const std::string pattern = dir_.path();
    const auto opened = open_shards({&pattern, 1});
    if (!opened.ok()) return 2;
    const auto made =
        open_index_file(**opened, {.cache_directory = "/proc/no/cache", .in_memory = true});
    if (!made.ok() || !made->path.empty() || made->refused.ok()) return 3;
    if (made->index.sample_count() == 0 || !made->index.verify().ok()) return 4;
    const auto dataset = ShardDataset::open({&pattern, 1}, {.index = {.in_memory = true}});
    SampleRecord sample;
    return dataset.ok() && (*dataset)->read(0, sample).ok() ? 0 : 5;
  });
  if (end.exit_code == kNotRoot) GTEST_SKIP() << "only root can become nobody";
  EXPECT_EQ(end.exit_code, 0) << end.signal;
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/.stoker"));
}

TEST_F(IndexStoreTest, a_full_dataset_disk_has_its_index_in_the_cache) {
  const DatasetDir cache;
  ASSERT_TRUE(builds());  // the directory is there from now on
  FaultyFileOps counted(posix_file_ops(), FaultyFileOps::kNever, 0);
  ASSERT_TRUE(open_index(*source(), {.rebuild = true, .ops = &counted}).ok());
  for (int fail_at = 0; fail_at < counted.call_count(); ++fail_at) {
    FaultyFileOps full(posix_file_ops(), fail_at, ENOSPC);
    const auto file = open_index_file(
        *source(), {.rebuild = true, .cache_directory = cache.path(), .ops = &full});
    ASSERT_TRUE(file.ok()) << full.failed_op() << ": " << file.status().message();
    EXPECT_TRUE(file->path.starts_with(cache.path()) || full.failed_op() == "list_names")
        << full.failed_op();
  }
  EXPECT_EQ(left_behind(), 0);
}

/// kill -9 at a crash point.
class KillAt final : public FaultyFileOps {
 public:
  explicit KillAt(std::string point)
      : FaultyFileOps(posix_file_ops(), kNever, 0), point_(std::move(point)) {}
  void reached(std::string_view point) override {
    if (point == point_) ::kill(::getpid(), SIGKILL);
  }

 private:
  const std::string point_;
};

TEST_F(IndexStoreTest, killed_at_any_crash_point_leaves_the_old_index_or_the_new_one) {
  for (const bool has_old : {false, true}) {
    for (const char* point : {"publish_file.staged", "publish_file.synced", "publish_file.switched",
                              "publish_file.durable"}) {
      SCOPED_TRACE(std::string(point) + (has_old ? " over an old one" : ""));
      std::filesystem::remove_all(dir_.path() + "/.stoker");
      if (has_old) {
        EXPECT_TRUE(builds());
      }
      const ChildEnd end = in_child([&] {
        KillAt ops(point);
        return open_index(*source(), {.checksums = true, .ops = &ops}).ok() ? 0 : 1;
      });
      ASSERT_EQ(end.signal, SIGKILL);
      const bool is_switched = std::string_view(point) == "publish_file.switched" ||
                               std::string_view(point) == "publish_file.durable";
      const Result<Index> index = Index::open(path());
      EXPECT_EQ(index.ok(), has_old || is_switched);
      if (index.ok()) {
        EXPECT_TRUE(index->verify().ok());
        EXPECT_EQ(index->has_checksums(), is_switched);
      }
      EXPECT_EQ(left_behind(), is_switched ? 0 : 1);
      EXPECT_EQ(builds({.checksums = true}), !is_switched);
      EXPECT_EQ(left_behind(), 0) << "the next builder sweeps";
    }
  }
}

}  // namespace
}  // namespace stoker::testing
