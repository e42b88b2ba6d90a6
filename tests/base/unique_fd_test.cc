#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace stoker {
namespace {

int open_null() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) != -1;
}

TEST(UniqueFdTest, destructor_closes) {
  const int number = open_null();
  {
    const UniqueFd fd(number);
    EXPECT_TRUE(fd);
    EXPECT_EQ(fd.get(), number);
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(UniqueFdTest, empty_one_holds_nothing) {
  const UniqueFd fd;
  EXPECT_FALSE(fd);
  EXPECT_EQ(fd.get(), -1);
}

TEST(UniqueFdTest, move_leaves_one_owner) {
  const int number = open_null();
  UniqueFd first(number);
  const UniqueFd second(std::move(first));
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is the question
  EXPECT_EQ(second.get(), number);
  EXPECT_TRUE(is_open(number));
}

TEST(UniqueFdTest, assignment_closes_what_was_held) {
  UniqueFd first(open_null());
  UniqueFd second(open_null());
  const int closed = first.get();
  const int kept = second.get();
  first = std::move(second);
  EXPECT_FALSE(is_open(closed));
  EXPECT_TRUE(is_open(kept));
  EXPECT_EQ(first.get(), kept);
}

TEST(UniqueFdTest, assignment_to_itself_keeps_the_descriptor) {
  UniqueFd fd(open_null());
  UniqueFd& same = fd;
  fd = std::move(same);
  ASSERT_TRUE(fd);
  EXPECT_TRUE(is_open(fd.get()));
}

TEST(UniqueFdTest, close_reports_and_gives_up_the_number) {
  UniqueFd fd(open_null());
  const int number = fd.get();
  EXPECT_TRUE(std::move(fd).close().ok());
  EXPECT_FALSE(is_open(number));
  EXPECT_FALSE(fd);  // NOLINT(bugprone-use-after-move): the destructor must not close again
  EXPECT_EQ(std::move(fd).close().os_error(), EBADF);
}

}  // namespace
}  // namespace stoker
