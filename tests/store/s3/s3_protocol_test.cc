#include "store/s3/s3_protocol.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "store/s3/sigv4.h"

namespace stoker::testing {
namespace {

using Addressing = S3Options::Addressing;

S3Options options_of(const std::string& endpoint, Addressing addressing) {
  return {.endpoint = endpoint,
          .region = "eu-west-1",
          .addressing = addressing,
          .credentials = {.fixed = {.access_key_id = "AKID", .secret_access_key = "secret"}}};
}

std::string url_of(const std::string& bucket, const S3Options& options, const std::string& key,
                   std::vector<NameValue> query = {}) {
  HttpCall call{.key = key, .query = std::move(query)};
  const auto request = S3Protocol(bucket, options).make_request(call);
  EXPECT_TRUE(request.ok()) << request.status().message();
  return request.ok() ? request->url : "";
}

TEST(S3AddressTest, the_bucket_is_in_the_host_on_aws_and_in_the_path_elsewhere) {
  const S3Options aws = options_of("", Addressing::automatic);
  EXPECT_EQ(url_of("data", aws, "a b/c+\xc3\xa9"),
            "https://data.s3.eu-west-1.amazonaws.com/a%20b/c%2B%C3%A9");
  EXPECT_EQ(url_of("data", aws, ".", {{"uploads", ""}, {"prefix", "a/"}}),
            "https://data.s3.eu-west-1.amazonaws.com/?prefix=a%2F&uploads=");
  // A certificate for *.s3... is not for names with another dot.
  EXPECT_EQ(url_of("my.data", aws, "a"), "https://s3.eu-west-1.amazonaws.com/my.data/a");
  S3Options china = aws;
  china.region = "cn-north-1";
  EXPECT_EQ(url_of("data", china, "a"), "https://data.s3.cn-north-1.amazonaws.com.cn/a");
  EXPECT_EQ(url_of("data", options_of("http://10.0.0.1:7480/", Addressing::automatic), "a"),
            "http://10.0.0.1:7480/data/a");
}

TEST(S3AddressTest, what_is_set_decides) {
  EXPECT_EQ(url_of("data", options_of("", Addressing::path), "a"),
            "https://s3.eu-west-1.amazonaws.com/data/a");
  EXPECT_EQ(url_of("data", options_of("https://rgw:8443/s3/", Addressing::virtual_host), "a"),
            "https://data.rgw:8443/s3/a");
  EXPECT_EQ(url_of("my.data", options_of("http://rgw", Addressing::virtual_host), "."),
            "http://my.data.rgw/");
}

TEST(S3AddressTest, the_host_that_is_sent_to_is_signed_with_its_port) {
  const S3Options options = options_of("http://rgw:8080", Addressing::virtual_host);
  HttpCall call{.key = "a b", .query = {{"partNumber", "1"}}};
  const auto request = S3Protocol("data", options).make_request(call);
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(request->url, "http://data.rgw:8080/a%20b?partNumber=1");
  const auto header = [&](const std::string& name) {
    const auto found = std::ranges::find_if(
        request->headers, [&](const std::string& line) { return line.starts_with(name + ": "); });
    return found == request->headers.end() ? "" : found->substr(name.size() + 2);
  };
  EXPECT_EQ(header("host"), "");  // libcurl makes it of the URL
  // The moment of the signature is in its header.
  std::tm utc{};
  const std::string date = header("x-amz-date");
  ASSERT_NE(::strptime(date.c_str(), "%Y%m%dT%H%M%SZ", &utc), nullptr) << date;
  const SignedRequest to_sign{.path = "/a%20b",
                              .query = call.query,
                              .headers = {{"host", "data.rgw:8080"},
                                          {"x-amz-content-sha256", header("x-amz-content-sha256")},
                                          {"x-amz-date", date}},
                              .payload_hash = header("x-amz-content-sha256")};
  EXPECT_EQ(header("Authorization"), *sign_v4(to_sign, {.access_key_id = "AKID",
                                                        .secret_access_key = "secret",
                                                        .region = "eu-west-1",
                                                        .now = ::timegm(&utc)}));
}

}  // namespace
}  // namespace stoker::testing
