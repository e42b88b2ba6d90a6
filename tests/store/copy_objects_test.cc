// Objects are copied between stores: whole, verified, and again after an interruption.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <string>

#include "stoker/copy.h"
#include "store/toys/memory_store.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

using Kind = ObjectStore::Kind;
using Texts = std::map<std::string, std::string>;

void put(ObjectStore& store, const std::string& key, const std::string& text) {
  auto upload = store.upload(key);
  ASSERT_TRUE(upload.ok()) << upload.status().message();
  ASSERT_TRUE((*upload)->append(std::as_bytes(std::span(text))).ok());
  const auto made = std::move(**upload).commit();
  ASSERT_TRUE(made.ok()) << made.status().message();
}

std::string text_of(ObjectStore& store, const std::string& key) {
  const auto object = store.open(key, CachePolicy::buffered);
  if (!object.ok()) return std::string(code_name(object.status().code()));
  std::vector<std::byte> memory((*object)->info().size_bytes);
  const auto bytes = (*object)->read(0, memory.size(), memory);
  if (!bytes.ok()) return std::string(bytes.status().message());
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

/// Copies through another store, and counts or changes what happens.
class Watched final : public ObjectStore {
 public:
  explicit Watched(std::shared_ptr<ObjectStore> below) : below_(std::move(below)) {}

  Result<std::unique_ptr<const Object>> open(const std::string& key, CachePolicy policy) override {
    ++opened;
    return below_->open(key, policy);
  }
  Result<Entry> look(const std::string& key) override { return below_->look(key); }
  Status list(const std::string& folder, const Found& found) override {
    if (folder == hostile_folder) {
      found(hostile_name, Kind::object);
      return {};
    }
    return below_->list(folder, found);
  }
  Result<std::unique_ptr<RangeSource>> make_source(std::uint32_t depth) override {
    return below_->make_source(depth);
  }
  Result<std::unique_ptr<Upload>> upload(const std::string& key) override {
    if (uploads_left == 0) return Status(Code::no_space, key + ": full");
    --uploads_left;
    STOKER_ASSIGN(std::unique_ptr<Upload> made, below_->upload(key));
    if (!is_writing_wrong) return made;
    return std::unique_ptr<Upload>(std::make_unique<WrongUpload>(std::move(made)));
  }
  Status remove(const std::string& key) override { return below_->remove(key); }

  std::atomic<int> opened = 0;
  std::atomic<int> uploads_left = 1000;
  bool is_writing_wrong = false;
  std::string hostile_folder;
  std::string hostile_name;

 private:
  class WrongUpload final : public Upload {
   public:
    explicit WrongUpload(std::unique_ptr<Upload> below) : below_(std::move(below)) {}
    Status append(std::span<const std::byte> data) override {
      std::vector<std::byte> changed(data.begin(), data.end());
      if (!changed.empty()) changed.back() ^= std::byte{1};
      return below_->append(changed);
    }
    Result<ObjectInfo> commit() && override { return std::move(*below_).commit(); }
    Result<ObjectInfo> commit_if_absent() && override {
      return std::move(*below_).commit_if_absent();
    }

   private:
    std::unique_ptr<Upload> below_;
  };
  std::shared_ptr<ObjectStore> below_;
};

class CopyObjectsTest : public ::testing::Test {
 protected:
  CopyObjectsTest() {
    for (const auto& [name, text] : texts_) put(*from_, "top/" + name, text);
  }
  Result<CopyReport> copy(const CopyOptions& options = {}) {
    return copy_objects({.store = from_, .key = "top"}, {.store = to_, .key = "copy"}, options);
  }
  void expect_copied() {
    for (const auto& [name, text] : texts_) EXPECT_EQ(text_of(*to_, "copy/" + name), text) << name;
  }

  // More pieces than are in flight, an object of one piece, an empty one.
  const Texts texts_ = {{"large", std::string((21 << 20) + 3, 'x') + "end"},
                        {"a/small", "bytes"},
                        {"a/b/c/deep", "more"},
                        {"empty", ""}};
  const std::shared_ptr<Watched> from_ = std::make_shared<Watched>(std::make_shared<MemoryStore>());
  const std::shared_ptr<Watched> to_ = std::make_shared<Watched>(std::make_shared<MemoryStore>());
};

TEST_F(CopyObjectsTest, all_objects_below_a_folder_keep_their_names) {
  CopyProgress last;
  const auto report = copy({.progress = [&](const CopyProgress& now) {
    EXPECT_GE(now.copied_bytes, last.copied_bytes);
    EXPECT_LE(now.done_count, now.object_count);
    last = now;
  }});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->copied_count, 4U);
  EXPECT_EQ(report->present_count, 0U);
  EXPECT_EQ(report->copied_bytes, texts_.at("large").size() + 9);
  EXPECT_EQ(last.done_count, 4U);
  EXPECT_EQ(last.copied_bytes, report->copied_bytes);
  expect_copied();
}

TEST_F(CopyObjectsTest, what_is_there_is_compared_and_only_what_differs_is_copied) {
  ASSERT_TRUE(copy().ok());
  put(*to_, "copy/a/small", "other");      // of the same size
  put(*to_, "copy/a/b/c/deep", "longer");  // of another one
  const auto report = copy();
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->copied_count, 2U);
  EXPECT_EQ(report->present_count, 2U);
  EXPECT_EQ(report->present_bytes, texts_.at("large").size());
  expect_copied();
}

TEST_F(CopyObjectsTest, with_skip_sizes_alone_are_compared) {
  ASSERT_TRUE(copy().ok());
  put(*to_, "copy/a/small", "other");
  put(*to_, "copy/a/b/c/deep", "longer");
  to_->opened = 0;
  const auto report = copy({.if_present = IfPresent::skip, .is_verified = false});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->copied_count, 1U);
  EXPECT_EQ(to_->opened, 0) << "nothing was read there";
  EXPECT_EQ(text_of(*to_, "copy/a/small"), "other");
  EXPECT_EQ(text_of(*to_, "copy/a/b/c/deep"), "more");
}

