#include "io/files/whole_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/unique_fd.h"
#include "io/engine/residency.h"
#include "io/files/filesystem.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::TempDir;

std::string write_text(const std::string& path, std::size_t size_bytes) {
  std::string text(size_bytes, '\0');
  for (std::size_t i = 0; i < size_bytes; ++i) text[i] = static_cast<char>(i * 7 + i / 4096);
  std::ofstream(path, std::ios::binary) << text;
  return text;
}

double resident_share(const std::string& path, bool evict_first) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY));
  if (evict_first) {
    EXPECT_TRUE(evict(fd.get()).ok());
  }
  const Result<Residency> found = residency(fd.get());
  return found.ok() ? found->share() : -1;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(WholeFileTest, a_fifo_in_the_place_of_a_file_is_not_waited_for) {
  const TempDir dir;
  const WholeFileReader reader(dir.path());
  FileMemory memory;
  ASSERT_EQ(::mkfifo(dir.file("fifo").c_str(), 0600), 0);
  const auto read = reader.read(dir.file("fifo"), 100, memory);
  EXPECT_TRUE(!read.ok() || read->empty());
}

TEST(WholeFileTest, cold_and_warm_files_of_any_size_are_whole) {
  const TempDir dir;
  const WholeFileReader reader(dir.path());
  FileMemory memory;
  for (const std::size_t size :
       {0U, 1U, 4095U, 4096U, 4097U, 16384U, 65536U, 112'640U, 3'000'001U}) {
    SCOPED_TRACE(size);
    const std::string path = dir.file(std::to_string(size));
    const std::string text = write_text(path, size);
    for (const bool is_cold : {true, false}) {
      static_cast<void>(resident_share(path, is_cold));
      const auto bytes = reader.read(path, size, memory);
      ASSERT_TRUE(bytes.ok()) << bytes.status().message();
      EXPECT_TRUE(text_of(*bytes) == text);
    }
  }
}

TEST(WholeFileTest, another_length_than_told_shows) {
  const TempDir dir;
  const WholeFileReader reader(dir.path());
  for (const std::size_t size : {std::size_t{100}, std::size_t{40'960}, std::size_t{50'000}}) {
    const std::string path = dir.file("a");
    const std::string text = write_text(path, size);
    for (const bool is_cold : {true, false}) {
      SCOPED_TRACE(std::to_string(size) + (is_cold ? " cold" : " warm"));
      FileMemory memory;
      static_cast<void>(resident_share(path, is_cold));
      const auto longer = reader.read(path, size - 1, memory);
      ASSERT_TRUE(longer.ok());
      EXPECT_EQ(longer->size(), size);
      static_cast<void>(resident_share(path, is_cold));
      const auto shorter = reader.read(path, size + 5'000, memory);
      ASSERT_TRUE(shorter.ok());
      EXPECT_TRUE(text_of(*shorter) == text);
    }
  }
}

TEST(WholeFileTest, a_cold_file_on_a_local_disk_stays_cold) {
  const TempDir dir;
  const std::string path = dir.file("a");
  const std::string text = write_text(path, 1 << 20);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY));
  const Result<FilesystemKind> kind = filesystem_of(fd.get());
  if (!kind.ok() || !kind->local_block || resident_share(path, true) > 0.01)
    GTEST_SKIP() << "no local disk under " << dir.path();
  FileMemory memory;
  ASSERT_TRUE(WholeFileReader(dir.path()).read(path, text.size(), memory).ok());
  EXPECT_LT(resident_share(path, false), 0.01);
}

TEST(WholeFileTest, what_is_not_there_is_named) {
  const TempDir dir;
  FileMemory memory;
  const auto bytes = WholeFileReader(dir.path()).read(dir.file("a"), 5, memory);
  EXPECT_EQ(bytes.status().code(), Code::not_found);
  EXPECT_NE(bytes.status().message().find(dir.file("a")), std::string::npos);
}

TEST(FileMemoryTest, it_grows_and_is_reused) {
  FileMemory memory;
  const std::span<std::byte> first = memory.get(5000);
  EXPECT_EQ(first.size(), 8192U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data()) % 4096, 0U);
  EXPECT_EQ(memory.get(10).data(), first.data());
  EXPECT_EQ(memory.get(9000).size(), 12288U);
  EXPECT_EQ(memory.capacity_bytes(), 12288U);
}

}  // namespace
}  // namespace stoker
