#include "stoker/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>

namespace stoker {
namespace {

TEST(StatusTest, default_is_ok_and_empty) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::ok);
  EXPECT_EQ(status.os_error(), 0);
  EXPECT_EQ(status.message(), "");
}

TEST(StatusTest, code_ok_is_ok_whatever_the_message) {
  EXPECT_TRUE(Status(Code::ok, "all is well").ok());
}

TEST(StatusTest, failure_carries_code_message_and_errno) {
  const Status status(Code::corrupt, "shard 7: bad magic", EIO);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_EQ(status.message(), "shard 7: bad magic");
  EXPECT_EQ(status.os_error(), EIO);
}

TEST(StatusTest, errno_maps_to_what_the_caller_can_do) {
  struct Case {
    int os_error;
    Code code;
  };
  constexpr Case kCases[] = {
      {ENOENT, Code::not_found},
      {EEXIST, Code::already_exists},
      {EINVAL, Code::invalid_argument},
      {ENOSPC, Code::no_space},
      {EDQUOT, Code::no_space},
      {EAGAIN, Code::unavailable},
      {ECANCELED, Code::cancelled},
      {ENOSYS, Code::unsupported},
      {EOPNOTSUPP, Code::unsupported},
      {EACCES, Code::denied},
      {EROFS, Code::denied},
      {EIO, Code::io_error},
  };
  for (const Case& expected : kCases) {
    const Status status = Status::from_errno(expected.os_error, "open", "/data/a");
    EXPECT_EQ(status.code(), expected.code) << status.message();
    EXPECT_EQ(status.os_error(), expected.os_error);
  }
}

TEST(StatusTest, message_from_errno_names_operation_and_path) {
  EXPECT_EQ(Status::from_errno(ENOENT, "open", "/data/a").message(),
            "open /data/a: No such file or directory");
  EXPECT_EQ(Status::from_errno(EIO, "close", "").message(), "close: Input/output error");
}

TEST(StatusTest, context_goes_before_the_message_and_keeps_the_rest) {
  const Status status = Status::from_errno(EIO, "read", "a").with_context("load checkpoint");
  EXPECT_EQ(status.message(), "load checkpoint: read a: Input/output error");
  EXPECT_EQ(status.code(), Code::io_error);
  EXPECT_EQ(status.os_error(), EIO);
  EXPECT_TRUE(Status().with_context("load checkpoint").ok());
}

TEST(StatusTest, every_code_has_its_own_name) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(Code::denied); ++code) {
    EXPECT_TRUE(names.insert(code_name(static_cast<Code>(code))).second) << code;
  }
  EXPECT_EQ(names.count("unknown"), 0U);
  EXPECT_EQ(code_name(Code::io_error), "io_error");
  EXPECT_EQ(code_name(static_cast<Code>(255)), "unknown");
}

Result<std::unique_ptr<int>> make_number(bool succeed) {
  if (!succeed) return Status(Code::not_found, "no number");
  return std::make_unique<int>(42);
}

Result<int> number_plus_one(bool succeed) {
  STOKER_ASSIGN(const std::unique_ptr<int> number, make_number(succeed));
  STOKER_ASSIGN(const std::unique_ptr<int> again, make_number(succeed));  // names do not clash
  return (*number + *again) / 2 + 1;
}

TEST(StatusTest, result_hands_out_a_value_that_only_moves) {
  Result<std::unique_ptr<int>> result = make_number(true);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result.status().ok());
  const std::unique_ptr<int> number = *std::move(result);
  EXPECT_EQ(*number, 42);
}

TEST(StatusTest, a_result_is_true_if_it_has_a_value) {
  EXPECT_TRUE(make_number(true));
  EXPECT_FALSE(make_number(false));
  EXPECT_FALSE(make_number(false).has_value());
}

TEST(StatusTest, assign_takes_the_value_or_returns_the_status) {
  EXPECT_EQ(*number_plus_one(true), 43);
  EXPECT_EQ(number_plus_one(false).status().message(), "no number");
}

TEST(StatusTest, try_goes_on_after_ok_and_returns_a_failure) {
  const auto attempt = [](const Status& first) -> Status {
    STOKER_TRY(first);
    return Status(Code::cancelled, "went on");
  };
  EXPECT_EQ(attempt({}).code(), Code::cancelled);
  EXPECT_EQ(attempt(Status(Code::denied, "no")).code(), Code::denied);
}

}  // namespace
}  // namespace stoker
