#include <gtest/gtest.h>

#include <set>

#include "dataset/dataset_support.h"
#include "dataset/key_search.h"
#include "dataset/pack/verify.h"
#include "dataset/shards/dataset_manifest.h"
#include "golden/litdata/litdata_golden.h"

namespace stoker::testing {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Result<std::shared_ptr<const ShardDataset>> open(const std::vector<std::string>& patterns) {
  return ShardDataset::open(patterns, {});
}

/// The labels and image sizes of all samples, in order.
std::vector<std::string> samples_of(const ShardDataset& dataset) {
  std::vector<std::string> samples;
  SampleRecord record;
  for (std::uint64_t i = 0; i < dataset.sample_count(); ++i) {
    const Status status = dataset.read(i, record);
    EXPECT_TRUE(status.ok()) << status.message();
    const auto& fields = record.view().fields;
    samples.push_back(std::string(reinterpret_cast<const char*>(fields[0].bytes.data()), 1) + " " +
                      std::to_string(fields[1].bytes.size()));
  }
  return samples;
}

std::set<std::string> keys_of(const ShardDataset& dataset) {
  std::set<std::string> keys;
  SampleRecord record;
  for (std::uint64_t i = 0; i < dataset.sample_count(); ++i)
    if (dataset.read(i, record).ok()) keys.insert(record.key());
  return keys;
}

std::string failure_of(const std::vector<std::string>& patterns) {
  const auto dataset = open(patterns);
  if (dataset.ok()) return "opened";
  return std::string(code_name(dataset.status().code())) + ": " +
         std::string(dataset.status().message());
}

/// Two MDS datasets, "all/en" and "all/de", and the index of both that streaming's merge_index()
/// writes.
class ShardDirectoriesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_mds(file("all/en"), make_samples(5), 2);
    write_mds(file("all/de"), make_samples(4, 20), 3, "zstd");
    write_merged({"en", "de"});
  }

  void write_merged(const std::vector<std::string>& parts) const {
    std::vector<MdsShard> merged;
    for (const std::string& part : parts) {
      const auto shards = parse_mds_index(text_of(file("all/" + part + "/index.json")));
      ASSERT_TRUE(shards.ok());
      for (MdsShard shard : *shards) {
        shard.raw.basename.insert(0, part + "/");
        if (shard.zip) shard.zip->basename.insert(0, part + "/");
        merged.push_back(std::move(shard));
      }
    }
    write_file(file("all/index.json"), bytes_of(format_mds_index(merged)));
  }

  std::string file(const std::string& name) const { return dir_.file(name); }

  const DatasetDir dir_;
};

TEST_F(ShardDirectoriesTest, a_merged_mds_dataset_is_its_parts_in_their_order) {
  const auto merged = open({file("all")});
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  std::vector<std::string> expected = samples_of(**open({file("all/en")}));
  for (const std::string& sample : samples_of(**open({file("all/de")}))) expected.push_back(sample);
  EXPECT_EQ(samples_of(**merged), expected);
  EXPECT_EQ((*merged)->source().directory(), file("all"));
  EXPECT_TRUE((*merged)->index_path().starts_with(file("all/.stoker/")));
}

TEST_F(ShardDirectoriesTest, several_directories_and_globs_of_them_are_one_dataset) {
  const auto merged = open({file("all")});
  const auto listed = open({file("all/en"), file("all/de/")});
  ASSERT_TRUE(listed.ok()) << listed.status().message();
  EXPECT_EQ(samples_of(**listed), samples_of(**merged));
  EXPECT_EQ((*listed)->index().fingerprint(), (*merged)->index().fingerprint());
  const auto matched = open({file("all/??")});  // bytewise: de, en
  ASSERT_TRUE(matched.ok()) << matched.status().message();
  EXPECT_EQ(samples_of(**matched), samples_of(**open({file("all/de"), file("all/en")})));
  EXPECT_EQ(samples_of(**open({file("all/{en,de}")})), samples_of(**merged));
}

TEST_F(ShardDirectoriesTest, another_order_of_parts_that_look_alike_is_another_dataset) {
  write_mds(file("all/en"), make_samples(3), 3);
  write_mds(file("all/de"), make_samples(3), 3);
  const auto one = open({file("all/en"), file("all/de")});
  const auto other = open({file("all/de"), file("all/en")});
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE((*one)->index().fingerprint(), (*other)->index().fingerprint());
}

