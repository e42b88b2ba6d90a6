#include "stoker/dataset.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <set>
#include <type_traits>

#include "api/shards.h"
#include "stoker/verify.h"

namespace stoker {
namespace {

using testing::bytes_of;
using testing::Folder;
using testing::key_of;
using testing::must;
using testing::npy_of;
using testing::tar_of;
using testing::write_file;
using testing::write_tars;

std::string text_of(const FieldView& field) {
  return {reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()};
}

TEST(DatasetTest, samples_are_read_by_number_and_found_by_key) {
  const Folder folder;
  write_tars(folder, 70);
  const Dataset dataset = must(Dataset::open(folder.path()));
  EXPECT_EQ(dataset.size(), 70U);
  EXPECT_EQ(dataset.format(), "tar");
  EXPECT_EQ(dataset.directory(), folder.path());
  ASSERT_EQ(dataset.shards().size(), 3U);
  EXPECT_EQ(dataset.shards()[2].sample_count, 10U);
  EXPECT_EQ(dataset.shards()[2].path, folder.file("shard-102.tar"));
  EXPECT_FALSE(dataset.has_checksums());
  EXPECT_TRUE(dataset.index_refused().ok());

  Sample sample = must(dataset.read(42));
  EXPECT_EQ(sample.key(), key_of(42));
  ASSERT_EQ(sample.fields().size(), 2U);
  EXPECT_EQ(text_of(*sample.find("cls")), "42");
  EXPECT_EQ(sample.find("png"), nullptr);
  ASSERT_TRUE(dataset.read(3, sample).ok());
  EXPECT_EQ(text_of(*sample.find("cls")), "3");
  EXPECT_EQ(dataset.read(70).status().code(), Code::invalid_argument);

  EXPECT_EQ(must(dataset.find(key_of(65))), 65U);
  EXPECT_EQ(dataset.find("s9999").status().code(), Code::not_found);
}

TEST(DatasetTest, many_samples_are_read_at_once_and_rows_are_gathered) {
  const Folder folder;
  std::vector<float> values(50 * 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  write_file(folder.file("a.npy"), npy_of("<f4", "(50, 3)", bytes_of(values)));
  const Dataset dataset = must(must(Dataset::open(folder.file("a.npy"))).slice(10, 40));
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t i = 0; i < 100; ++i) numbers.push_back((i * 7) % 40);

  const std::vector<Sample> samples = must(dataset.read_many(numbers));
  const std::string field(samples[0].fields()[0].name);
  std::vector<float> rows(100 * 3);
  ASSERT_TRUE(dataset.gather(numbers, field, std::as_writable_bytes(std::span(rows))).ok());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(rows[3 * i], 3.0F * static_cast<float>(10 + numbers[i]));
    EXPECT_EQ(std::memcmp(samples[i].find(field)->bytes.data(), &rows[3 * i], 12), 0);
  }
  EXPECT_TRUE(must(dataset.read_many({})).empty());
  EXPECT_TRUE(dataset.gather({}, field, {}).ok());

  const auto refused = [&](std::string_view name, std::size_t size_bytes) {
    std::vector<std::byte> memory(size_bytes);
    return dataset.gather(numbers, name, memory).code();
  };
  EXPECT_EQ(refused(field, 100 * 12 - 1), Code::invalid_argument);
  EXPECT_EQ(refused(field, 100 * 16), Code::invalid_argument);
  EXPECT_EQ(refused("none", 100 * 12), Code::invalid_argument);
  numbers.push_back(40);
  EXPECT_EQ(dataset.read_many(numbers).status().code(), Code::invalid_argument);
}

TEST(DatasetTest, rows_of_several_sizes_are_not_gathered) {
  const Folder folder;
  write_tars(folder, 20);
  const Dataset dataset = must(Dataset::open(folder.path()));
  const std::array<std::uint64_t, 2> numbers = {0, 1};
  std::vector<std::byte> memory(20);
  const Status status = dataset.gather(numbers, "jpg", memory);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("sample 1"), std::string_view::npos) << status.message();
}

TEST(DatasetTest, fields_have_their_type_and_shape) {
  const Folder folder;
  write_file(folder.file("a.npy"), npy_of("<f4", "(2, 3)", bytes_of<float>({0, 1, 2, 3, 4, 5})));
  const Dataset dataset = must(Dataset::open(folder.file("a.npy")));
  EXPECT_EQ(dataset.size(), 2U);
  const Sample row = must(dataset.read(1));
  ASSERT_EQ(row.fields().size(), 1U);
  EXPECT_EQ(row.fields()[0].type, FieldType::array);
  EXPECT_EQ(row.fields()[0].dtype, "<f4");
  EXPECT_EQ(std::vector<std::uint64_t>(row.fields()[0].shape.begin(), row.fields()[0].shape.end()),
            std::vector<std::uint64_t>{3});
  EXPECT_EQ(text_of(row.fields()[0]), bytes_of<float>({3, 4, 5}));
}

