// Somebody who may write to a dataset's directory has made links, FIFOs and directories of the
// names that we use: nothing outside changes, and nothing waits.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "dataset/dataset_support.h"
#include "dataset/index/index_store.h"
#include "dataset/input/import_kind.h"
#include "dataset/pack/convert.h"
#include "dataset/pack/shard_output.h"
#include "dataset/pack_support.h"
#include "support/bystander.h"

namespace stoker::testing {
namespace {

namespace fs = std::filesystem;

void make_fifo(const std::string& path) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0) << path;
}

class PlantedIndexTest : public ::testing::Test {
 protected:
  PlantedIndexTest() { write_tar(dir_.file("s.tar"), make_samples(5)); }

  std::unique_ptr<ShardSource> source() const {
    const std::string pattern = dir_.path();
    return *open_shards({&pattern, 1});
  }
  std::string own(const std::string& name) const { return dir_.file(".stoker/" + name); }

  /// The index is built, in the cache or not, and others are not harmed.
  void expect_built(bool is_in_cache) {
    const DatasetDir cache;
    const auto file = open_index_file(*source(), {.cache_directory = cache.path()});
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_TRUE(file->is_new);
    EXPECT_EQ(file->path.starts_with(cache.path()), is_in_cache) << file->path;
    EXPECT_EQ(other_.harm(), "");
  }

  const DatasetDir dir_;
  Bystander other_;
};

TEST_F(PlantedIndexTest, a_linked_directory_of_ours_is_not_written_to) {
  other_.add(index_name(*source()) + ".staged-1-1");  // not to be swept
  fs::create_directory_symlink(other_.path(), dir_.file(".stoker"));
  expect_built(true);
  const Status refused = open_index(*source()).status();
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(refused.message().find("a symbolic link, which is not followed"),
            std::string_view::npos)
      << refused.message();
}

TEST_F(PlantedIndexTest, a_lock_that_is_none_is_not_opened) {
  const std::string lock = own(index_name(*source()) + ".lock");
  const std::vector<std::function<void()>> plants = {
      [&] { fs::create_symlink(other_.file(), lock); },
      [&] { fs::create_symlink(other_.file("none"), lock); },
      [&] { fs::create_directory(lock); },
      [&] { make_fifo(lock); },
  };
  fs::create_directory(dir_.file(".stoker"));
  for (const auto& plant : plants) {
    plant();
    expect_built(true);
    fs::remove(lock);
  }
}

TEST_F(PlantedIndexTest, a_link_or_a_fifo_in_the_place_of_the_index_is_replaced) {
  fs::create_directory(dir_.file(".stoker"));
  const std::string path = own(index_name(*source()));
  fs::create_symlink(other_.file(), path);
  expect_built(false);
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path)));
  fs::remove(path);
  make_fifo(path);
  expect_built(false);
}

TEST_F(PlantedIndexTest, an_index_that_a_link_leads_to_is_not_taken) {
  ASSERT_TRUE(open_index(*source()).ok());
  const std::string path = own(index_name(*source()));
  fs::rename(path, dir_.file("elsewhere"));
  fs::create_symlink(dir_.file("elsewhere"), path);
  expect_built(false);
}

TEST_F(PlantedIndexTest, a_linked_directory_in_the_cache_is_not_written_to) {
  const DatasetDir cache;
  const auto places_made = open_index_file(*source(), {.cache_directory = cache.path()});
  ASSERT_TRUE(places_made.ok());
  fs::remove_all(dir_.file(".stoker"));
  fs::create_directory_symlink(other_.path(), dir_.file(".stoker"));
  // The directory's name in the cache, learned from what is built there.
  const auto in_cache = open_index_file(*source(), {.cache_directory = cache.path()});
  ASSERT_TRUE(in_cache.ok()) << in_cache.status().message();
  const fs::path own_directory = fs::path(in_cache->path).parent_path();
  fs::remove_all(own_directory);
  fs::create_directory_symlink(other_.path(), own_directory);
  EXPECT_FALSE(open_index_file(*source(), {.cache_directory = cache.path()}).ok());
  EXPECT_EQ(other_.harm(), "");
}

class PlantedPackTest : public ::testing::Test {
 protected:
  PlantedPackTest() {
    write_images(dir_.file("src"), 10);
    fs::create_directory(out());
  }
  std::string out() const { return dir_.file("out"); }
  std::string own(const std::string& name) const { return out() + "/.stoker/" + name; }
  Result<PackReport> run() const {
    return pack(posix_file_ops(), *open_source(dir_.file("src")), out(), small_shards("tar"));
  }
  void expect_refused() const {
    const auto report = run();
    ASSERT_FALSE(report.ok());
    EXPECT_NE(report.status().message().find(out()), std::string_view::npos)
        << report.status().message();
    EXPECT_EQ(other_.harm(), "");
  }

  const PackDir dir_;
  Bystander other_;
};

