#include "dataset/shard_cache/chunk_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "dataset/shard_cache/cache_support.h"

namespace stoker::testing {
namespace {

constexpr std::size_t kBlock = kChunkBlockBytes;

class ChunkFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto fd = posix_file_ops().open(path_, O_RDWR | O_CREAT);
    ASSERT_TRUE(fd.ok());
    ASSERT_TRUE(write_chunk(posix_file_ops(), fd->get(), id_, "file:///data/a.tar", body_).ok());
  }
  Result<ChunkFile> open() { return ChunkFile::open(posix_file_ops(), path_, id_); }

  const TempDir dir_;
  const std::string path_ = dir_.file("chunk");
  const std::vector<std::byte> body_ = noise(5 * kBlock + 777, 1);
  const ChunkId id_{.object = {.low = 1, .high = 2},
                    .offset_bytes = 8 << 20,
                    .size_bytes = static_cast<std::uint32_t>(body_.size())};
};

TEST_F(ChunkFileTest, every_range_is_read_as_it_was_written) {
  auto chunk = open();
  ASSERT_TRUE(chunk.ok()) << chunk.status().message();
  EXPECT_EQ(chunk->head().identity, "file:///data/a.tar");
  EXPECT_EQ(std::filesystem::file_size(path_), chunk_file_bytes(id_));
  EXPECT_TRUE(chunk->verify().ok());
  const std::size_t size = body_.size();
  const std::vector<std::pair<std::size_t, std::size_t>> ranges = {{0, size},
                                                                   {0, 1},
                                                                   {size - 1, 1},
                                                                   {kBlock, kBlock},
                                                                   {kBlock - 1, 2},
                                                                   {1, 3 * kBlock},
                                                                   {5 * kBlock, 777},
                                                                   {5 * kBlock - 1, 778},
                                                                   {2 * kBlock, 3000},
                                                                   {kBlock + 5, 10},
                                                                   {3 * kBlock, 2 * kBlock},
                                                                   {7, 0}};
  for (const auto& [at, count] : ranges) {
    std::vector<std::byte> out(count);
    const Status status = chunk->read(at, out);
    ASSERT_TRUE(status.ok()) << at << " " << count << " " << status.message();
    EXPECT_EQ(out, part_of(body_, at, count)) << at << " " << count;
  }
  std::vector<std::byte> out(2);
  EXPECT_EQ(chunk->read(size - 1, out).code(), Code::invalid_argument);
}

TEST_F(ChunkFileTest, a_flipped_bit_fails_the_reads_that_touch_its_block_and_no_others) {
  flip_bit(path_, kChunkHeadBytes + 2 * kBlock + 100);
  auto chunk = open();
  ASSERT_TRUE(chunk.ok());
  std::vector<std::byte> out(10);
  for (const std::size_t at : {2 * kBlock, 2 * kBlock + 100, 3 * kBlock - 10, 2 * kBlock - 5})
    EXPECT_EQ(chunk->read(at, out).code(), Code::corrupt) << at;
  for (const std::size_t at : {std::size_t{0}, 2 * kBlock - 10, 3 * kBlock, 5 * kBlock})
    EXPECT_TRUE(chunk->read(at, out).ok()) << at;
  EXPECT_EQ(chunk->verify().code(), Code::corrupt);
}

TEST_F(ChunkFileTest, no_flipped_bit_of_the_head_is_accepted) {
  for (std::size_t at = 0; at < 80; ++at) {
    flip_bit(path_, at);
    EXPECT_EQ(open().status().code(), Code::corrupt) << at;
    flip_bit(path_, at);
  }
  EXPECT_TRUE(open().ok());
}

TEST_F(ChunkFileTest, a_file_of_another_size_is_damaged) {
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{100}, chunk_file_bytes(id_) - 1,
                                   chunk_file_bytes(id_) + 1}) {
    std::filesystem::resize_file(path_, size);
    EXPECT_EQ(open().status().code(), Code::corrupt) << size;
  }
}

