#include "dataset/pack/pack_upload.h"

#include <sys/stat.h>

#include "dataset/pack_support.h"
#include "dataset/shards/dataset_manifest.h"
#include "io/files/directories.h"
#include "store/local_store.h"

namespace stoker::testing {
namespace {

class PackUploadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(dir_.file("src"), 22);
    const auto source = open_source(dir_.file("src"));
    ASSERT_TRUE(pack(posix_file_ops(), *source, staged_, small_shards("tar")).ok());
  }
  Status upload() { return upload_packed(posix_file_ops(), staged_, to_, {}); }

  const PackDir dir_;
  const std::string staged_ = dir_.file("staged");
  const StorePlace to_{local_store(), dir_.file("there")};
};

TEST_F(PackUploadTest, what_was_packed_arrives_and_leaves_nothing_behind) {
  const Result<Manifest> manifest = read_manifest(staged_);
  ASSERT_TRUE(manifest.ok());
  EXPECT_TRUE(check_vacant(to_).ok());
  const Status status = upload();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_FALSE(std::filesystem::exists(staged_));
  EXPECT_EQ(*read_manifest(to_.key), *manifest);
  const auto dataset = ShardDataset::open(to_.key);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  EXPECT_EQ((*dataset)->sample_count(), 22U);
  EXPECT_EQ(check_vacant(to_).code(), Code::already_exists);
}

TEST_F(PackUploadTest, a_folder_whose_shards_are_not_all_there_has_no_manifest_and_can_continue) {
  const std::string name = read_manifest(staged_)->shards[1].file.name;
  std::filesystem::create_directories(to_.key);
  ASSERT_EQ(::mkfifo((to_.key + "/" + name).c_str(), 0600), 0);  // in the way of the shard
  EXPECT_FALSE(upload().ok());
  EXPECT_EQ(read_manifest(to_.key).status().code(), Code::not_found);
  EXPECT_TRUE(std::filesystem::exists(staged_));
  std::filesystem::remove(to_.key + "/" + name);
  EXPECT_TRUE(upload().ok());
  EXPECT_TRUE(read_manifest(to_.key).ok());
}

TEST_F(PackUploadTest, an_interrupt_leaves_the_shards_where_they_were_made) {
  std::stop_source stop;
  stop.request_stop();
  const Status status = upload_packed(posix_file_ops(), staged_, to_, {.stop = stop.get_token()});
  EXPECT_EQ(status.code(), Code::cancelled) << status.message();
  EXPECT_EQ(read_manifest(to_.key).status().code(), Code::not_found);
  EXPECT_TRUE(read_manifest(staged_).ok());
}

TEST(PackStagingTest, each_destination_has_its_own_place) {
  EXPECT_EQ(pack_staging_of("/c", "s3://b/x"), pack_staging_of("/c", "s3://b/x"));
  EXPECT_NE(pack_staging_of("/c", "s3://b/x"), pack_staging_of("/c", "s3://b/y"));
}

}  // namespace
}  // namespace stoker::testing
