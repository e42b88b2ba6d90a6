#include "store/local_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/faulty_file_ops.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

namespace fs = std::filesystem;

/// Writes down the crash points it comes by.
class NotingFileOps final : public FaultyFileOps {
 public:
  explicit NotingFileOps(int fail_at = kNever, int os_error = 0)
      : FaultyFileOps(posix_file_ops(), fail_at, os_error) {}
  void reached(std::string_view crash_point) override { points.emplace_back(crash_point); }

  std::vector<std::string> points;
};

class LocalStoreTest : public ::testing::Test {
 protected:
  static Status put(ObjectStore& store, const std::string& key, std::string_view text) {
    STOKER_ASSIGN(const std::unique_ptr<Upload> upload, store.upload(key));
    STOKER_TRY(upload->append(std::as_bytes(std::span(text))));
    return std::move(*upload).commit().status();
  }

  const TempDir dir_{fast_parent()};
};

TEST_F(LocalStoreTest, any_single_fault_of_an_upload_leaves_the_old_object_or_the_new_one) {
  const std::string key = dir_.file("a");
  for (int fault = 0;; ++fault) {
    SCOPED_TRACE(fault);
    ASSERT_TRUE(put(*local_store(), key, "old").ok());
    NotingFileOps ops(fault, EIO);
    const Status status = put(*make_local_store(ops), key, "new!");
    EXPECT_EQ(dir_.entry_count(), 1) << "a staging file was left behind";
    if (!ops.fired()) {
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(contents_of(key), "new!");
      EXPECT_EQ(ops.points,
                (std::vector<std::string>{"publish_file.staged", "publish_file.synced",
                                          "publish_file.switched", "publish_file.durable"}));
      EXPECT_GT(fault, 5);
      break;
    }
    EXPECT_EQ(status.os_error(), EIO) << status.message();
    const bool is_switched = ops.points.size() > 2;
    EXPECT_EQ(contents_of(key), is_switched ? "new!" : "old");
  }
}

TEST_F(LocalStoreTest, links_are_what_they_lead_to_and_a_fifo_is_not_waited_for) {
  ASSERT_TRUE(put(*local_store(), dir_.file("d/object"), "x").ok());
  fs::create_symlink("object", dir_.file("d/link"));
  fs::create_symlink("../d", dir_.file("d/loop"));
  fs::create_symlink("nowhere", dir_.file("d/dangling"));
  ASSERT_EQ(::mkfifo(dir_.file("d/fifo").c_str(), 0600), 0);
  using Kind = ObjectStore::Kind;
  std::vector<std::pair<std::string, Kind>> names;
  ASSERT_TRUE(local_store()
                  ->list(dir_.file("d"),
                         [&](const std::string& name, Kind kind) {
                           names.emplace_back(name, kind);
                           return true;
                         })
                  .ok());
  EXPECT_EQ(names, (std::vector<std::pair<std::string, Kind>>{{"dangling", Kind::other},
                                                              {"fifo", Kind::other},
                                                              {"link", Kind::object},
                                                              {"loop", Kind::folder},
                                                              {"object", Kind::object}}));
  EXPECT_EQ(local_store()->look(dir_.file("d/fifo"))->kind, Kind::other);
  EXPECT_EQ(local_store()->open(dir_.file("d/fifo")).status().code(), Code::invalid_argument);
}

TEST_F(LocalStoreTest, a_file_that_is_changed_while_it_is_open_shows) {
  const std::string key = dir_.file("a");
  ASSERT_TRUE(put(*local_store(), key, "old").ok());
  const auto object = local_store()->open(key);
  ASSERT_TRUE(object.ok());
  ASSERT_NE((*object)->file(), nullptr);
  std::ofstream(key, std::ios::app) << "and more";
  EXPECT_EQ((*object)->info().size_bytes, 3U);
  EXPECT_EQ((*object)->info_now()->size_bytes, 11U);
}

TEST_F(LocalStoreTest, an_object_replaced_at_once_has_a_version_that_none_had) {
  const std::string key = dir_.file("a");
  std::int64_t last = 0;
  for (int i = 0; i < 50; ++i) {  // in memory: many within one tick
    ASSERT_TRUE(put(*local_store(), key, std::to_string(1000 + i)).ok());
    const auto entry = local_store()->look(key);
    ASSERT_TRUE(entry.ok());
    EXPECT_GT(entry->info.version, last);
    last = entry->info.version;
  }
}

}  // namespace
}  // namespace stoker::testing
