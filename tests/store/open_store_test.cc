#include <gtest/gtest.h>

#include <string>

#include "stoker/store.h"

namespace stoker::testing {
namespace {

std::string key_of(const std::string& uri) {
  const auto place = open_store(uri);
  EXPECT_TRUE(place.ok()) << place.status().message();
  return place.ok() ? place->key : "";
}

Status refusal_of(const std::string& uri) {
  return open_store(uri).status();
}

TEST(OpenStoreTest, paths_and_files_are_local) {
  for (const char* const path : {"a/b", "/a:b", "./s3:/b", "C:/x", "a b%20", "http:/x"}) {
    EXPECT_EQ(key_of(path), path);
    EXPECT_TRUE(open_store(path)->store->is_local()) << path;
  }
  EXPECT_EQ(key_of("file:///a/b%20c"), "/a/b c");
  EXPECT_EQ(key_of("file:/a"), "/a");
  EXPECT_EQ(key_of("file://localhost/a"), "/a");
  EXPECT_TRUE(open_store("file:///a")->store->is_local());
  for (const char* const uri : {"file:a", "file://host/a", "file:///%", "file:"})
    EXPECT_EQ(refusal_of(uri).code(), Code::invalid_argument) << uri;
}

TEST(OpenStoreTest, a_bucket_and_a_web_server_have_keys_below_them) {
  EXPECT_EQ(key_of("s3://bucket"), ".");
  EXPECT_EQ(key_of("s3://bucket/"), ".");
  EXPECT_EQ(key_of("s3://bucket/a b/c%20+/"), "a b/c%20+");
  EXPECT_EQ(key_of("https://host"), ".");
  EXPECT_EQ(key_of("http://host:80//a/b%20c"), "a/b c");
  EXPECT_FALSE(open_store("s3://bucket/a")->store->is_local());
  for (const char* const uri :
       {"s3://", "s3://a", "s3://a b/c", "http://", "http://h/%", "http://h?a"})
    EXPECT_EQ(refusal_of(uri).code(), Code::invalid_argument) << uri;
}

TEST(OpenStoreTest, options_that_make_no_sense_are_refused) {
  const auto refused = [](const S3Options& options) {
    return open_store("s3://bucket/a", options).status().code() == Code::invalid_argument;
  };
  EXPECT_TRUE(refused({.endpoint = "127.0.0.1:7480"}));
  EXPECT_TRUE(refused({.region = "evil.example/"}));
  EXPECT_TRUE(refused({.part_bytes = 1}));
  EXPECT_TRUE(refused({.parts_in_flight = 0}));
}

TEST(OpenStoreTest, a_command_is_never_run_and_the_error_names_the_store_to_use) {
  const Status status = refusal_of("pipe:aws s3 cp s3://b/k - --token canary");
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_NE(status.message().find("s3://"), std::string_view::npos) << status.message();
  EXPECT_EQ(status.message().find("canary"), std::string_view::npos) << status.message();
  EXPECT_EQ(refusal_of("gs://bucket/a").code(), Code::unsupported);
}

TEST(OpenStoreTest, what_is_refused_is_named_without_its_secrets) {
  for (const char* const uri :
       {"s3://ID:canary@bucket/a", "s3://ID:can/ary@bucket/a", "s3://ID:canary/a",
        "ftp://user:canary@host/a", "file://user:canary@host/a", "https://user:canary@host/a",
        "https://host/a?token=canary"}) {
    const Status status = refusal_of(uri);
    EXPECT_FALSE(status.ok()) << uri;
    EXPECT_EQ(status.message().find("ary"), std::string_view::npos) << status.message();
  }
  EXPECT_EQ(key_of("s3://bucket/a@b:c"), "a@b:c");
}

}  // namespace
}  // namespace stoker::testing
