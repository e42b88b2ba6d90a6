#include "api/border.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace stoker::internal {
namespace {

TEST(BorderTest, a_value_passes) {
  const Result<int> result = at_border([]() -> Result<int> { return 7; });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(*result, 7);
  EXPECT_EQ(at_border([] { return Status(Code::no_space, "full"); }).code(), Code::no_space);
}

TEST(BorderTest, no_memory_is_unavailable_like_ENOMEM) {
  const Status status = at_border([]() -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(status.code(), Code::unavailable);
  EXPECT_EQ(status.os_error(), ENOMEM);
}

TEST(BorderTest, a_system_error_keeps_its_number) {
  const Result<int> result = at_border(
      []() -> Result<int> { throw std::system_error(EAGAIN, std::generic_category(), "thread"); });
  EXPECT_EQ(result.status().code(), Code::unavailable);
  EXPECT_EQ(result.status().os_error(), EAGAIN);
  EXPECT_NE(result.status().message().find("thread"), std::string::npos);
}

TEST(BorderTest, other_exceptions_are_of_what_was_passed_in) {
  const Status status = at_border([]() -> Status { throw std::runtime_error("my decoder"); });
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("my decoder"), std::string::npos);
  EXPECT_EQ(at_border([]() -> Status { throw 7; }).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace stoker::internal
