/// \file
/// What the tests of pack, convert and verify share: sources to pack, and what is in the result.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/input/input.h"
#include "dataset/pack/pack.h"
#include "dataset/shard_dataset.h"
#include "support/temp_dir.h"

namespace stoker::testing {

/// A TempDir in memory where there is one: these tests publish thousands of files, and what a disk
/// does with fsync is not what they are about.
class PackDir : public TempDir {
 public:
  PackDir() : TempDir(parent()) {}

 private:
  static std::string parent() {
    return ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ::testing::TempDir();
  }
};

inline void write_text(const std::string& path, std::string_view text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  ASSERT_TRUE(out.flush()) << path;
}

/// Bytes that depend on `seed` alone.
inline std::string noise(std::size_t size, unsigned seed) {
  std::string bytes(size, '\0');
  std::uint64_t state = seed * 2654435761U + 1;
  for (char& byte : bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<char>(state >> 56);
  }
  return bytes;
}

/// `count` images in three classes.
inline void write_images(const std::string& root, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::string folder = i % 3 == 0 ? "cat" : i % 3 == 1 ? "dog" : "emu";
    write_text(root + "/" + folder + "/img" + std::to_string(1000 + i) + ".JPG",
               noise(100 + i * 97 % 3000, static_cast<unsigned>(i)));
  }
}

using Fields = std::map<std::string, std::string>;

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Key and fields of every sample, in order, read as a user reads them.
inline std::vector<std::pair<std::string, Fields>> read_all(const std::string& directory) {
  std::vector<std::pair<std::string, Fields>> all;
  const auto dataset = ShardDataset::open(directory);
  EXPECT_TRUE(dataset.ok()) << dataset.status().message();
  if (!dataset.ok()) return all;
  EXPECT_TRUE((*dataset)->index().has_checksums());
  SampleRecord record;
  for (std::uint64_t i = 0; i < (*dataset)->sample_count(); ++i) {
    const Status status = (*dataset)->read(i, record);
    EXPECT_TRUE(status.ok()) << status.message();
    Fields fields;
    for (const FieldView& field : record.view().fields)
      fields[std::string(field.name)] = text_of(field.bytes);
    all.emplace_back(record.key(), std::move(fields));
  }
  return all;
}

/// Every file with a final name, and its bytes.
inline std::map<std::string, std::string> visible_files(const std::string& directory) {
  std::map<std::string, std::string> files;
  if (!std::filesystem::exists(directory)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (name != ".stoker" && name.find(".staged-") == std::string::npos)
      files[name] = contents_of(entry.path());
  }
  return files;
}

inline std::size_t staged_count(const std::string& directory) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    count += entry.path().filename().string().find(".staged-") != std::string::npos ? 1 : 0;
  return count;
}

inline std::unique_ptr<PackInput> open_source(const std::string& path,
                                              const PackInputOptions& options = {}) {
  auto source = open_input(path, options);
  EXPECT_TRUE(source.ok()) << source.status().message();
  return source.ok() ? *std::move(source) : nullptr;
}

inline std::string int64_bytes(std::int64_t value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// Small shards, so that there are several.
inline PackOptions small_shards(const std::string& format, std::uint64_t samples_per_shard = 4) {
  PackOptions options;
  options.plan.format = format;
  options.plan.samples_per_shard = samples_per_shard;
  options.thread_count = 1;
  return options;
}

}  // namespace stoker::testing