TEST_F(PlantedPackTest, a_linked_directory_of_ours_is_refused) {
  other_.add("pack/shard-000000.tar.json");
  other_.add("x.staged-1-1");
  fs::create_directory_symlink(other_.path(), out() + "/.stoker");
  expect_refused();
  fs::remove(out() + "/.stoker");
  fs::create_directory(out() + "/.stoker");
  fs::create_directory_symlink(other_.file("pack"), own("pack"));
  expect_refused();
}

TEST_F(PlantedPackTest, a_lock_that_is_none_is_refused_at_once) {
  fs::create_directory(out() + "/.stoker");
  fs::create_symlink(other_.file("none"), own("pack.lock"));
  expect_refused();
  fs::remove(own("pack.lock"));
  make_fifo(own("pack.lock"));
  expect_refused();
}

TEST_F(PlantedPackTest, a_plan_or_a_part_that_is_a_fifo_or_a_link_is_not_waited_for) {
  fs::create_directory(out() + "/.stoker");
  make_fifo(own("pack-plan.json"));
  expect_refused();
  fs::remove(own("pack-plan.json"));
  fs::create_symlink(other_.file(), own("pack-plan.json"));
  expect_refused();
  fs::remove(own("pack-plan.json"));
  fs::create_directory(own("pack"));
  fs::create_symlink(other_.file(), own("pack/shard-000000.tar.json"));
  make_fifo(own("pack/shard-000001.tar.json"));
  const auto report = run();
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(other_.harm(), "");
}

TEST_F(PlantedPackTest, names_of_shards_and_staging_files_are_not_written_through) {
  // Begun, so that the directory is ours; then a link has the name of a shard.
  fs::create_symlink(other_.file(), out() + "/.shard");
  ASSERT_TRUE(run().ok());
  fs::remove(out() + "/manifest.json");
  fs::remove(out() + "/shard-000000.tar");
  fs::create_symlink(other_.file(), out() + "/shard-000000.tar");
  expect_refused();
  fs::remove(out() + "/shard-000000.tar");
  fs::create_symlink(other_.file(), out() + "/shard-000000.tar.staged-1-1");
  fs::create_directory_symlink(other_.path(), out() + "/shard-000001.tar.staged-1-2");
  fs::create_directory(out() + "/shard-000002.tar.staged-1-3");
  static_cast<void>(run());
  EXPECT_EQ(other_.harm(), "");
}

TEST_F(PlantedPackTest, an_output_passes_over_staging_names_that_are_taken) {
  const auto first = ShardOutput::make(posix_file_ops(), dir_.file("x.tar"));
  ASSERT_TRUE(first.ok());
  std::string taken;
  for (const auto& entry : fs::directory_iterator(dir_.path()))
    if (entry.path().filename().string().starts_with("x.tar.staged-")) taken = entry.path();
  const std::size_t dash = taken.rfind('-') + 1;
  const int serial = std::stoi(taken.substr(dash));
  for (int i = 1; i <= 3; ++i)
    fs::create_symlink(other_.file(), taken.substr(0, dash) + std::to_string(serial + i));
  const auto second = ShardOutput::make(posix_file_ops(), dir_.file("x.tar"));
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_TRUE((*second)->write(bytes_of("abc")).ok());
  EXPECT_TRUE((*second)->sync().ok());
  EXPECT_TRUE((*second)->publish().ok());
  EXPECT_EQ(contents_of(dir_.file("x.tar")), "abc");
  EXPECT_EQ(other_.harm(), "");
}

class PlantedConvertTest : public PlantedPackTest {
 protected:
  PlantedConvertTest() {
    write_tar(dir_.file("plain.tar"), make_samples(4));
    const std::string bytes = contents_of(dir_.file("plain.tar"));
    gzFile gz = ::gzopen(source().c_str(), "wb");
    ::gzwrite(gz, bytes.data(), static_cast<unsigned>(bytes.size()));
    ::gzclose(gz);
  }
  std::string source() const { return dir_.file("s.tar.gz"); }
  Status convert_it() const {
    const std::string from = source();
    return convert(posix_file_ops(), {&from, 1}, out(), {}, small_shards("tar")).status();
  }
};

TEST_F(PlantedConvertTest, tars_are_not_inflated_into_nor_removed_from_linked_directories) {
  other_.add("inflated/theirs");
  fs::create_directory_symlink(other_.path(), out() + "/.stoker");
  EXPECT_EQ(convert_it().code(), Code::invalid_argument);
  fs::remove(out() + "/.stoker");
  fs::create_directory(out() + "/.stoker");
  fs::create_directory_symlink(other_.file("inflated"), own("inflated"));
  EXPECT_EQ(convert_it().code(), Code::invalid_argument);
  EXPECT_EQ(other_.harm(), "");
  fs::remove(own("inflated"));
  EXPECT_TRUE(convert_it().ok());
  EXPECT_FALSE(fs::exists(own("inflated")));
}

TEST(PlantedImportTest, the_kind_of_a_folder_does_not_wait_for_a_fifo) {
  const PackDir dir;
  write_text(dir.file("a.parquet"), "PAR1");
  make_fifo(dir.file("_common_metadata"));
  EXPECT_EQ(import_kind_of(dir.path()), "parquet");
}

}  // namespace
}  // namespace stoker::testing
