#include "io/read_many.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>

#include "io/engine/arena.h"
#include "io/engine/residency.h"
#include "support/faulty_file_ops.h"
#include "support/in_child.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::in_child;

constexpr std::byte kCanary{0xa5};

std::byte byte_at(std::uint32_t file, std::uint64_t offset) {
  return static_cast<std::byte>((offset * 2654435761U + file * 97U) >> 7U);
}

class ReadManyTest : public ::testing::Test {
 protected:
  /// Files of these sizes with known bytes, made durable so that they can be evicted.
  void make_files(const std::vector<std::uint64_t>& sizes) {
    for (std::uint32_t file = 0; file < sizes.size(); ++file) {
      std::string bytes(sizes[file], '\0');
      for (std::uint64_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<char>(byte_at(file, i));
      paths_.push_back(dir_.file("f" + std::to_string(file)));
      std::ofstream(paths_.back(), std::ios::binary) << bytes;
    }
  }
  void evict_all() {
    for (const std::string& path : paths_) {
      Result<UniqueFd> fd = posix_file_ops().open(path, 0);
      ASSERT_TRUE(fd.ok() && evict(fd->get()).ok());
    }
  }
  Result<ManyReads> plan(std::vector<ReadRange> ranges, ReadManyOptions options = {}) {
    options.piece_bytes = 8192;
    return ManyReads::plan(posix_file_ops(), paths_, std::move(ranges), std::move(options));
  }
  static bool is_right(const ReadRange& range, std::span<const std::byte> bytes) {
    for (std::uint64_t i = 0; i < bytes.size(); ++i)
      if (bytes[i] != byte_at(range.file, range.offset_bytes + i)) return false;
    return bytes.size() == range.size_bytes;
  }

  testing::TempDir dir_{"."};  // not tmpfs: direct reads are half of the matter
  std::vector<std::string> paths_;
};

/// Ranges of every awkward kind: empty, one byte, across blocks, across pieces, to the end.
std::vector<ReadRange> awkward_ranges(std::span<const std::uint64_t> sizes) {
  std::mt19937_64 random(7);
  std::vector<ReadRange> ranges;
  for (int i = 0; i < 200; ++i) {
    const auto file = static_cast<std::uint32_t>(random() % sizes.size());
    const std::uint64_t offset = random() % (sizes[file] + 1);
    const std::uint64_t left = sizes[file] - offset;
    const std::uint64_t size = i % 5 == 0 ? left : random() % (left + 1);
    ranges.push_back({.file = file, .offset_bytes = offset, .size_bytes = size});
  }
  ranges.push_back({.file = 0, .offset_bytes = 4096, .size_bytes = 8192});
  ranges.push_back({.file = 0, .offset_bytes = sizes[0], .size_bytes = 0});
  return ranges;
}

TEST_F(ReadManyTest, every_engine_and_policy_brings_the_bytes_of_every_range) {
  const std::vector<std::uint64_t> sizes = {70'001, 1, 0, 40'960, 513};
  make_files(sizes);
  const std::vector<ReadRange> ranges = awkward_ranges(sizes);
  for (const EngineKind engine : {EngineKind::automatic, EngineKind::threads, EngineKind::sync}) {
    for (const CachePolicy policy : {CachePolicy::automatic, CachePolicy::buffered,
                                     CachePolicy::direct, CachePolicy::drop_behind}) {
      SCOPED_TRACE(std::string(engine_kind_name(engine)) + " " +
                   std::string(cache_policy_name(policy)));
      evict_all();
      Result<ManyReads> reads = plan(ranges, {.policy = policy, .engine = engine});
      if (reads.status().code() == Code::unsupported) continue;  // no direct I/O here
      ASSERT_TRUE(reads.ok()) << reads.status().message();
      Result<MappedArena> memory = MappedArena::map(reads->memory_bytes(), false, false);
      ASSERT_TRUE(memory.ok());
      const Status status = reads->read(memory->bytes());
      ASSERT_TRUE(status.ok()) << status.message();
      for (std::size_t i = 0; i < ranges.size(); ++i)
        EXPECT_TRUE(is_right(ranges[i], reads->bytes(i, memory->bytes()))) << i;
    }
  }
}

TEST_F(ReadManyTest, places_that_are_given_are_filled_exactly) {
  const std::vector<std::uint64_t> sizes = {70'001, 1, 0, 40'960, 513};
  make_files(sizes);
  for (const CachePolicy policy : {CachePolicy::automatic, CachePolicy::buffered}) {
    for (const std::size_t shift : {std::size_t{0}, std::size_t{3}}) {  // aligned, and not
      evict_all();
      std::vector<ReadRange> ranges = awkward_ranges(sizes);
      std::size_t total = 0;
      for (const ReadRange& range : ranges) total += range.size_bytes / 4096 * 4096 + 8192;
      Result<MappedArena> memory = MappedArena::map(total, false, false);
      ASSERT_TRUE(memory.ok());
      std::ranges::fill(memory->bytes(), kCanary);
      std::size_t at = 0;
      for (ReadRange& range : ranges) {
        range.into = memory->bytes().subspan(at + shift, range.size_bytes);
        at += range.size_bytes / 4096 * 4096 + 8192;
      }
      Result<ManyReads> reads = plan(ranges, {.policy = policy, .bounce_bytes = 1});
      ASSERT_TRUE(reads.ok()) << reads.status().message();
      EXPECT_EQ(reads->memory_bytes(), 0);
      const Status status = reads->read({});
      ASSERT_TRUE(status.ok()) << status.message();
      for (const ReadRange& range : ranges) {
        EXPECT_TRUE(is_right(range, range.into));
        EXPECT_EQ(*(range.into.data() + range.into.size()), kCanary);
      }
    }
  }
}

TEST_F(ReadManyTest, more_files_than_may_stay_open_are_read_all_the_same) {
  make_files(std::vector<std::uint64_t>(50, 5000));
  std::vector<ReadRange> ranges;
  for (std::uint32_t file = 0; file < 50; ++file)
    for (const std::uint64_t offset : {0U, 4000U})
      ranges.push_back({.file = 49 - file, .offset_bytes = offset, .size_bytes = 1000});
  Result<ManyReads> reads = plan(ranges, {.engine_options = {.depth = 4}, .open_files_max = 3});
  ASSERT_TRUE(reads.ok()) << reads.status().message();
  std::vector<std::byte> buffer(reads->memory_bytes() + 4096);
  void* start = buffer.data();
  std::size_t space = buffer.size();
  std::align(4096, reads->memory_bytes(), start, space);
  const std::span memory(static_cast<std::byte*>(start), reads->memory_bytes());
  for (int repeat = 0; repeat < 2; ++repeat) {  // a plan may be read again
    const Status status = reads->read(memory);
    ASSERT_TRUE(status.ok()) << status.message();
    for (std::size_t i = 0; i < ranges.size(); ++i)
      EXPECT_TRUE(is_right(ranges[i], reads->bytes(i, memory)));
  }
}

TEST_F(ReadManyTest, a_file_stays_open_until_its_last_piece_is_read) {
  make_files({60'000});
  testing::FaultyFileOps ops(posix_file_ops(), testing::FaultyFileOps::kNever, 0);
  ReadManyOptions options{.engine_options = {.depth = 1}, .piece_bytes = 4096};
  Result<ManyReads> reads = ManyReads::plan(
      ops, paths_, {{.file = 0, .size_bytes = 60'000}, {.file = 0, .size_bytes = 50'000}}, options);
  ASSERT_TRUE(reads.ok());
  const int opened = ops.call_count();
  Result<MappedArena> memory = MappedArena::map(reads->memory_bytes(), false, false);
  ASSERT_TRUE(memory.ok());
  EXPECT_TRUE(reads->read(memory->bytes()).ok());
  EXPECT_EQ(ops.call_count(), opened) << "it was opened again";
}

TEST_F(ReadManyTest, what_cannot_succeed_is_refused_with_path_offset_and_length) {
  make_files({100});
  std::filesystem::create_directory(dir_.file("folder"));
  ASSERT_EQ(::mkfifo(dir_.file("pipe").c_str(), 0600), 0);
  for (const char* name : {"missing", "folder", "pipe"}) paths_.push_back(dir_.file(name));
  std::array<std::byte, 4> place{};
  const struct {
    ReadRange range;
    Code code;
    const char* says;
  } cases[] = {
      {{.file = 0, .offset_bytes = 90, .size_bytes = 11}, Code::io_error, "ends at byte 100"},
      {{.file = 0, .offset_bytes = 101, .size_bytes = 0}, Code::io_error, "offset 101, length 0"},
      {{.file = 0, .offset_bytes = 101}, Code::io_error, "length to the end"},
      {{.file = 0, .offset_bytes = 8, .size_bytes = ~0ULL - 3}, Code::io_error, "offset 8"},
      {{.file = 0, .size_bytes = 5, .into = place}, Code::invalid_argument, "has 4 bytes"},
      {{.file = 1, .offset_bytes = 3, .size_bytes = 5}, Code::not_found, "offset 3, length 5"},
      {{.file = 2, .size_bytes = 5}, Code::invalid_argument, "folder, offset 0"},
      {{.file = 3, .size_bytes = 5}, Code::invalid_argument, "not a regular file"},
      {{.file = 9, .size_bytes = 5}, Code::invalid_argument, "no file 9"},
  };
  for (const auto& row : cases) {
    const Result<ManyReads> reads = plan({row.range});
    EXPECT_EQ(reads.status().code(), row.code) << row.says;
    EXPECT_NE(reads.status().message().find(row.says), std::string_view::npos)
        << reads.status().message();
  }
}

// Fails each transfer in turn until none is left to fail.
TEST_F(ReadManyTest, any_single_fault_is_told_with_its_range_and_leaves_nothing_in_flight) {
  make_files({60'000});
  const std::vector<ReadRange> ranges = {{.file = 0, .offset_bytes = 30'000, .size_bytes = 20'000},
                                         {.file = 0, .offset_bytes = 0, .size_bytes = 9'000}};
  for (const EngineKind engine : {EngineKind::automatic, EngineKind::threads, EngineKind::sync}) {
    bool finished = false;
    for (int fault = 0; !finished; ++fault) {
      std::atomic<int> count{0};
      ReadManyOptions options{.policy = CachePolicy::buffered, .engine = engine};
      options.engine_options.depth = 2;
      options.engine_options.tamper = [&](const Request&, std::int64_t raw) {
        return count++ == fault ? -EIO : raw;
      };
      Result<ManyReads> reads = plan(ranges, options);
      ASSERT_TRUE(reads.ok());
      Result<MappedArena> memory = MappedArena::map(reads->memory_bytes(), false, false);
      ASSERT_TRUE(memory.ok());
      const Status status = reads->read(memory->bytes());
      finished = count <= fault;
      EXPECT_EQ(status.ok(), finished);
      EXPECT_EQ(status.os_error(), finished ? 0 : EIO) << status.message();
      EXPECT_EQ(status.message().find("f0, offset ") == std::string_view::npos, finished);
    }
  }
}

TEST_F(ReadManyTest, a_file_that_shrinks_before_it_is_read_is_an_error) {
  for (const std::size_t kept_open : {0U, 1U}) {
    paths_.clear();
    make_files({60'000});
    Result<ManyReads> reads = plan({{.file = 0, .size_bytes = 60'000}},
                                   {.engine = EngineKind::sync, .open_files_max = kept_open});
    ASSERT_TRUE(reads.ok());
    std::filesystem::resize_file(paths_[0], 10'000);
    Result<MappedArena> memory = MappedArena::map(reads->memory_bytes(), false, false);
    ASSERT_TRUE(memory.ok());
    const Status status = reads->read(memory->bytes());
    EXPECT_EQ(status.code(), Code::io_error);
    EXPECT_NE(status.message().find("shortened"), std::string_view::npos) << status.message();
  }
}

TEST_F(ReadManyTest, an_interrupt_ends_it) {
  make_files({60'000});
  int asked = 0;
  ReadManyOptions options{.is_interrupted = [&] { return ++asked == 2; }, .poll = nanoseconds(0)};
  options.engine_options.depth = 1;
  Result<ManyReads> reads = plan({{.file = 0, .size_bytes = 60'000}}, options);
  ASSERT_TRUE(reads.ok());
  Result<MappedArena> memory = MappedArena::map(reads->memory_bytes(), false, false);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(reads->read(memory->bytes()).code(), Code::cancelled);
  EXPECT_EQ(asked, 2);
}

TEST_F(ReadManyTest, it_works_in_a_forked_child) {
  make_files({60'000});
  const auto read_all = [&] {
    Result<ManyReads> reads = plan({{.file = 0, .size_bytes = 60'000}});
    Result<MappedArena> memory = MappedArena::map(reads->memory_bytes(), false, false);
    return reads->read(memory->bytes()).ok() ? 0 : 1;
  };
  ASSERT_EQ(read_all(), 0);
  EXPECT_EQ(in_child(read_all).exit_code, 0);
}

}  // namespace
}  // namespace stoker