TEST(DatasetTest, some_of_the_samples_are_a_dataset_too) {
  const Folder folder;
  write_tars(folder, 20);
  const Dataset whole = must(Dataset::open(folder.path()));
  const Dataset few = must(whole.select(std::array<std::uint64_t, 3>{7, 3, 7}));
  EXPECT_EQ(few.size(), 3U);
  EXPECT_EQ(must(few.read(0)).key(), key_of(7));
  EXPECT_EQ(must(few.find(key_of(3))), 1U);
  EXPECT_EQ(few.find(key_of(4)).status().code(), Code::not_found);
  EXPECT_FALSE(few.fingerprint() == whole.fingerprint());
  const Dataset part = must(whole.slice(5, 10));
  EXPECT_EQ(must(part.read(9)).key(), key_of(14));
  EXPECT_EQ(must(must(part.slice(2, 3)).read(0)).key(), key_of(7));
  EXPECT_EQ(must(must(whole.slice(0, 20)).slice(0, 20)).fingerprint(), whole.fingerprint());
  EXPECT_EQ(whole.select(std::array<std::uint64_t, 1>{20}).status().code(), Code::invalid_argument);
  EXPECT_EQ(part.slice(5, 6).status().code(), Code::invalid_argument);
}

TEST(DatasetTest, a_split_has_every_sample_once) {
  const Folder folder;
  write_tars(folder, 50);
  const Dataset whole = must(Dataset::open(folder.path()));
  for (const std::optional<std::uint64_t> seed :
       {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(3)}) {
    const std::vector<Dataset> parts = must(whole.split(std::array{0.7, 0.2, 0.1}, seed));
    ASSERT_EQ(parts.size(), 3U);
    EXPECT_EQ(parts[0].size(), 35U);
    EXPECT_EQ(parts[1].size(), 10U);
    std::set<std::string> keys;
    for (const Dataset& part : parts)
      for (std::uint64_t i = 0; i < part.size(); ++i) keys.emplace(must(part.read(i)).key());
    EXPECT_EQ(keys.size(), 50U);
    EXPECT_EQ(must(parts[0].read(34)).key() == key_of(34), !seed);
  }
  EXPECT_EQ(must(whole.split(std::array{49.0, 1.0})).at(1).size(), 1U);
  EXPECT_EQ(whole.split(std::array{0.5, 0.4}).status().code(), Code::invalid_argument);
  EXPECT_EQ(whole.split(std::array{1.5, -0.5}).status().code(), Code::invalid_argument);
}

TEST(DatasetTest, what_cannot_be_opened_or_read_is_a_status) {
  const Folder folder;
  EXPECT_EQ(Dataset::open(folder.file("none")).status().code(), Code::not_found);
  EXPECT_EQ(Dataset::open(DatasetOptions{}).status().code(), Code::invalid_argument);
  write_tars(folder, 10);
  EXPECT_EQ(Dataset::open({.source = {folder.path()}, .format = "tra"}).status().code(),
            Code::invalid_argument);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(Dataset::open({.source = {folder.path()}, .stop = stop.get_token()}).status().code(),
            Code::cancelled);

  const Dataset checked = must(Dataset::open({.source = {folder.path()}, .checksums = true}));
  EXPECT_TRUE(checked.has_checksums());
  EXPECT_TRUE(checked.read(0).ok());  // from now on the shard is open
  const std::string path = folder.file("shard-100.tar");
  std::fstream shard(path, std::ios::binary | std::ios::in | std::ios::out);
  shard.seekp(3 * 2048 + 512);  // in the image of sample 3
  shard.put('!').flush();
  EXPECT_TRUE(checked.read(2).ok());
  const Status damaged = checked.read(3).status();
  EXPECT_EQ(damaged.code(), Code::corrupt);
  EXPECT_NE(damaged.message().find(path), std::string_view::npos) << damaged.message();
}

TEST(DatasetTest, a_directory_is_verified) {
  const Folder folder;
  write_tars(folder, 40);
  const VerifyReport sound = must(verify_dataset(folder.path()));
  EXPECT_EQ(sound.sample_count, 40U);
  EXPECT_EQ(sound.shard_count, 2U);
  EXPECT_TRUE(sound.problems.empty());
  const std::string path = folder.file("shard-101.tar");
  std::fstream shard(path, std::ios::binary | std::ios::in | std::ios::out);
  shard.seekp(2048 + 150);  // the checksum of a header
  shard.put('?').flush();
  const VerifyReport damaged = must(verify_dataset(folder.path()));
  ASSERT_FALSE(damaged.problems.empty());
  EXPECT_EQ(damaged.problems.front().path, path);
  EXPECT_EQ(verify_dataset(folder.file("none")).status().code(), Code::not_found);
}

TEST(DatasetTest, a_forked_child_reads_too) {
  const Folder folder;
  write_tars(folder, 10);
  const Dataset dataset = must(Dataset::open(folder.path()));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(dataset.read(4).ok() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(DatasetTest, the_cache_directory_follows_the_environment) {
  const char* const before = std::getenv("XDG_CACHE_HOME");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("XDG_CACHE_HOME", "/somewhere", 1);
  EXPECT_EQ(cache_directory_from_environment(), "/somewhere/stoker/index");
  ::setenv("XDG_CACHE_HOME", "", 1);
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(cache_directory_from_environment(), "/home/me/.cache/stoker/index");
  if (before == nullptr)
    ::unsetenv("XDG_CACHE_HOME");
  else
    ::setenv("XDG_CACHE_HOME", kept.c_str(), 1);
}

}  // namespace
}  // namespace stoker
