// A store of a program, as stoker/store.h describes it, and what it throws.
#include "stoker/store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "api/shards.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::contents_of;
using testing::Folder;
using testing::must;

/// The key of an object that cannot be read.
std::string refused;

class MemoryObject final : public Object {
 public:
  MemoryObject(std::string key, std::string bytes, const std::function<void()>& before_read)
      : key_(std::move(key)), bytes_(std::move(bytes)), before_read_(before_read) {}
  const std::string& key() const noexcept override { return key_; }
  const ObjectInfo& info() const noexcept override { return info_; }
  Result<std::span<std::byte>> read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                    std::span<std::byte> memory) const override {
    if (before_read_) before_read_();
    if (key_ == refused) return Status(Code::denied, "the vault is shut");
    const std::string part =
        offset_bytes < bytes_.size() ? bytes_.substr(offset_bytes, size_bytes) : std::string();
    std::ranges::copy(std::as_bytes(std::span(part)), memory.begin());
    return memory.first(part.size());
  }

 private:
  const std::string key_;
  const std::string bytes_;
  const ObjectInfo info_{.size_bytes = bytes_.size(), .version = 1};
  const std::function<void()>& before_read_;
};

/// Objects in the folder "data", which are read with the source of ObjectStore.
class MemoryStore final : public ObjectStore {
 public:
  std::map<std::string, std::string> objects;
  std::function<void()> before_read;
  std::function<void()> before_source;
  bool opens_nothing = false;
  bool makes_no_source = false;

  Result<std::unique_ptr<const Object>> open(const std::string& key, CachePolicy) override {
    if (opens_nothing) return std::unique_ptr<const Object>();
    const auto found = objects.find(key);
    if (found == objects.end()) return Status(Code::not_found, key + ": no object");
    return std::unique_ptr<const Object>(
        std::make_unique<MemoryObject>(key, found->second, before_read));
  }
  Result<Entry> look(const std::string& key) override {
    if (key == "data") return Entry{.kind = Kind::folder};
    const auto found = objects.find(key);
    if (found == objects.end()) return Status(Code::not_found, key + ": no object");
    return Entry{.kind = Kind::object, .info = {.size_bytes = found->second.size(), .version = 1}};
  }
  Status list(const std::string& folder, const Found& found) override {
    for (const auto& [key, bytes] : objects)
      if (!found(key.substr(folder.size() + 1), Kind::object)) break;
    return {};
  }
  Result<std::unique_ptr<RangeSource>> make_source(std::uint32_t depth) override {
    if (before_source) before_source();
    if (makes_no_source) return std::unique_ptr<RangeSource>();
    return ObjectStore::make_source(depth);
  }
  Result<std::unique_ptr<Upload>> upload(const std::string& key) override {
    return Status(Code::unsupported, key + ": this store is only read");
  }
  Status remove(const std::string& key) override {
    return {Code::unsupported, key + ": this store is only read"};
  }
};

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    const Folder folder;
    testing::write_tars(folder, 60);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      store_->objects["data/" + entry.path().filename().string()] =
          contents_of(entry.path().string());
  }
  Dataset dataset() const { return must(Dataset::open({.source = {"data"}, .store = store_})); }
  /// The error of the first batch that fails, if the store throws from then on that a loader is
  /// open.
  Status failure(const Dataset& dataset, const std::function<void()>& in_read,
                 const std::function<void()>& in_source = {}) const {
    Loader loader =
        must(Loader::open({.data = dataset, .batch_size = 5, .fields = testing::image_fields()}));
    const Armed armed(*store_, in_read, in_source);
    for (;;) {
      const Result<std::optional<Batch>> batch = loader.next();
      if (!batch.ok()) return batch.status();
      if (!*batch) return {};
    }
  }

  class Armed {
   public:
    Armed(MemoryStore& store, const std::function<void()>& in_read,
          const std::function<void()>& in_source)
        : store_(store) {
      store_.before_read = in_read;
      store_.before_source = in_source;
    }
    Armed(const Armed&) = delete;
    Armed& operator=(const Armed&) = delete;
    ~Armed() { store_.before_read = store_.before_source = nullptr; }

   private:
    MemoryStore& store_;
  };

  const std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
};

TEST_F(StoreTest, a_loader_reads_from_it) {
  EXPECT_EQ(dataset().size(), 60U);
  EXPECT_TRUE(failure(dataset(), {}).ok());
}

TEST_F(StoreTest, what_it_throws_in_a_thread_of_the_loader_is_the_error_of_the_batch) {
  const Dataset data = dataset();
  const auto seven = [] { throw 7; };
  const auto shut = [] { throw std::runtime_error("my bucket is shut"); };
  for (const Status& status : {failure(data, seven), failure(data, {}, seven)})
    EXPECT_EQ(status.code(), Code::invalid_argument) << status.message();
  for (const Status& status : {failure(data, shut), failure(data, {}, shut)}) {
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.message().find("my bucket is shut"), std::string_view::npos);
  }
  EXPECT_TRUE(failure(data, {}).ok());
}

TEST_F(StoreTest, exceptions_of_the_system_keep_their_meaning) {
  const Dataset data = dataset();
  EXPECT_EQ(failure(data, [] { throw std::bad_alloc(); }).os_error(), ENOMEM);
  EXPECT_EQ(failure(data, [] { throw std::system_error(EACCES, std::generic_category()); }).code(),
            Code::denied);
}

TEST_F(StoreTest, what_it_throws_while_a_dataset_is_opened_or_read_is_a_status) {
  const Dataset data = dataset();
  store_->before_read = [] { throw 7; };
  EXPECT_EQ(Dataset::open({.source = {"data"}, .store = store_}).status().code(),
            Code::invalid_argument);
  EXPECT_EQ(data.read(3).status().code(), Code::invalid_argument);
}

TEST_F(StoreTest, null_in_place_of_an_object_or_a_source_is_said) {
  store_->opens_nothing = true;
  const Status opened = Dataset::open({.source = {"data"}, .store = store_}).status();
  EXPECT_EQ(opened.code(), Code::invalid_argument);
  EXPECT_NE(opened.message().find("open() of an ObjectStore returned null"), std::string_view::npos)
      << opened.message();
  store_->opens_nothing = false;
  const Dataset data = dataset();
  store_->makes_no_source = true;
  const Status read = failure(data, {});
  EXPECT_EQ(read.code(), Code::invalid_argument);
  EXPECT_NE(read.message().find("make_source() of an ObjectStore returned null"),
            std::string_view::npos)
      << read.message();
}

TEST_F(StoreTest, what_a_read_says_is_the_error_of_the_batch_with_shard_and_sample) {
  const Dataset data = dataset();
  refused = store_->objects.begin()->first;
  const Status status = failure(data, {});
  const std::string shard = std::exchange(refused, "");
  EXPECT_EQ(status.code(), Code::denied);
  for (const std::string_view part :
       {std::string_view("the vault is shut"), std::string_view(shard)})
    EXPECT_NE(status.message().find(part), std::string_view::npos) << status.message();
  EXPECT_EQ(status.message().find("server"), std::string_view::npos) << status.message();
}

}  // namespace
}  // namespace stoker
