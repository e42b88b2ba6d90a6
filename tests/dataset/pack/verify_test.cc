#include "dataset/pack/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "dataset/dataset_support.h"
#include "dataset/index/derived_file.h"
#include "dataset/index/index_store.h"
#include "dataset/pack_support.h"
#include "dataset/shards/dataset_manifest.h"

namespace stoker::testing {
namespace {

constexpr std::size_t kSamples = 9;

void make_dataset(const PackDir& dir, const std::string& format) {
  if (format == "tokens" || format == "counted") {
    write_text(dir.file("t.bin"), noise(2 * 64 * kSamples, 5));
    const auto source =
        open_source(dir.file("t.bin"), {.dtype = Dtype::uint16, .sequence_length = 64});
    ASSERT_TRUE(pack(posix_file_ops(), *source, dir.file("d"), small_shards(format)).ok());
    return;
  }
  write_images(dir.file("src"), kSamples);
  const auto source = open_source(dir.file("src"));
  ASSERT_TRUE(pack(posix_file_ops(), *source, dir.file("d"), small_shards(format)).ok());
}

VerifyReport verify(const PackDir& dir) {
  auto report = verify_shards(dir.file("d"));
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? *std::move(report) : VerifyReport{};
}

void flip(const std::string& path, std::size_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ 0x10));
}

std::set<std::string> paths_of(const VerifyReport& report) {
  std::set<std::string> paths;
  for (const VerifyProblem& problem : report.problems) paths.insert(problem.path);
  return paths;
}

class VerifyFormatTest : public ::testing::TestWithParam<std::string> {};

TEST_P(VerifyFormatTest, a_whole_dataset_is_well) {
  const PackDir dir;
  make_dataset(dir, GetParam());
  const VerifyReport report = verify(dir);
  EXPECT_TRUE(report.problems.empty()) << report.problems[0].message;
  EXPECT_TRUE(report.has_manifest);
  EXPECT_TRUE(report.has_checksums);
  EXPECT_EQ(report.sample_count, kSamples);
  EXPECT_EQ(report.shard_count, 3U);
}

TEST_P(VerifyFormatTest, a_flipped_byte_anywhere_is_found_and_its_sample_named) {
  const PackDir dir;
  make_dataset(dir, GetParam());
  const auto dataset = ShardDataset::open(dir.file("d"));
  ASSERT_TRUE(dataset.ok());
  const Index& index = (*dataset)->index();
  for (std::size_t shard = 0; shard < index.shards().size(); ++shard) {
    const IndexedShard& info = index.shards()[shard];
    const std::string path = dir.file("d/" + info.name);
    for (std::size_t at = shard; at < info.size_bytes; at += info.size_bytes / 23 + 1) {
      SCOPED_TRACE(path + " " + std::to_string(at));
      flip(path, at);
      const VerifyReport report = verify(dir);
      flip(path, at);
      std::vector<std::uint64_t> named;
      bool names_shard = false;
      for (const VerifyProblem& problem : report.problems) {
        EXPECT_EQ(problem.path, path);
        if (problem.offset_bytes) named.push_back(*problem.offset_bytes);
        if (problem.offset_bytes) {
          EXPECT_NE(problem.key, "");
        }
        if (!problem.offset_bytes) names_shard = true;
      }
      EXPECT_TRUE(names_shard);
      std::vector<std::uint64_t> expected;
      for (std::uint64_t i = 0; i < info.sample_count; ++i) {
        const ByteRange record = index.locate(info.first_sample + i)->record;
        if (at >= record.offset_bytes && at < record.end_bytes())
          expected.push_back(record.offset_bytes);
      }
      EXPECT_EQ(named, expected);
    }
  }
  EXPECT_TRUE(verify(dir).problems.empty());
}