TEST_F(ChunkFileTest, a_file_that_shrinks_under_its_reader_is_damaged_and_not_shorter) {
  auto chunk = open();
  ASSERT_TRUE(chunk.ok());
  std::filesystem::resize_file(path_, kChunkHeadBytes + kBlock);
  std::vector<std::byte> out(100);
  EXPECT_TRUE(chunk->read(0, out).ok());
  EXPECT_EQ(chunk->read(kBlock - 50, out).code(), Code::corrupt);
  EXPECT_EQ(chunk->read(kBlock, out).code(), Code::corrupt);
}

TEST_F(ChunkFileTest, the_file_of_another_chunk_is_damage) {
  ChunkId other = id_;
  other.object.low = 9;
  EXPECT_EQ(ChunkFile::open(posix_file_ops(), path_, other).status().code(), Code::corrupt);
}

TEST_F(ChunkFileTest, what_is_no_plain_file_is_damage_and_is_not_waited_for) {
  const std::string link = dir_.file("link");
  std::filesystem::create_symlink(path_, link);
  EXPECT_EQ(ChunkFile::open(posix_file_ops(), link, id_).status().code(), Code::corrupt);
  const std::string fifo = dir_.file("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(ChunkFile::open(posix_file_ops(), fifo, id_).status().code(), Code::corrupt);
  EXPECT_EQ(ChunkFile::open(posix_file_ops(), dir_.path(), id_).status().code(), Code::corrupt);
  EXPECT_EQ(ChunkFile::open(posix_file_ops(), dir_.file("none"), id_).status().code(),
            Code::not_found);
}

TEST(ChunkIdTest, a_name_leads_back_to_its_chunk) {
  for (const ChunkId& id :
       {ChunkId{.object = {.low = 1, .high = ~0ULL}, .offset_bytes = 0, .size_bytes = 1},
        ChunkId{.object = {.low = ~0ULL, .high = 0},
                .offset_bytes = ~0ULL - ChunkId::kSizeMax,
                .size_bytes = ChunkId::kSizeMax}}) {
    const auto parsed = parse_chunk_name(chunk_name(id));
    ASSERT_TRUE(parsed.has_value()) << chunk_name(id);
    EXPECT_EQ(*parsed, id);
  }
}

TEST(ChunkIdTest, no_other_name_is_one) {
  const std::string object(32, 'a');
  for (const std::string& name : {std::string(),
                                  object,
                                  object + "-",
                                  object + "-0",
                                  object + "-0-",
                                  object + "-0-0",
                                  object + "-0-800001",
                                  object + "--1",
                                  object + "-00-1",
                                  object + "-0-01",
                                  object + "-A-1",
                                  object + "-0-1-1",
                                  object + "-0-1 ",
                                  object + "-+1-1",
                                  object + "-ffffffffffffffff-1",
                                  object + "-10000000000000000-1",
                                  std::string(31, 'a') + "-0-1",
                                  std::string(32, 'A') + "-0-1",
                                  std::string(31, 'a') + "g-0-1",
                                  "../" + object + "-0-1"})
    EXPECT_FALSE(parse_chunk_name(name).has_value()) << name;
}

TEST(ChunkIdTest, an_object_is_another_if_identity_size_or_version_differ) {
  const Digest128 id = object_id("s3://b/k", {.size_bytes = 5, .version = 6});
  EXPECT_EQ(object_id("s3://b/k", {.size_bytes = 5, .version = 6}), id);
  EXPECT_NE(object_id("s3://b/j", {.size_bytes = 5, .version = 6}), id);
  EXPECT_NE(object_id("s3://b/k", {.size_bytes = 6, .version = 6}), id);
  EXPECT_NE(object_id("s3://b/k", {.size_bytes = 5, .version = 7}), id);
}

}  // namespace
}  // namespace stoker::testing