TEST_F(ShardDirectoriesTest, keys_of_parts_with_the_same_shard_names_are_unique_and_found) {
  const auto merged = open({file("all")});
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(keys_of(**merged).size(), 9U);
  EXPECT_TRUE(keys_of(**merged).contains("de/shard.00000/2"));
  const auto found = find_key(**merged, "de/shard.00000/2");
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(*found, 7U);
}

TEST_F(ShardDirectoriesTest, damage_in_a_part_is_named_by_its_path) {
  const std::string shard = file("all/en/shard.00001.mds");
  std::string bytes = text_of(shard);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(shard, bytes_of(bytes));
  const auto report = verify_shards(file("all"));
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_EQ(report->problems.size(), 1U);
  EXPECT_EQ(report->problems[0].path, shard);
  EXPECT_EQ(report->sample_count, 9U);

  std::filesystem::resize_file(shard, bytes.size() - 1);
  EXPECT_TRUE(failure_of({file("all")}).starts_with("corrupt: " + shard));
  std::filesystem::remove(shard);
  EXPECT_NE(failure_of({file("all/en"), file("all/de")}).find(shard), std::string::npos);
}

TEST_F(ShardDirectoriesTest, parts_with_other_columns_are_named) {
  write_file(file("all/de/shard.00000.mds"), {});
  std::string index = text_of(file("all/de/index.json"));
  for (std::size_t at = 0; (at = index.find("\"cls\"", at)) != std::string::npos;)
    index.replace(at, 5, "\"abc\"");
  write_file(file("all/de/index.json"), bytes_of(index));
  const std::string answer = failure_of({file("all/en"), file("all/de")});
  EXPECT_TRUE(answer.starts_with("unsupported: " + file("all/de/"))) << answer;
  EXPECT_NE(answer.find("its columns differ from those of " + file("all/en/shard.00000.mds")),
            std::string::npos)
      << answer;
}

TEST_F(ShardDirectoriesTest, directories_of_tars_are_one_dataset_and_formats_do_not_mix) {
  for (const char* name : {"t/a", "t/b"}) std::filesystem::create_directories(file(name));
  write_tar(file("t/a/x.tar"), make_samples(2));
  write_tar(file("t/b/x.tar"), make_samples(3, 2));
  const auto tars = open({file("t/b"), file("t/a")});
  ASSERT_TRUE(tars.ok()) << tars.status().message();
  EXPECT_EQ((*tars)->sample_count(), 5U);
  EXPECT_EQ((*tars)->source().shards()[0].name, "b/x.tar");

  EXPECT_TRUE(
      failure_of({file("t/a"), file("all/en")})
          .starts_with("invalid_argument: " + file("all/en") + ": contains shards of another"));
  EXPECT_TRUE(failure_of({file("t/a"), file("t/b/x.tar")})
                  .starts_with("invalid_argument: " + file("t/a") + ": name either directories"));
  write_litdata(file("l1"), kLitdataTreeChunk, kLitdataTreeIndex, "chunk-0-0.bin");
  write_litdata(file("l2"), kLitdataTreeChunk, kLitdataTreeIndex, "chunk-0-0.bin");
  EXPECT_TRUE(failure_of({file("l1"), file("l2")}).starts_with("unsupported: " + file("l2")));
}

TEST_F(ShardDirectoriesTest, each_directory_is_held_against_its_own_manifest) {
  for (const char* name : {"t/a", "t/b"}) std::filesystem::create_directories(file(name));
  write_tar(file("t/a/x.tar"), make_samples(2));
  write_tar(file("t/b/x.tar"), make_samples(3));
  Manifest manifest;
  manifest.format = "tar";
  manifest.created_by = "stoker";
  ManifestShard& shard = manifest.shards.emplace_back();
  shard.file.name = "lost.tar";
  shard.sample_count = 1;
  ASSERT_TRUE(publish_manifest(posix_file_ops(), file("t/b"), manifest).ok());
  const std::string answer = failure_of({file("t/a"), file("t/b")});
  EXPECT_TRUE(answer.starts_with("not_found: " + file("t/b/lost.tar"))) << answer;
}

}  // namespace
}  // namespace stoker::testing
