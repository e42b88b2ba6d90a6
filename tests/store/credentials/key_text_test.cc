#include "store/credentials/key_text.h"

#include <gtest/gtest.h>

#include <string>

namespace stoker::testing {
namespace {

TEST(KeyTextTest, an_ini_file_has_sections_names_and_comments) {
  const auto file = parse_ini(
      "# a\n[default]\naws_access_key_id = A\nAWS_Secret_Access_Key=s=+/ \r\n\n"
      "[profile b c]\ns3 =\n  max_concurrent_requests = 20\nregion = eu-west-1 ; "
      "kept\n[default]\nx=1");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(
      file->at("default"),
      (IniSection{{"aws_access_key_id", "A"}, {"aws_secret_access_key", "s=+/"}, {"x", "1"}}));
  EXPECT_EQ(file->at("profile b c"), (IniSection{{"s3", ""}, {"region", "eu-west-1 ; kept"}}));
}

TEST(KeyTextTest, a_line_that_is_nothing_is_refused_by_its_number_and_not_repeated) {
  for (const char* const text : {"a=canary", "[a\ncanary=1", "[a]\ncanary", "[a]\ncanary\nb=c"}) {
    const Status status = parse_ini(text).status();
    EXPECT_EQ(status.code(), Code::corrupt) << text;
    EXPECT_EQ(status.message().find("canary"), std::string_view::npos) << status.message();
    EXPECT_NE(status.message().find("line "), std::string_view::npos) << status.message();
  }
  EXPECT_EQ(parse_ini(std::string((1U << 20) + 1, '\n')).status().code(), Code::corrupt);
}

TEST(KeyTextTest, keys_in_json_may_expire) {
  const auto fetched = parse_json_keys(
      R"({"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "s", "Token": "t",
          "Expiration": "2026-11-19T12:00:00Z"})");
  ASSERT_TRUE(fetched.ok()) << fetched.status().message();
  EXPECT_EQ(fetched->keys.access_key_id, "A");
  EXPECT_EQ(fetched->keys.secret_access_key, "s");
  EXPECT_EQ(fetched->keys.session_token, "t");
  EXPECT_EQ(std::chrono::system_clock::to_time_t(*fetched->expires), 1795089600);
  EXPECT_FALSE(parse_json_keys(R"({"AccessKeyId": "A", "SecretAccessKey": "s"})")->expires);
}

TEST(KeyTextTest, keys_in_the_answer_of_sts_are_found) {
  const auto fetched = parse_sts_keys(
      "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
      "<AssumeRoleWithWebIdentityResult><Credentials><SessionToken>t</SessionToken>"
      "<SecretAccessKey>s</SecretAccessKey><Expiration>2026-11-19T12:00:00.5Z</Expiration>"
      "<AccessKeyId>A</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>"
      "</AssumeRoleWithWebIdentityResponse>");
  ASSERT_TRUE(fetched.ok()) << fetched.status().message();
  EXPECT_EQ(fetched->keys.session_token, "t");
  EXPECT_TRUE(fetched->expires.has_value());
}

TEST(KeyTextTest, what_has_no_valid_keys_is_corrupt_and_not_repeated) {
  for (const char* const text :
       {"canary", "{\"AccessKeyId\": \"canary\"}",
        "{\"AccessKeyId\": 1, \"SecretAccessKey\": \"canary\"}",
        "{\"AccessKeyId\": \"a\\ncanary\", \"SecretAccessKey\": \"s\"}",
        "{\"AccessKeyId\": \"a\", \"SecretAccessKey\": \"s\", \"Expiration\": \"canary\"}",
        "{\"AccessKeyId\": \"a\", \"AccessKeyId\": \"canary\", \"SecretAccessKey\": \"s\"}",
        "<canary/>", "<a><AssumeRoleWithWebIdentityResult/></a>"}) {
    for (const Status& status : {parse_json_keys(text).status(), parse_sts_keys(text).status()}) {
      EXPECT_EQ(status.code(), Code::corrupt) << text;
      EXPECT_EQ(status.message().find("canary"), std::string_view::npos) << status.message();
    }
  }
}

}  // namespace
}  // namespace stoker::testing
