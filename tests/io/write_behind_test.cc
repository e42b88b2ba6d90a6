#include "io/write_behind.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "support/faulty_file_ops.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::contents_of;
using testing::FaultyFileOps;
using testing::TempDir;

constexpr std::size_t kBlock = WriteBehind::kBlockBytes;

/// No two blocks of it are alike.
std::string text_of(std::size_t size_bytes) {
  std::string text(size_bytes, '\0');
  std::uint32_t state = 1;
  for (char& c : text) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>(state >> 24);
  }
  return text;
}

/// Cuts writes of whole blocks short where direct writes are cut, and fails one write.
class CutWrites final : public FaultyFileOps {
 public:
  explicit CutWrites(int failing_write)
      : FaultyFileOps(posix_file_ops(), kNever, 0), failing_write_(failing_write) {}
  Result<std::size_t> pwrite(int fd, std::span<const std::byte> data,
                             std::uint64_t offset_bytes) override {
    if (write_count++ == failing_write_) return Status::from_errno(EIO, "pwrite", "(injected)");
    const bool is_cut = data.size() > kBlock / 2;
    return posix_file_ops().pwrite(fd, is_cut ? data.first(kBlock / 2) : data, offset_bytes);
  }
  int write_count = 0;

 private:
  const int failing_write_;
};

Status write_all(FileOps& ops, const std::string& path, std::string_view text,
                 std::size_t piece_bytes) {
  STOKER_ASSIGN(UniqueFd fd, ops.open(path, O_WRONLY | O_CREAT | O_EXCL));
  WriteBehind file(ops, std::move(fd));
  for (std::size_t at = 0; at < text.size(); at += piece_bytes)
    STOKER_TRY(file.append(std::as_bytes(std::span(text.substr(at, piece_bytes)))));
  EXPECT_EQ(file.size_bytes(), text.size());
  STOKER_ASSIGN(UniqueFd finished, file.finish());
  STOKER_TRY(ops.fsync(finished.get()));
  return ops.close(std::move(finished));
}

TEST(WriteBehindTest, the_file_has_all_bytes_and_not_one_more) {
  const TempDir dir;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kBlock - 1, kBlock, kBlock + 1,
                                 6 * kBlock + 517, 9 * kBlock}) {
    SCOPED_TRACE(size);
    const std::string path = dir.file(std::to_string(size));
    const std::string text = text_of(size);
    CutWrites ops(CutWrites::kNever);
    ASSERT_TRUE(write_all(ops, path, text, 100'003).ok());
    EXPECT_TRUE(contents_of(path) == text);  // too long to be printed
  }
}

TEST(WriteBehindTest, pieces_may_be_longer_than_all_blocks) {
  const TempDir dir;
  const std::string text = text_of(2 * WriteBehind::kBlockCount * kBlock + 3);
  ASSERT_TRUE(write_all(posix_file_ops(), dir.file("a"), text, text.size()).ok());
  EXPECT_TRUE(contents_of(dir.file("a")) == text);
}

TEST(WriteBehindTest, any_failing_write_is_told) {
  const TempDir dir;
  const std::string text = text_of(WriteBehind::kBlockCount * kBlock + 2 * kBlock + 17);
  int failing = 0;
  for (;; ++failing) {
    CutWrites ops(failing);
    const Status status = write_all(ops, dir.file(std::to_string(failing)), text, 300'007);
    if (ops.write_count <= failing) {
      EXPECT_TRUE(status.ok());
      break;
    }
    EXPECT_EQ(status.os_error(), EIO) << failing;
  }
  EXPECT_GT(failing, 10);
}

TEST(WriteBehindTest, any_other_fault_is_told) {
  const TempDir dir;
  for (int fail_at = 0;; ++fail_at) {
    // What fits into one block is written through the page cache, where any cut is possible.
    FaultyFileOps ops(posix_file_ops(), fail_at, EIO);
    const Status status = write_all(ops, dir.file(std::to_string(fail_at)), "some bytes", 4);
    EXPECT_EQ(status.ok(), !ops.fired()) << ops.failed_op();
    if (!ops.fired()) break;
  }
}

TEST(WriteBehindTest, what_is_abandoned_ends) {
  const TempDir dir;
  const std::string text = text_of(3 * kBlock);
  for (int i = 0; i < 20; ++i) {
    auto fd = posix_file_ops().open(dir.file(std::to_string(i)), O_WRONLY | O_CREAT | O_EXCL);
    ASSERT_TRUE(fd.ok());
    WriteBehind file(posix_file_ops(), *std::move(fd));
    ASSERT_TRUE(file.append(std::as_bytes(std::span(text))).ok());
  }
}

}  // namespace
}  // namespace stoker
