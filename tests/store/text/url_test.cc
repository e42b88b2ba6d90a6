#include "store/text/url.h"

#include <gtest/gtest.h>

#include <string>

#include "store/text/percent.h"

namespace stoker::testing {
namespace {

TEST(UrlTest, scheme_host_port_and_path_are_told_apart) {
  const auto url = parse_url("https://Data.Example:8443/a/b%20c");
  ASSERT_TRUE(url.ok()) << url.status().message();
  EXPECT_EQ(url->scheme, "https");
  EXPECT_EQ(url->authority, "data.example:8443");
  EXPECT_EQ(url->host(), "data.example");
  EXPECT_EQ(url->path, "/a/b%20c");
  EXPECT_EQ(url->origin(), "https://data.example:8443");
  EXPECT_EQ(parse_url("http://h")->path, "");
  EXPECT_EQ(parse_url("http://[::1]:80/")->authority, "[::1]");
  EXPECT_EQ(parse_url("https://h:443/")->origin(), "https://h");
  EXPECT_EQ(parse_url("https://h:80/")->origin(), "https://h:80");
}

TEST(UrlTest, what_is_no_url_of_a_server_is_refused) {
  for (const char* const text :
       {"", "h", "ftp://h/", "http://", "http:///a", "http://h:/", "http://h:x/",
        "http://h:123456/", "http://h/a b", "http://h/\n", "http://h/a?b", "http://h/#a",
        "http://[]/", "http://[::1/a", "http://h\\@g/"})
    EXPECT_EQ(parse_url(text).status().code(), Code::invalid_argument) << text;
}

TEST(UrlTest, a_password_is_refused_and_not_repeated) {
  for (const char* const text : {"https://user:canary@h/a?token=canary", "user:canary@h",
                                 "https://user:can/ary@h", "ftp://user:canary@h"}) {
    const Status status = parse_url(text).status();
    EXPECT_EQ(status.code(), Code::invalid_argument) << text;
    EXPECT_EQ(status.message().find("canary"), std::string_view::npos) << status.message();
    EXPECT_EQ(status.message().find("ary"), std::string_view::npos) << status.message();
  }
}

TEST(UrlTest, what_is_shown_of_a_uri_has_no_secrets) {
  EXPECT_EQ(without_secrets("https://user:canary@h/a?token=canary"), "https://...@h/a");
  EXPECT_EQ(without_secrets("s3://ID:can/ary@bucket/a"), "s3://...@bucket/a");
  EXPECT_EQ(without_secrets("https://h/a?token=can@ary"), "https://...");
  EXPECT_EQ(without_secrets("https://h/a#canary"), "https://h/a");
  EXPECT_EQ(without_secrets("user:canary@h:1"), "...@h:1");
  EXPECT_EQ(without_secrets("user:can?ary@h"), "...");
  EXPECT_EQ(without_secrets("h:1?canary=://"), "h:1");
  EXPECT_EQ(without_secrets("user:canary@http://h"), "...@http://h");
  EXPECT_EQ(without_secrets("gs://bucket/a b"), "gs://bucket/a b");
}

TEST(PercentTest, everything_but_unreserved_characters_is_encoded_and_comes_back) {
  EXPECT_EQ(percent_encode("a/b-._~c=+ \xc3\xa9"), "a%2Fb-._~c%3D%2B%20%C3%A9");
  EXPECT_EQ(percent_encode("a//b/../c", Slashes::keep), "a//b/../c");
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  EXPECT_EQ(percent_decode(percent_encode(all)), all);
  EXPECT_EQ(percent_decode("%4a%4A+"), "JJ+");
  for (const char* const text : {"%", "%4", "%g0", "a%0"})
    EXPECT_EQ(percent_decode(text), std::nullopt) << text;
}

}  // namespace
}  // namespace stoker::testing
