#pragma once

// A bucket of the Ceph cluster behind a FaultProxy, and what tests do with it.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "base/token.h"
#include "servers/fault_proxy.h"
#include "servers/servers.h"
#include "stoker/store.h"

namespace stoker::testing {

class S3FaultTest : public ::testing::Test {
 protected:
  using Kind = Fault::Kind;

  /// Options for the bucket, through a proxy with these faults.
  S3Options through(ChooseFault choose) {
    S3Options options = ceph_options();
    proxy_ = std::make_unique<FaultProxy>(options.endpoint, std::move(choose));
    options.endpoint = proxy_->url();
    options.part_bytes = std::uint64_t{5} << 20;
    return options;
  }
  static std::shared_ptr<ObjectStore> open_bucket(const S3Options& options) {
    auto store = s3_store(ceph_bucket(), options);
    EXPECT_TRUE(store.ok()) << store.status().message();
    return store.ok() ? *store : nullptr;
  }

  std::string key(const std::string& name) const { return prefix_ + "/" + name; }

  static Result<ObjectInfo> put(ObjectStore& store, const std::string& key, const std::string& text,
                                bool if_absent = false) {
    STOKER_ASSIGN(std::unique_ptr<Upload> upload, store.upload(key));
    STOKER_TRY(upload->append(std::as_bytes(std::span(text))));
    return if_absent ? std::move(*upload).commit_if_absent() : std::move(*upload).commit();
  }
  static Result<std::string> get(ObjectStore& store, const std::string& key) {
    STOKER_ASSIGN(const std::unique_ptr<const Object> object, store.open(key));
    std::string text(object->info().size_bytes, '\0');
    STOKER_TRY(object->read(0, text.size(), std::as_writable_bytes(std::span(text))).status());
    return text;
  }
  /// Reads a range through a source, which reports an errno.
  static std::int64_t read_range(ObjectStore& store, const Object& object,
                                 std::span<std::byte> into) {
    auto source = store.make_source(4);
    EXPECT_TRUE(source.ok());
    const std::array requests = {request_of(object, 0, into)};
    EXPECT_EQ(*(*source)->submit(requests), 1U);
    std::array<Completion, 1> done;
    EXPECT_EQ(*(*source)->reap(done, 1, std::chrono::seconds(60)), 1U);
    return done[0].result;
  }
  /// Aborts the uploads that were left behind, and returns how many.
  std::uint64_t orphans() const {
    const auto count =
        sweep_s3_uploads(ceph_bucket(), ceph_options(), prefix_, std::chrono::seconds(0));
    EXPECT_TRUE(count.ok()) << count.status().message();
    return count.ok() ? *count : 0;
  }

  const std::string prefix_ = "test-" + make_token();
  std::unique_ptr<FaultProxy> proxy_;
};

inline std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i * 2654435761U) >> 13);
  return text;
}

}  // namespace stoker::testing
