#include "store/http/http_answer.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace stoker::testing {
namespace {

/// Ten bytes from 5 of an object of 100, into memory of two parts.
class HttpAnswerTest : public ::testing::Test {
 protected:
  bool take(const std::string& text) { return answer_.take_body(std::as_bytes(std::span(text))); }
  void take_head(const std::string& status, const std::string& range = "bytes 5-14/100") {
    answer_.take_head_line("HTTP/1.1 " + status + "\r\n");
    answer_.take_head_line("Content-Range: " + range + "\r\n");
    answer_.take_head_line("ETAG:  \"e\" \r\n");
    answer_.take_head_line("\r\n");
  }

  std::string first_ = std::string(4, '-');
  std::string second_ = std::string(6, '-');
  WantedRange range_{.offset_bytes = 5,
                     .size_bytes = 10,
                     .object_bytes = 100,
                     .etag = "\"e\"",
                     .into = {std::as_writable_bytes(std::span(first_)),
                              std::as_writable_bytes(std::span(second_))}};
  HttpAnswer answer_{&range_};
};

TEST_F(HttpAnswerTest, a_range_is_written_into_memory_in_parts) {
  take_head("206 Partial Content");
  EXPECT_TRUE(take("012"));
  EXPECT_EQ(answer_.check_end().code(), Code::unavailable);
  EXPECT_TRUE(take("3456789"));
  EXPECT_TRUE(answer_.check_end().ok());
  EXPECT_EQ(first_ + second_, "0123456789");
  EXPECT_EQ(answer_.response().header("etag"), "\"e\"");
  EXPECT_FALSE(take("x"));
  EXPECT_EQ(answer_.refused().code(), Code::io_error);
}

TEST_F(HttpAnswerTest, a_head_without_an_end_has_ended_early) {
  answer_.take_head_line("HTTP/1.1 404 Not Found\r\n");
  EXPECT_EQ(answer_.check_end().code(), Code::unavailable);
  answer_.take_head_line("\r\n");
  EXPECT_TRUE(answer_.check_end().ok());
}

TEST_F(HttpAnswerTest, no_byte_of_another_answer_is_written) {
  const struct {
    const char* status;
    const char* range;
    Code code;
  } kWrong[] = {{"200 OK", "bytes 5-14/100", Code::unsupported},
                {"206 Partial Content", "bytes 5-14/101", Code::io_error},
                {"206 Partial Content", "bytes 6-15/100", Code::io_error},
                {"206 Partial Content", "bytes 5-14/*", Code::io_error},
                {"206 Partial Content", "", Code::io_error}};
  for (const auto& wrong : kWrong) {
    answer_ = HttpAnswer(&range_);
    take_head(wrong.status, wrong.range);
    EXPECT_FALSE(take("0123456789")) << wrong.range;
    EXPECT_EQ(answer_.refused().code(), wrong.code) << wrong.range;
    EXPECT_EQ(first_ + second_, "----------");
  }
}

TEST_F(HttpAnswerTest, another_version_is_unavailable_and_a_compressed_one_unsupported) {
  range_.etag = "\"f\"";
  take_head("206 Partial Content");
  EXPECT_FALSE(take("0123456789"));
  EXPECT_EQ(answer_.refused().os_error(), ESTALE);
  range_.etag = "\"e\"";
  answer_ = HttpAnswer(&range_);
  take_head("206 Partial Content");
  answer_.take_head_line("Content-Encoding: gzip");
  EXPECT_FALSE(take("0123456789"));
  EXPECT_EQ(answer_.refused().code(), Code::unsupported);
  EXPECT_EQ(first_ + second_, "----------");
}

TEST_F(HttpAnswerTest, the_text_of_a_failure_is_kept_and_limited) {
  take_head("503 Slow Down");
  EXPECT_TRUE(take("why"));
  EXPECT_EQ(answer_.response().body, "why");
  EXPECT_TRUE(answer_.check_end().ok());
  while (take(std::string(1000, 'x'))) {
  }
  EXPECT_LE(answer_.response().body.size(), 64U << 10);
}

TEST_F(HttpAnswerTest, a_second_head_replaces_the_first_and_an_endless_one_is_refused) {
  answer_.take_head_line("HTTP/1.1 100 Continue\r\n");
  answer_.take_head_line("X: 1");
  take_head("206 Partial Content");
  EXPECT_EQ(answer_.response().status, 206);
  EXPECT_EQ(answer_.response().header("x"), "");
  while (answer_.take_head_line("a: " + std::string(1000, 'x'))) {
  }
  EXPECT_EQ(answer_.refused().code(), Code::io_error);
}

TEST(HttpStatusTest, what_a_status_means_is_what_a_caller_can_do) {
  const auto judged = [](int status) { return judge_status({.status = status}, ""); };
  EXPECT_TRUE(judged(204).status.ok());
  EXPECT_EQ(judged(403).status.code(), Code::denied);
  EXPECT_EQ(judged(404).status.code(), Code::not_found);
  EXPECT_EQ(judged(412).status.os_error(), ESTALE);
  EXPECT_EQ(judged(501).status.code(), Code::unsupported);
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    EXPECT_EQ(judged(status).next, Verdict::Next::retry) << status;
    EXPECT_EQ(judged(status).status.code(), Code::unavailable) << status;
    EXPECT_EQ(judged(status).is_throttled, status == 429 || status == 503) << status;
  }
  const Verdict later = judge_status({.status = 503, .headers = {{"retry-after", "7"}}}, "");
  EXPECT_EQ(later.wait, std::chrono::seconds(7));
}

}  // namespace
}  // namespace stoker::testing