TEST_F(CopyObjectsTest, with_fail_nothing_is_replaced_and_with_replace_all_is) {
  put(*to_, "copy/a/small", "other");
  const auto failed = copy({.if_present = IfPresent::fail, .objects_in_flight = 1});
  EXPECT_EQ(failed.status().code(), Code::already_exists);
  EXPECT_NE(failed.status().message().find("a/small"), std::string_view::npos);
  EXPECT_EQ(text_of(*to_, "copy/a/small"), "other");
  const auto report = copy({.if_present = IfPresent::replace});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->copied_count, 4U);
  expect_copied();
}

TEST_F(CopyObjectsTest, one_object_gets_the_name_it_is_given_or_its_own_in_a_folder) {
  const StorePlace small{.store = from_, .key = "top/a/small"};
  ASSERT_TRUE(copy_objects(small, {.store = to_, .key = "renamed"}).ok());
  EXPECT_EQ(text_of(*to_, "renamed"), "bytes");
  put(*to_, "folder/x", "x");
  ASSERT_TRUE(copy_objects(small, {.store = to_, .key = "folder"}).ok());
  EXPECT_EQ(text_of(*to_, "folder/small"), "bytes");
  ASSERT_TRUE(copy_objects(small, {.store = to_, .key = "."}).ok());
  EXPECT_EQ(text_of(*to_, "small"), "bytes");
  EXPECT_EQ(
      copy_objects({.store = from_, .key = "none"}, {.store = to_, .key = "x"}).status().code(),
      Code::not_found);
}

TEST_F(CopyObjectsTest, what_was_written_wrong_is_found) {
  to_->is_writing_wrong = true;
  const auto report = copy();
  EXPECT_EQ(report.status().code(), Code::corrupt);
  EXPECT_NE(report.status().message().find("read back"), std::string_view::npos);
  to_->is_writing_wrong = false;
  ASSERT_TRUE(copy().ok()) << "what differs is replaced";
  expect_copied();
}

TEST_F(CopyObjectsTest, after_an_error_the_same_call_continues) {
  to_->uploads_left = 2;
  const auto failed = copy({.objects_in_flight = 1});
  EXPECT_EQ(failed.status().code(), Code::no_space);
  to_->uploads_left = 1000;
  const auto report = copy();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->copied_count, 2U);
  EXPECT_EQ(report->present_count, 2U);
  expect_copied();
}

TEST_F(CopyObjectsTest, it_ends_when_it_is_told_to) {
  std::atomic<int> asked = 0;
  const auto report = copy({.is_interrupted = [&] { return ++asked > 8; }});
  EXPECT_EQ(report.status().code(), Code::cancelled);
  EXPECT_EQ(text_of(*to_, "copy/large"), "not_found") << "not in part";
}

TEST_F(CopyObjectsTest, each_fault_of_a_source_ends_the_copy_and_leaves_nothing_wrong) {
  for (int fault = 0; fault < 8; ++fault) {
    std::atomic<int> reads = 0;
    const auto faulty = std::make_shared<MemoryStore>(
        [&](const Object&, std::uint64_t, std::size_t) { return reads++ == fault ? EIO : 0; });
    for (const auto& [name, text] : texts_) put(*faulty, "top/" + name, text);
    const auto to = std::make_shared<MemoryStore>();
    const auto failed = copy_objects({.store = faulty, .key = "top"}, {.store = to, .key = "copy"});
    EXPECT_EQ(failed.status().code(), Code::io_error) << fault;
    for (const auto& [name, text] : texts_) {
      const std::string found = text_of(*to, "copy/" + name);
      EXPECT_TRUE(found == text || found == "not_found") << name;
    }
  }
}

TEST_F(CopyObjectsTest, no_name_of_a_server_leads_out_of_a_local_folder) {
  const TempDir dir;
  for (const char* const name : {"..", "../out", "a/b", "", "."}) {
    from_->hostile_folder = "top";
    from_->hostile_name = name;
    const auto report = copy_objects({.store = from_, .key = "top"},
                                     {.store = local_store(), .key = dir.file("in")});
    EXPECT_EQ(report.status().code(), Code::invalid_argument) << name;
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST_F(CopyObjectsTest, files_come_and_go_and_what_is_no_file_is_refused) {
  const TempDir dir;
  const StorePlace files{.store = local_store(), .key = dir.file("in")};
  ASSERT_TRUE(copy_objects({.store = from_, .key = "top"}, files).ok());
  ASSERT_TRUE(copy_objects(files, {.store = to_, .key = "copy"}).ok());
  expect_copied();
  ASSERT_EQ(::mkfifo(dir.file("in/fifo").c_str(), 0600), 0);
  const auto report = copy_objects(files, {.store = to_, .key = "copy"});
  EXPECT_EQ(report.status().code(), Code::invalid_argument);
  EXPECT_NE(report.status().message().find("fifo"), std::string_view::npos);
  std::filesystem::remove(dir.file("in/fifo"));
  std::filesystem::create_directory_symlink("..", dir.file("in/loop"));
  EXPECT_EQ(copy_objects(files, {.store = to_, .key = "copy"}).status().code(),
            Code::invalid_argument);
}

TEST_F(CopyObjectsTest, a_place_without_a_store_is_refused) {
  const StorePlace good{.store = local_store(), .key = "in"};
  EXPECT_EQ(copy_objects({}, good).status().code(), Code::invalid_argument);
  EXPECT_EQ(copy_objects(good, {}).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace stoker::testing
