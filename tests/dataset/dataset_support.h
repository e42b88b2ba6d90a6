/// \file
/// Datasets of every format, written by the writers of src/formats, and what is in them.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/hex.h"
#include "conformance/shard_format_support.h"
#include "dataset/shard_dataset.h"
#include "formats/arrays/tokens.h"
#include "formats/mds/mds_writer.h"
#include "formats/tfrecord/tfrecord.h"
#include "formats/webdataset/webdataset_writer.h"
#include "support/temp_dir.h"

namespace stoker::testing {

/// A TempDir whose name has no double slash, so that it is the one that messages have.
class DatasetDir : public TempDir {
 public:
  DatasetDir()
      : TempDir(std::filesystem::path(::testing::TempDir() + "/.")
                    .lexically_normal()
                    .parent_path()
                    .string()) {}
};

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

inline void write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  ASSERT_TRUE(out.flush()) << path;
}

/// Sample `i`: an "image" of a size of its own, and a label.
inline OwnedSample make_sample(std::size_t i, std::size_t image_bytes = 0) {
  const std::string number = std::to_string(i);
  std::string image(image_bytes != 0 ? image_bytes : 100 + i * 37 % 2000, '\0');
  for (std::size_t k = 0; k < image.size(); ++k) image[k] = static_cast<char>(i * 31 + k * 7);
  return {.key = "folder/" + std::string(4 - std::min<std::size_t>(number.size(), 4), '0') + number,
          .fields = {{.name = "cls", .bytes = std::to_string(i % 10), .type = FieldType::text},
                     {.name = "jpg", .bytes = std::move(image)}}};
}

inline std::vector<OwnedSample> make_samples(std::size_t count, std::size_t first = 0) {
  std::vector<OwnedSample> samples;
  for (std::size_t i = first; i < first + count; ++i) samples.push_back(make_sample(i));
  return samples;
}

inline void write_with(ShardWriter& writer, std::span<const OwnedSample> samples) {
  for (const OwnedSample& sample : samples) {
    const Status status = writer.append(sample.view());
    ASSERT_TRUE(status.ok()) << status.message();
  }
  ASSERT_TRUE(writer.finish().ok());
}

inline void write_tar(const std::string& path, std::span<const OwnedSample> samples) {
  MemorySink sink;
  write_with(*make_webdataset_writer(sink), samples);
  write_file(path, sink.bytes);
}

inline void write_tfrecord(const std::string& path, std::span<const OwnedSample> samples) {
  MemorySink sink;
  write_with(*make_tfrecord_writer(sink), samples);
  write_file(path, sink.bytes);
}

/// Shards of `per_shard` samples and their index.json.
inline void write_mds(const std::string& directory, std::span<const OwnedSample> samples,
                      std::size_t per_shard, const std::string& compression = "") {
  std::filesystem::create_directories(directory);
  std::vector<MdsShard> shards;
  for (std::size_t first = 0; first < samples.size(); first += per_shard) {
    MemorySink sink;
    auto writer =
        MdsWriter::make({.columns = {{"cls", "str"}, {"jpg", "bytes"}},
                         .compression = compression,
                         .hashes = {"sha256"},
                         .basename = "shard.0000" + std::to_string(shards.size()) + ".mds"},
                        sink);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    write_with(**writer, samples.subspan(first, std::min(per_shard, samples.size() - first)));
    const MdsShard& shard = (*writer)->shard();
    write_file(directory + "/" + (shard.zip ? *shard.zip : shard.raw).basename, sink.bytes);
    shards.push_back(shard);
  }
  write_file(directory + "/index.json", bytes_of(format_mds_index(shards)));
}

/// Token `k` of sequence `i` is i * 100 + k, as uint16.
inline std::string make_tokens(std::size_t i, std::size_t count) {
  std::string bytes(count * 2, '\0');
  for (std::size_t k = 0; k < count; ++k) {
    const auto token = static_cast<std::uint16_t>(i * 100 + k);
    std::memcpy(bytes.data() + k * 2, &token, sizeof token);
  }
  return bytes;
}

/// One document for each sequence.
inline void write_megatron(const std::string& prefix, std::span<const std::size_t> lengths) {
  MemorySink bin;
  MemorySink idx;
  auto writer = MegatronWriter::make(bin, {.dtype = Dtype::uint16});
  ASSERT_TRUE(writer.ok());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    ASSERT_TRUE(writer->append(bytes_of(make_tokens(i, lengths[i]))).ok());
    ASSERT_TRUE(writer->end_document().ok());
  }
  ASSERT_TRUE(writer->finish(idx).ok());
  write_file(prefix + ".bin", bin.bytes);
  write_file(prefix + ".idx", idx.bytes);
}

/// `samples` rows of `length` tokens.
inline void write_tokens(const std::string& path, TokenFormat format, std::size_t samples,
                         std::size_t length) {
  MemorySink sink;
  auto writer = TokenWriter::make(sink, format, Dtype::uint16, {samples, length});
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  for (std::size_t i = 0; i < samples; ++i)
    ASSERT_TRUE(writer->append(bytes_of(make_tokens(i, length))).ok());
  ASSERT_TRUE(writer->finish().ok());
  write_file(path, sink.bytes);
}

/// A chunk of LitData's own, from tests/golden.
inline void write_litdata(const std::string& directory, std::string_view chunk_hex,
                          const std::string& index, const std::string& chunk_name) {
  std::filesystem::create_directories(directory);
  std::vector<std::byte> chunk(chunk_hex.size() / 2);
  ASSERT_TRUE(parse_hex(chunk_hex, chunk).ok());
  write_file(directory + "/" + chunk_name, chunk);
  write_file(directory + "/index.json", bytes_of(index));
}

/// Flips a bit and keeps the time, as a disk would.
inline void flip_bit(const std::string& path, std::uint64_t offset_bytes) {
  struct stat was{};
  ASSERT_EQ(::stat(path.c_str(), &was), 0);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(offset_bytes));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(offset_bytes));
  file.put(static_cast<char>(byte ^ 1));
  ASSERT_TRUE(file.flush());
  file.close();
  const timespec times[2] = {was.st_atim, was.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

/// Moves the time of the last change by a second, which any filesystem can tell apart.
inline void touch(const std::string& path) {
  struct stat was{};
  ASSERT_EQ(::stat(path.c_str(), &was), 0);
  timespec times[2] = {was.st_atim, was.st_mtim};
  times[1].tv_sec += 1;
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

}  // namespace stoker::testing
