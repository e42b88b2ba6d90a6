#include <gtest/gtest.h>

#include "conformance/object_store_suite.h"
#include "store/local_store.h"
#include "store/toys/memory_store.h"

namespace stoker::testing {
namespace {

std::shared_ptr<ObjectStore> make_memory_store() {
  return std::make_shared<MemoryStore>();
}

/// A store that cannot be written to, as a web server's.
class ReadOnlyStore final : public ObjectStore {
 public:
  Result<std::unique_ptr<const Object>> open(const std::string& key, CachePolicy policy) override {
    return memory.open(key, policy);
  }
  Result<Entry> look(const std::string& key) override { return memory.look(key); }
  Status list(const std::string& folder, const Found& found) override {
    return memory.list(folder, found);
  }
  Result<std::unique_ptr<RangeSource>> make_source(std::uint32_t depth) override {
    return memory.make_source(depth);
  }
  Result<std::unique_ptr<Upload>> upload(const std::string& key) override {
    return Status(Code::unsupported, key + ": the store is only read");
  }
  Status remove(const std::string& key) override {
    return {Code::unsupported, key + ": the store is only read"};
  }

  MemoryStore memory;
};

std::shared_ptr<ObjectStore> make_read_only_store() {
  return std::make_shared<ReadOnlyStore>();
}

void put_read_only(ObjectStore& store, const std::string& key, const std::string& text) {
  auto upload = static_cast<ReadOnlyStore&>(store).memory.upload(key);
  ASSERT_TRUE(upload.ok());
  ASSERT_TRUE((*upload)->append(std::as_bytes(std::span(text))).ok());
  ASSERT_TRUE(std::move(**upload).commit().ok());
}

/// A store that has no source of its own.
class PlainStore final : public ObjectStore {
 public:
  Result<std::unique_ptr<const Object>> open(const std::string& key, CachePolicy policy) override {
    return memory_.open(key, policy);
  }
  Result<Entry> look(const std::string& key) override { return memory_.look(key); }
  Status list(const std::string& folder, const Found& found) override {
    return memory_.list(folder, found);
  }
  Result<std::unique_ptr<Upload>> upload(const std::string& key) override {
    return memory_.upload(key);
  }
  Status remove(const std::string& key) override { return memory_.remove(key); }

 private:
  MemoryStore memory_;
};

std::shared_ptr<ObjectStore> make_plain_store() {
  return std::make_shared<PlainStore>();
}

INSTANTIATE_TEST_SUITE_P(stores, ObjectStoreSuite,
                         ::testing::Values(ObjectStoreMaker{"local", local_store},
                                           ObjectStoreMaker{"memory", make_memory_store},
                                           ObjectStoreMaker{"plain", make_plain_store},
                                           ObjectStoreMaker{"read_only", make_read_only_store,
                                                            put_read_only}),
                         object_store_name);

}  // namespace
}  // namespace stoker::testing
