// Datasets that are named by URI, on real servers: Ceph and nginx.
#include <gtest/gtest.h>

#include <fstream>

#include "base/token.h"
#include "dataset/fetch_support.h"
#include "dataset/pack/verify.h"
#include "servers/servers.h"
#include "stoker/copy.h"
#include "store/s3/s3_client.h"

namespace stoker::testing {
namespace {

/// A dataset in a directory and below a prefix of the bucket.
class RemoteDatasetTest : public ::testing::TestWithParam<const char*> {
 protected:
  RemoteDatasetTest() {
    options_ = write_dataset(here_.path(), GetParam());
    options_.source.s3 = ceph_options();
    options_.index.cache_directory = cache_.path();
    put(here_.path());
  }
  void put(const std::string& directory) const {
    const auto to = open_store(uri(), ceph_options());
    ASSERT_TRUE(to.ok()) << to.status().message();
    const auto report =
        copy_objects({.store = local_store(), .key = directory}, *to, {.is_verified = false});
    ASSERT_TRUE(report.ok()) << report.status().message();
  }
  std::string uri(const std::string& below = {}) const {
    return "s3://" + ceph_bucket() + "/" + prefix_ + below;
  }
  static void expect_same(const ShardDataset& there, const ShardDataset& here) {
    ASSERT_EQ(there.sample_count(), here.sample_count());
    EXPECT_EQ(there.index().fingerprint(), here.index().fingerprint());
    SampleRecord one;
    SampleRecord other;
    for (std::uint64_t i = 0; i < here.sample_count(); ++i) {
      ASSERT_TRUE(here.read(i, one).ok());
      const Status status = there.read(i, other);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(fields_of(other.view()), fields_of(one.view()));
    }
  }

  const DatasetDir here_;
  const TempDir cache_;
  const std::string prefix_ = "sets-" + make_token();
  ShardDataset::Options options_;
};

INSTANTIATE_TEST_SUITE_P(each, RemoteDatasetTest,
                         ::testing::Values("tar", "tfrecord", "mds", "litdata", "megatron"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(RemoteDatasetTest, samples_of_a_bucket_are_those_of_the_directory) {
  const auto here = open_dataset(here_.path());
  const auto there = open_dataset(uri(), options_);
  ASSERT_TRUE(here && there);
  expect_same(*there, *here);
  EXPECT_EQ(there->source().uri(), uri());
  EXPECT_TRUE(there->describe(0).starts_with(uri("/"))) << there->describe(0);
}

TEST_P(RemoteDatasetTest, its_index_is_kept_on_this_machine_until_an_etag_changes) {
  const auto first = open_dataset(uri(), options_);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->index_path().starts_with(cache_.path())) << first->index_path();
  const auto written = std::filesystem::last_write_time(first->index_path());
  EXPECT_EQ(std::filesystem::last_write_time(open_dataset(uri(), options_)->index_path()), written);

  // Other bytes under the names and sizes of before.
  const DatasetDir other;
  write_dataset(other.path(), GetParam());
  for (const auto& file : std::filesystem::directory_iterator(other.path())) {
    if (!file.is_regular_file() || file.path().extension() == ".json") continue;
    flip_bit(file.path().string(), file.file_size() - 1);
  }
  put(other.path());
  const auto changed = ShardDataset::open(std::array{uri()}, options_);
  if (!changed.ok()) return;  // the byte was one that the format checks
  EXPECT_TRUE((*changed)->index_path() != first->index_path() ||
              std::filesystem::last_write_time(first->index_path()) != written);
}

TEST_P(RemoteDatasetTest, every_byte_of_a_bucket_is_verified) {
  const auto place = open_store(uri(), ceph_options());
  ASSERT_TRUE(place.ok());
  const VerifyOptions options{.cache_directory = cache_.path()};
  const auto report = verify_shards(place->key, options, place->store);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->problems.empty()) << report->problems.front().message;
  EXPECT_EQ(report->sample_count, open_dataset(here_.path())->sample_count());
}

TEST(RemoteDatasetNamesTest, patterns_and_the_top_of_a_bucket_name_shards) {
  const DatasetDir here;
  ShardDataset::Options options = write_dataset(here.path(), "tar");
  options.source.s3 = ceph_options();
  const std::string bucket = "top-" + make_token().substr(0, 20);
  const auto store = s3_store(bucket, ceph_options());
  ASSERT_TRUE(store.ok());
  S3Client client(bucket, ceph_options());
  HttpCall make{.method = "PUT", .key = "."};
  ASSERT_TRUE(client.http().perform(make).ok()) << make.status.message();
  ASSERT_TRUE(
      copy_objects({.store = local_store(), .key = here.path()}, {.store = *store, .key = "."})
          .ok());
  for (const std::string& name :
       {"s3://" + bucket, "s3://" + bucket + "/*.tar", "s3://" + bucket + "/s{0..2}.tar"}) {
    const auto dataset = open_dataset(name, options);
    ASSERT_TRUE(dataset) << name;
    EXPECT_EQ(dataset->sample_count(), 25U) << name;
    EXPECT_EQ(dataset->index().fingerprint(), open_dataset(here.path())->index().fingerprint());
  }
  const auto missing = ShardDataset::open(std::array{"s3://" + bucket + "/s{0..3}.tar"}, options);
  EXPECT_EQ(missing.status().code(), Code::not_found);
  EXPECT_NE(missing.status().message().find("s3.tar"), std::string_view::npos);
}

TEST(RemoteDatasetNamesTest, a_web_server_has_the_shards_that_are_named) {
  const std::string folder = nginx_root() + "/sets-" + make_token();
  std::filesystem::create_directories(folder + "/mds");
  const ShardDataset::Options options = write_dataset(folder, "tar");
  write_dataset(folder + "/mds", "mds");
  const std::string url = nginx_url() + folder.substr(nginx_root().size());
  const auto tars = open_dataset(url + "/s{0..2}.tar", options);
  ASSERT_TRUE(tars);
  EXPECT_EQ(tars->index().fingerprint(), open_dataset(folder + "/*.tar")->index().fingerprint());
  const auto mds = open_dataset(url + "/mds");  // its index.json names the shards
  ASSERT_TRUE(mds);
  EXPECT_EQ(mds->sample_count(), 25U);
  const Status listed = ShardDataset::open(std::array{url}, options).status();
  EXPECT_EQ(listed.code(), Code::unsupported) << listed.message();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace stoker::testing
