// What every store must do, from real servers: Ceph and nginx.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "conformance/object_store_suite.h"
#include "servers/servers.h"
#include "stoker/copy.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

std::shared_ptr<ObjectStore> make_ceph_store() {
  auto store = s3_store(ceph_bucket(), ceph_options());
  EXPECT_TRUE(store.ok()) << store.status().message();
  return store.ok() ? *store : nullptr;
}

std::shared_ptr<ObjectStore> make_nginx_store() {
  auto store = http_store(nginx_url());
  EXPECT_TRUE(store.ok()) << store.status().message();
  return store.ok() ? *store : nullptr;
}

/// Writes a file that nginx serves. Its time is later than that of any before: nginx makes the ETag
/// of the time in seconds and the size.
void put_file(ObjectStore& /*store*/, const std::string& key, const std::string& text) {
  namespace fs = std::filesystem;
  static std::atomic<std::time_t> later{1'000'000'000};
  const fs::path path = nginx_root() + key;
  const std::string fresh = path.string() + ".new";
  fs::create_directories(path.parent_path());
  std::ofstream(fresh, std::ios::binary) << text;
  const timespec time{.tv_sec = ++later, .tv_nsec = 0};
  const timespec times[2] = {time, time};
  ASSERT_EQ(::utimensat(AT_FDCWD, fresh.c_str(), times, 0), 0);
  fs::rename(fresh, path);
}

INSTANTIATE_TEST_SUITE_P(remote, ObjectStoreSuite,
                         ::testing::Values(ObjectStoreMaker{"ceph", make_ceph_store},
                                           ObjectStoreMaker{"nginx", make_nginx_store, put_file,
                                                            /*has_list=*/false}),
                         object_store_name);

TEST(RemoteCopyTest, what_went_to_a_bucket_in_parts_comes_back_the_same) {
  const TempDir dir;
  const std::string large(std::size_t{18} << 20, 'x');  // more than one part
  std::filesystem::create_directories(dir.file("in/folder with space"));
  std::ofstream(dir.file("in/large"), std::ios::binary) << large << "end";
  std::ofstream(dir.file("in/folder with space/%41+ü"), std::ios::binary) << "small";
  const StorePlace bucket{.store = make_ceph_store(), .key = "copies" + dir.path()};
  const auto there = copy_objects({.store = local_store(), .key = dir.file("in")}, bucket);
  ASSERT_TRUE(there.ok()) << there.status().message();
  EXPECT_EQ(there->copied_count, 2U);
  const auto again = copy_objects({.store = local_store(), .key = dir.file("in")}, bucket);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->present_count, 2U);
  const auto back = copy_objects(bucket, {.store = local_store(), .key = dir.file("out")});
  ASSERT_TRUE(back.ok()) << back.status().message();
  for (const char* const name : {"/large", "/folder with space/%41+ü"}) {
    std::ifstream in(dir.file("out") + name, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(bytes, name == std::string("/large") ? large + "end" : "small");
  }
}

}  // namespace
}  // namespace stoker::testing