TEST_P(VerifyFormatTest, several_bad_shards_are_all_named) {
  const PackDir dir;
  make_dataset(dir, GetParam());
  const auto manifest = read_manifest(dir.file("d"));
  ASSERT_TRUE(manifest.ok());
  flip(dir.file("d/" + manifest->shards[0].file.name), 50);
  std::filesystem::resize_file(dir.file("d/" + manifest->shards[1].file.name), 64);
  const VerifyReport report = verify(dir);
  for (const std::size_t i : {0U, 1U}) {
    const std::string path = dir.file("d/" + manifest->shards[i].file.name);
    EXPECT_TRUE(std::any_of(report.problems.begin(), report.problems.end(),
                            [&](const VerifyProblem& problem) { return problem.path == path; }))
        << path;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, VerifyFormatTest,
                         ::testing::Values("tar", "mds", "tfrecord", "tokens"),
                         [](const auto& test) { return test.param; });

TEST(VerifyTest, a_damaged_index_is_a_problem_and_samples_are_still_checked) {
  const PackDir dir;
  make_dataset(dir, "tar");
  const std::string path = (*ShardDataset::open(dir.file("d")))->index_path();
  for (std::size_t at = 0; at < std::filesystem::file_size(path); at += 4999) {
    SCOPED_TRACE(at);
    flip(path, at);
    const VerifyReport report = verify(dir);
    flip(path, at);
    ASSERT_EQ(report.problems.size(), 1U);
    EXPECT_EQ(report.problems[0].path, path);
    EXPECT_TRUE(report.problems[0].message.starts_with("index: ")) << report.problems[0].message;
    EXPECT_EQ(report.sample_count, kSamples);
    EXPECT_FALSE(report.has_checksums);
  }
  EXPECT_TRUE(verify(dir).problems.empty());
}

TEST(VerifyTest, missing_extra_and_changed_files_are_named) {
  const PackDir dir;
  make_dataset(dir, "tar");
  std::filesystem::copy_file(dir.file("d/shard-000000.tar"), dir.file("d/shard-000009.tar"));
  std::filesystem::remove(dir.file("d/shard-000001.tar"));
  write_text(dir.file("d/classes.json"), "{}");
  const VerifyReport report = verify(dir);
  std::vector<std::string> paths;
  for (const VerifyProblem& problem : report.problems) paths.push_back(problem.path);
  EXPECT_EQ(paths,
            (std::vector<std::string>{dir.file("d/classes.json"), dir.file("d/shard-000001.tar"),
                                      dir.file("d/shard-000009.tar")}));
}

TEST(VerifyTest, a_damaged_manifest_is_a_problem_and_samples_are_still_checked) {
  const PackDir dir;
  make_dataset(dir, "tar");
  write_text(dir.file("d/manifest.json"), "{");
  const VerifyReport report = verify(dir);
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(report.problems[0].path, dir.file("d/manifest.json"));
  EXPECT_EQ(report.sample_count, kSamples);
}

TEST(VerifyTest, a_damaged_manifest_of_arrays_without_a_header_is_the_one_problem) {
  const PackDir dir;
  make_dataset(dir, "counted");
  flip(dir.file("d/manifest.json"), 0);
  EXPECT_EQ(paths_of(verify(dir)), (std::set<std::string>{dir.file("d/manifest.json")}));
}

TEST(VerifyTest, without_manifest_and_index_each_shard_is_scanned_by_itself) {
  const PackDir dir;
  make_dataset(dir, "tar");
  std::filesystem::remove(dir.file("d/manifest.json"));
  std::filesystem::remove_all(dir.file("d/.stoker"));
  VerifyReport report = verify(dir);
  EXPECT_TRUE(report.problems.empty());
  EXPECT_FALSE(report.has_manifest);
  EXPECT_FALSE(report.has_checksums);
  EXPECT_EQ(report.sample_count, kSamples);
  EXPECT_FALSE(std::filesystem::exists(dir.file("d/.stoker"))) << "verify writes nothing";
  flip(dir.file("d/shard-000001.tar"), 150);  // the header's checksum
  report = verify(dir);
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(report.problems[0].path, dir.file("d/shard-000001.tar"));
}

TEST(VerifyTest, plain_mds_shards_are_held_against_their_digests) {
  const PackDir dir;
  const std::string path = dir.file("d/shard.00001.mds");
  write_mds(dir.file("d"), make_samples(20), 10);
  EXPECT_TRUE(verify(dir).problems.empty());
  flip(path, std::filesystem::file_size(path) - 3);
  const VerifyReport report = verify(dir);
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(report.problems[0].path, path);
  EXPECT_NE(report.problems[0].message.find("sha256"), std::string::npos);
  EXPECT_EQ(report.sample_count, 20U) << "its samples are looked at all the same";
}

TEST(VerifyTest, an_mds_shard_that_is_cut_short_or_missing_does_not_hide_the_others) {
  const PackDir dir;
  write_mds(dir.file("d"), make_samples(30), 10);
  std::filesystem::resize_file(dir.file("d/shard.00000.mds"), 100);
  flip(dir.file("d/shard.00001.mds"),
       std::filesystem::file_size(dir.file("d/shard.00001.mds")) - 3);
  const std::set<std::string> bad = {dir.file("d/shard.00000.mds"), dir.file("d/shard.00001.mds")};
  VerifyReport report = verify(dir);
  EXPECT_EQ(paths_of(report), bad);
  EXPECT_EQ(report.sample_count, 20U);
  EXPECT_EQ(ShardDataset::open(dir.file("d")).status().code(), Code::corrupt)
      << "reading stays strict";

  std::filesystem::remove(dir.file("d/shard.00000.mds"));
  report = verify(dir);
  EXPECT_EQ(paths_of(report), bad) << "what cannot be opened is a problem, not a failure";
  EXPECT_EQ(report.sample_count, 20U);
  EXPECT_EQ(ShardDataset::open(dir.file("d")).status().code(), Code::not_found);

  write_text(dir.file("d/index.json"), "{");
  report = verify(dir);
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_TRUE(report.problems[0].message.starts_with(dir.file("d/index.json") + ": byte "))
      << report.problems[0].message;
}

TEST(VerifyTest, a_pack_that_was_not_finished_is_a_problem) {
  const PackDir dir;
  write_images(dir.file("src"), kSamples);
  const auto source = open_source(dir.file("src"));
  PackOptions options = small_shards("tar");
  options.task_count = 2;
  ASSERT_TRUE(pack(posix_file_ops(), *source, dir.file("d"), options).ok());
  const VerifyReport report = verify(dir);
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(report.problems[0].path, dir.file("d"));
  EXPECT_TRUE(report.problems[0].message.starts_with("packing was not finished"));
  EXPECT_EQ(ShardDataset::open(dir.file("d")).status().code(), Code::invalid_argument);
  EXPECT_TRUE(ShardDataset::open(dir.file("d/*.tar")).ok()) << "whoever names files wants these";
}

TEST(VerifyTest, a_damaged_megatron_index_is_named) {
  const PackDir dir;
  make_dataset(dir, "tokens");
  flip(dir.file("d/shard-000001.idx"), 40);
  const VerifyReport report = verify(dir);
  EXPECT_TRUE(std::any_of(report.problems.begin(), report.problems.end(),
                          [&](const VerifyProblem& problem) {
                            return problem.path == dir.file("d/shard-000001.idx");
                          }));
}

TEST(VerifyTest, an_index_in_the_cache_is_looked_at_and_used) {
  const PackDir dir;
  make_dataset(dir, "tar");
  const std::string pattern = dir.file("d");
  const auto source = open_shards({&pattern, 1});
  ASSERT_TRUE(source.ok());
  const DerivedPlace place = derived_places(**source, dir.file("cache"))[1];
  const std::string cached = place.root + "/" + place.name + "/" + index_name(**source);
  std::filesystem::create_directories(place.root + "/" + place.name);
  std::filesystem::rename(dir.file("d/.stoker/" + index_name(**source)), cached);
  const VerifyOptions options{.cache_directory = dir.file("cache")};
  EXPECT_FALSE(verify(dir).has_checksums);
  auto report = verify_shards(dir.file("d"), options);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->has_checksums);
  EXPECT_TRUE(report->problems.empty());
  flip(cached, 4096 + 40);
  report = verify_shards(dir.file("d"), options);
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->problems.size(), 1U);
  EXPECT_EQ(report->problems[0].path, cached);
}

TEST(VerifyTest, what_is_not_there_is_not_found) {
  const PackDir dir;
  EXPECT_EQ(verify_shards(dir.file("absent")).status().code(), Code::not_found);
  EXPECT_EQ(verify_shards(dir.path()).status().code(), Code::not_found);
}

TEST(VerifyTest, a_stop_is_obeyed) {
  const PackDir dir;
  make_dataset(dir, "tar");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(verify_shards(dir.file("d"), {.stop = stop.get_token()}).status().code(),
            Code::cancelled);
}

}  // namespace
}  // namespace stoker::testing
