#include "io/files/exact_transfer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "support/temp_dir.h"

namespace stoker {
namespace {

TEST(ExactTransferTest, moves_all_and_says_where_a_file_ends_too_early) {
  const testing::TempDir dir;
  const std::string path = dir.file("data");
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  constexpr std::string_view kText = "0123456789";
  ASSERT_TRUE(write_exactly(posix_file_ops(), fd.get(), 3, std::as_bytes(std::span(kText))).ok());
  std::array<char, 10> back{};
  ASSERT_TRUE(read_exactly(fd.get(), 3, std::as_writable_bytes(std::span(back)), path).ok());
  EXPECT_EQ(std::string_view(back.data(), back.size()), kText);
  // Somebody has shortened it since its size was asked for.
  ASSERT_EQ(::ftruncate(fd.get(), 8), 0);
  const Status status = read_exactly(fd.get(), 3, std::as_writable_bytes(std::span(back)), path);
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_NE(status.message().find("data, offset 8: the file ends here"), std::string_view::npos)
      << status.message();
}

}  // namespace
}  // namespace stoker
