#include "store/s3/sigv4.h"

#include <gtest/gtest.h>

#include <string>

#include "base/checksum.h"
#include "base/hex.h"

namespace stoker::testing {
namespace {

constexpr char kEmptyHash[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// That of the examples in the documentation of Amazon S3, "Authenticating Requests:
/// Using the Authorization Header".
SigningScope documented_scope() {
  return {.access_key_id = "AKIAIOSFODNN7EXAMPLE",
          .secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
          .region = "us-east-1",
          .now = 1369353600};
}

SignedRequest documented_request(const std::string& path, std::vector<NameValue> query = {}) {
  return {.path = path,
          .query = std::move(query),
          .headers = {{"Host", "examplebucket.s3.amazonaws.com"},
                      {"x-amz-date", "20130524T000000Z"},
                      {"x-amz-content-sha256", kEmptyHash}},
          .payload_hash = kEmptyHash};
}

std::string signature(const SignedRequest& request, const SigningScope& scope) {
  const auto signed_as = sign_v4(request, scope);
  EXPECT_TRUE(signed_as.ok()) << signed_as.status().message();
  return signed_as.ok() ? signed_as->substr(signed_as->find("Signature=") + 10) : "";
}

TEST(SigV4Test, a_get_with_a_range_is_signed_as_in_the_documentation) {
  SignedRequest request = documented_request("/test.txt");
  request.headers.emplace_back("Range", "bytes=0-9");
  EXPECT_EQ(*sign_v4(request, documented_scope()),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(SigV4Test, a_put_with_a_body_and_an_encoded_path_is_signed_as_in_the_documentation) {
  const std::string body = "Welcome to Amazon S3.";
  SignedRequest request = documented_request("/test%24file.text");
  request.method = "PUT";
  request.payload_hash = format_hex(*sha256(std::as_bytes(std::span(body))));
  request.headers = {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                     {"Host", "examplebucket.s3.amazonaws.com"},
                     {"x-amz-content-sha256", request.payload_hash},
                     {"x-amz-date", "20130524T000000Z"},
                     {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};
  EXPECT_EQ(signature(request, documented_scope()),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(SigV4Test, a_query_without_a_value_is_signed_as_in_the_documentation) {
  EXPECT_EQ(signature(documented_request("/", {{"lifecycle", ""}}), documented_scope()),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

TEST(SigV4Test, a_query_is_sorted_and_signed_as_in_the_documentation) {
  EXPECT_EQ(
      signature(documented_request("/", {{"prefix", "J"}, {"max-keys", "2"}}), documented_scope()),
      "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(SigV4Test, another_service_is_signed_as_in_the_published_test_suite) {
  const SigningScope scope{.access_key_id = "AKIDEXAMPLE",
                           .secret_access_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                           .region = "us-east-1",
                           .service = "service",
                           .now = 1440938160};
  SignedRequest request{
      .headers = {{"Host", "example.amazonaws.com"}, {"X-Amz-Date", "20150830T123600Z"}},
      .payload_hash = kEmptyHash};
  EXPECT_EQ(signature(request, scope),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  request.method = "POST";
  EXPECT_EQ(signature(request, scope),
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
}

TEST(SigV4Test, a_query_is_encoded_with_percent_signs_and_sorted_by_what_they_make_of_it) {
  EXPECT_EQ(canonical_query({{"b", "2"}, {"a b", "x/y+z"}, {"b", "1"}, {"uploads", ""}}),
            "a%20b=x%2Fy%2Bz&b=1&b=2&uploads=");
  EXPECT_EQ(canonical_query({{"\xc3\xa9", "~"}}), "%C3%A9=~");
}

TEST(SigV4Test, spaces_around_and_inside_a_value_do_not_change_the_signature) {
  SignedRequest plain = documented_request("/");
  SignedRequest spaced = plain;
  plain.headers.emplace_back("x-amz-meta-a", "one two");
  spaced.headers.emplace_back("X-Amz-Meta-A", "  one \t two ");
  EXPECT_EQ(signature(plain, documented_scope()), signature(spaced, documented_scope()));
}

}  // namespace
}  // namespace stoker::testing
