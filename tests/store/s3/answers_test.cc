#include "store/s3/answers.h"

#include <gtest/gtest.h>

#include <string>

namespace stoker::testing {
namespace {

TEST(S3AnswersTest, an_error_is_found_and_made_printable) {
  const auto error = parse_s3_error(
      "\n  <?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code><Message>no\xc3\xa9\n</Message>"
      "<Region>eu-west-1</Region></Error>");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, "NoSuchKey");
  EXPECT_EQ(error->message, "no???");
  EXPECT_EQ(error->region, "eu-west-1");
  EXPECT_FALSE(parse_s3_error("<html></html>").has_value());
  EXPECT_FALSE(parse_s3_error("gateway timeout").has_value());
}

TEST(S3AnswersTest, a_page_of_a_list_has_keys_prefixes_and_where_it_continues) {
  const auto page = parse_list_page(
      "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>1/x+y=</NextContinuationToken>"
      "<Contents><Key>a%20b/c%2Bd+e</Key><Size>5</Size><ETag>&quot;e&quot;</ETag></Contents>"
      "<CommonPrefixes><Prefix>a%20b/f/</Prefix></CommonPrefixes></ListBucketResult>");
  ASSERT_TRUE(page.ok()) << page.status().message();
  ASSERT_EQ(page->keys.size(), 1U);
  EXPECT_EQ(page->keys[0].key, "a b/c+d e");
  EXPECT_EQ(page->keys[0].size_bytes, 5U);
  EXPECT_EQ(page->keys[0].etag, "\"e\"");
  EXPECT_EQ(page->prefixes, std::vector<std::string>{"a b/f/"});
  EXPECT_EQ(page->next_token, "1/x+y=");
}

TEST(S3AnswersTest, keys_of_a_server_that_does_not_encode_them_are_taken_as_they_are) {
  const auto page = parse_list_page(
      "<ListBucketResult><IsTruncated>false</IsTruncated>"
      "<Contents><Key>a%20+</Key><Size>0</Size></Contents></ListBucketResult>");
  ASSERT_TRUE(page.ok()) << page.status().message();
  EXPECT_EQ(page->keys[0].key, "a%20+");
}

TEST(S3AnswersTest, a_list_that_lacks_something_is_corrupt) {
  for (const char* const text :
       {"<Other/>", "<ListBucketResult/>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key>"
        "<Size>1x</Size></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Size>1</Size></Contents>"
        "</ListBucketResult>",
        "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
        "<Contents><Key>%zz</Key><Size>1</Size></Contents></ListBucketResult>"})
    EXPECT_EQ(parse_list_page(text).status().code(), Code::corrupt) << text;
}

TEST(S3AnswersTest, a_multipart_upload_is_begun_completed_and_listed) {
  EXPECT_EQ(*parse_upload_id("<InitiateMultipartUploadResult><UploadId>2~x</UploadId>"
                             "</InitiateMultipartUploadResult>"),
            "2~x");
  EXPECT_EQ(parse_upload_id("<InitiateMultipartUploadResult/>").status().code(), Code::corrupt);
  EXPECT_EQ(*parse_completed_etag("<CompleteMultipartUploadResult><ETag/>"
                                  "</CompleteMultipartUploadResult>"),
            "");
  EXPECT_EQ(parse_completed_etag("<Error/>").status().code(), Code::corrupt);
  const auto page = parse_uploads_page(
      "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>"
      "<NextUploadIdMarker>u</NextUploadIdMarker><Upload><Key>k</Key><UploadId>u</UploadId>"
      "<Initiated>2026-11-19T00:00:00.000Z</Initiated></Upload></ListMultipartUploadsResult>");
  ASSERT_TRUE(page.ok()) << page.status().message();
  EXPECT_EQ(page->uploads[0].upload_id, "u");
  EXPECT_EQ(page->next_key, "k");
  EXPECT_EQ(make_complete_body({"\"a\"", "<b>"}),
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag></Part>"
            "<Part><PartNumber>2</PartNumber><ETag>&lt;b&gt;</ETag></Part>"
            "</CompleteMultipartUpload>");
}

}  // namespace
}  // namespace stoker::testing
