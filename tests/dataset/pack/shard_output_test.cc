#include "dataset/pack/shard_output.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/hex.h"
#include "dataset/pack_support.h"
#include "support/faulty_file_ops.h"

namespace stoker::testing {
namespace {

std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::uint32_t crc(const std::string& text) {
  return crc32c(bytes(text));
}

TEST(RecordChecksumsTest, a_record_may_end_in_the_write_of_the_next) {
  RecordChecksums checksums;
  checksums.update(bytes("abc"));
  ASSERT_TRUE(checksums.add({0, 5}).ok());
  checksums.update(bytes("..def"));  // two bytes of padding, then the next record
  ASSERT_TRUE(checksums.add({5, 3}).ok());
  checksums.update(bytes("the end"));
  EXPECT_EQ(*checksums.finish(), (std::vector{crc("abc.."), crc("def")}));
}

TEST(RecordChecksumsTest, records_may_be_known_before_their_bytes) {
  RecordChecksums checksums;
  ASSERT_TRUE(checksums.add({4, 2}).ok());
  ASSERT_TRUE(checksums.add({6, 0}).ok());
  ASSERT_TRUE(checksums.add({6, 3}).ok());
  EXPECT_FALSE(checksums.finish().ok());
  for (const char c : std::string("HEADabcde")) checksums.update(bytes(std::string(1, c)));
  EXPECT_EQ(*checksums.finish(), (std::vector{crc("ab"), crc(""), crc("cde")}));
}

TEST(RecordChecksumsTest, bytes_before_the_first_record_belong_to_none) {
  RecordChecksums checksums;
  checksums.update(bytes("HEAD"));
  ASSERT_TRUE(checksums.add({4, 3}).ok());
  checksums.update(bytes("abc"));
  EXPECT_EQ(*checksums.finish(), (std::vector{crc("abc")}));
}

TEST(RecordChecksumsTest, records_out_of_order_are_refused) {
  RecordChecksums checksums;
  checksums.update(bytes("abcdef"));
  EXPECT_FALSE(checksums.add({2, 2}).ok());  // its first byte has gone by
  EXPECT_FALSE(checksums.add({0, 3}).ok());  // so has its end
  ASSERT_TRUE(checksums.add({0, 6}).ok());
  EXPECT_FALSE(checksums.add({4, 9}).ok());
}

TEST(ShardOutputTest, the_bytes_appear_under_the_final_name_at_the_end_only) {
  const PackDir dir;
  const std::string path = dir.file("a.tar");
  const std::string text = noise((3 << 20) + 17, 1);  // more than one buffer
  auto output = ShardOutput::make(posix_file_ops(), path);
  ASSERT_TRUE(output.ok());
  for (std::size_t at = 0; at < text.size(); at += 100'003)
    ASSERT_TRUE((*output)->write(bytes(text.substr(at, 100'003))).ok());
  ASSERT_TRUE((*output)->sync().ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ((*output)->size_bytes(), text.size());
  ASSERT_TRUE((*output)->publish().ok());
  output->reset();
  EXPECT_EQ(contents_of(path), text);
  EXPECT_EQ(dir.entry_count(), 1);
}

TEST(ShardOutputTest, its_digest_is_that_of_the_file) {
  const PackDir dir;
  auto output = ShardOutput::make(posix_file_ops(), dir.file("a"));
  ASSERT_TRUE((*output)->write(bytes("abc")).ok());
  ASSERT_TRUE((*output)->sync().ok());
  EXPECT_EQ(format_hex((*output)->sha256()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(ShardOutputTest, a_name_that_is_taken_is_not_replaced) {
  const PackDir dir;
  write_text(dir.file("a"), "theirs");
  {
    auto output = ShardOutput::make(posix_file_ops(), dir.file("a"));
    ASSERT_TRUE((*output)->write(bytes("ours")).ok());
    ASSERT_TRUE((*output)->sync().ok());
    EXPECT_EQ((*output)->publish().code(), Code::already_exists);
  }
  EXPECT_EQ(contents_of(dir.file("a")), "theirs");
  EXPECT_EQ(dir.entry_count(), 1);
}

Status write_one(FileOps& ops, const std::string& path) {
  STOKER_ASSIGN(const std::unique_ptr<ShardOutput> output, ShardOutput::make(ops, path));
  STOKER_TRY(output->write(bytes("some bytes")));
  STOKER_TRY(output->sync());
  return output->publish();
}

TEST(ShardOutputTest, any_single_fault_leaves_nothing) {
  for (int fail_at = 0;; ++fail_at) {
    const PackDir dir;
    FaultyFileOps ops(posix_file_ops(), fail_at, EIO);
    const Status status = write_one(ops, dir.file("a"));
    if (!ops.fired()) {
      EXPECT_TRUE(status.ok());
      EXPECT_GT(fail_at, 4);
      break;
    }
    SCOPED_TRACE(ops.failed_op());
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(dir.entry_count(), 0);
  }
}

/// A filesystem without RENAME_NOREPLACE.
class NfsOps final : public FaultyFileOps {
 public:
  NfsOps() : FaultyFileOps(posix_file_ops(), kNever, 0) {}
  Status rename_noreplace(const PathAt& /*from*/, const PathAt& /*to*/) override {
    return Status(Code::unsupported, "not here");
  }
};

TEST(ShardOutputTest, without_the_rename_flag_a_link_does_not_replace_either) {
  const PackDir dir;
  NfsOps ops;
  ASSERT_TRUE(write_one(ops, dir.file("a")).ok());
  EXPECT_EQ(contents_of(dir.file("a")), "some bytes");
  write_text(dir.file("b"), "theirs");
  EXPECT_EQ(write_one(ops, dir.file("b")).code(), Code::already_exists);
  EXPECT_EQ(contents_of(dir.file("b")), "theirs");
  EXPECT_EQ(dir.entry_count(), 2);
}

/// Writes down what durability depends on, in order.
class RecordingOps final : public FaultyFileOps {
 public:
  RecordingOps() : FaultyFileOps(posix_file_ops(), kNever, 0) {}
  Status fsync(int fd) override {
    calls.emplace_back("fsync");
    return FaultyFileOps::fsync(fd);
  }
  Status rename_noreplace(const PathAt& from, const PathAt& to) override {
    calls.emplace_back("rename");
    return FaultyFileOps::rename_noreplace(from, to);
  }
  Status fsync_dir(const PathAt& path) override {
    calls.emplace_back("fsync_dir");
    return FaultyFileOps::fsync_dir(path);
  }
  void reached(std::string_view crash_point) override { calls.emplace_back(crash_point); }

  std::vector<std::string> calls;
};

TEST(ShardOutputTest, bytes_are_synced_before_they_have_a_name_and_the_name_after) {
  const PackDir dir;
  RecordingOps ops;
  ASSERT_TRUE(write_one(ops, dir.file("a")).ok());
  EXPECT_EQ(ops.calls, (std::vector<std::string>{
                           "shard_output.staged", "fsync", "shard_output.synced", "rename",
                           "shard_output.switched", "fsync_dir", "shard_output.durable"}));
}

TEST(ShardOutputTest, staging_names_lead_back_to_the_final_one) {
  EXPECT_EQ(final_name_of_staged("a.tar.staged-12-3"), "a.tar");
  EXPECT_EQ(final_name_of_staged("a.tar"), "");
}

}  // namespace
}  // namespace stoker::testing
