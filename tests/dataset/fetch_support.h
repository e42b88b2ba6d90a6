/// \file
/// What tests of fetching share: datasets that are cold or warm, memory with guards around it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "dataset/dataset_support.h"
#include "dataset/fetch/record_fetch.h"
#include "dataset/shard_dataset.h"
#include "golden/litdata/litdata_golden.h"
#include "io/engine/residency.h"
#include "io/files/file.h"
#include "io/files/filesystem.h"

namespace stoker::testing {

/// Writes a dataset of the format, and says how it is opened.
inline ShardDataset::Options write_dataset(const std::string& directory,
                                           const std::string& format) {
  const std::vector<OwnedSample> samples = make_samples(25);
  const auto part = [&samples](std::size_t i) {
    return std::span(samples).subspan(i * 10, std::min<std::size_t>(10, 25 - i * 10));
  };
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string stem = directory + "/s" + std::to_string(i);
    if (format == "tar") write_tar(stem + ".tar", part(i));
    if (format == "tfrecord") write_tfrecord(stem + ".tfrecord", part(i));
    if (format == "megatron") write_megatron(stem, std::array<std::size_t, 5>{3, 0, 1, 4000, 2});
  }
  if (format.starts_with("mds")) write_mds(directory, samples, 10, format.substr(3));
  if (format == "litdata")
    write_litdata(directory, kLitdataTreeChunk, kLitdataTreeIndex, "chunk-0-0.bin");
  if (format == "litdatazstd")
    write_litdata(directory, kLitdataWholeChunk, kLitdataWholeIndex, "chunk-0-0.zstd:4.bin");
  ShardDataset::Options options;
  if (const auto tokens = parse_token_format(format); tokens.ok()) {
    for (const char* name : {"/t0", "/t1"})
      write_tokens(directory + name + (format == "npy" ? ".npy" : ".bin"), *tokens, 7, 40);
    options.source = {.format = format, .dtype = Dtype::uint16};
  }
  return options;
}

inline std::shared_ptr<const ShardDataset> open_dataset(const std::string& pattern,
                                                        const ShardDataset::Options& options = {}) {
  auto dataset = ShardDataset::open({&pattern, 1}, options);
  EXPECT_TRUE(dataset.ok()) << dataset.status().message();
  return dataset.ok() ? *dataset : nullptr;
}

/// Drops every file below `directory` from the page cache.
inline void make_cold(const std::string& directory) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    const UniqueFd fd(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(evict(fd.get()).ok());
  }
}

/// Reads every file below `directory` once.
inline void make_warm(const std::string& directory) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) static_cast<void>(contents_of(entry.path().string()));
}

/// Whether `automatic` reads cold files past the page cache here, and files can be made cold.
inline bool has_direct_reads(const std::string& directory) {
  const std::string path = directory + "/probe-for-direct-reads";
  write_file(path, bytes_of(std::string(8192, 'x')));
  const auto file = File::open(posix_file_ops(), path, {});
  EXPECT_TRUE(file.ok());
  const bool is_direct = file.ok() && file->read_path(false) == IoPath::direct;
  const bool is_cold = file.ok() && evict(file->buffered_fd()).ok() &&
                       residency(file->buffered_fd())->resident_bytes == 0;
  std::filesystem::remove(path);
  return is_direct && is_cold;
}

/// Aligned memory between two guards, whose bytes are looked at in the end.
class GuardedMemory {
 public:
  static constexpr std::size_t kAlign = 4096;
  static constexpr std::byte kGuard{0xA5};

  explicit GuardedMemory(std::size_t size_bytes)
      : size_(size_bytes), all_(kAlign * 2 + size_bytes) {
    memory_.reset(static_cast<std::byte*>(::operator new(all_, std::align_val_t{kAlign})));
    std::fill_n(memory_.get(), all_, kGuard);
  }
  ~GuardedMemory() { EXPECT_EQ(touched(), 0U) << "bytes outside the memory were written"; }

  std::span<std::byte> bytes() { return {memory_.get() + kAlign, size_}; }
  /// With the guard behind it: more than a plan asked for.
  std::span<std::byte> more_than_enough() { return {memory_.get() + kAlign, size_ + kAlign}; }
  std::size_t touched() const {
    const auto is_touched = [](std::byte byte) { return byte != kGuard; };
    return static_cast<std::size_t>(
        std::count_if(memory_.get(), memory_.get() + kAlign, is_touched) +
        std::count_if(memory_.get() + kAlign + size_, memory_.get() + all_, is_touched));
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const {
      ::operator delete(memory, std::align_val_t{kAlign});
    }
  };
  std::size_t size_;
  std::size_t all_;
  std::unique_ptr<std::byte, Free> memory_;
};

inline std::unique_ptr<RecordFetcher> make_fetcher(std::shared_ptr<const ShardDataset> dataset,
                                                   const FetchOptions& options = {}) {
  auto fetcher = RecordFetcher::make({std::move(dataset)}, options);
  EXPECT_TRUE(fetcher.ok()) << fetcher.status().message();
  return fetcher.ok() ? *std::move(fetcher) : nullptr;
}

/// A plan, its memory and what came of it.
struct Fetched {
  std::unique_ptr<GuardedMemory> memory;
  std::vector<FetchedRecord> records;
  Status status;
};

inline Fetched fetch(RecordFetcher& fetcher, std::span<const SampleRef> samples,
                     const std::stop_token& stop = {}) {
  Fetched fetched;
  FetchPlan plan;
  fetched.status = fetcher.plan(samples, plan);
  if (!fetched.status.ok()) return fetched;
  fetched.memory = std::make_unique<GuardedMemory>(plan.memory_bytes);
  fetched.records.resize(samples.size());
  fetched.status = fetcher.read(plan, fetched.memory->more_than_enough(), fetched.records, stop);
  return fetched;
}

inline std::vector<SampleRef> refs_of(std::span<const std::uint64_t> samples) {
  std::vector<SampleRef> refs;
  for (const std::uint64_t sample : samples) refs.push_back({.sample = sample});
  return refs;
}

inline std::vector<SampleRef> all_samples(const ShardDataset& dataset) {
  std::vector<SampleRef> refs;
  for (std::uint64_t i = 0; i < dataset.sample_count(); ++i) refs.push_back({.sample = i});
  return refs;
}

/// The first record that is not what the dataset itself reads, in words.
inline std::string compare(const ShardDataset& dataset, std::span<const SampleRef> samples,
                           const Fetched& fetched) {
  if (!fetched.status.ok()) return std::string(fetched.status.message());
  SampleRecord expected;
  SampleView view;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const FetchedRecord& record = fetched.records[i];
    if (!record.status.ok()) return std::string(record.status.message());
    if (!dataset.read(samples[i].sample, expected).ok()) return "the dataset cannot read it";
    const Status split = dataset.source().reader().split(record.bytes, record.offset_bytes, view);
    if (!split.ok()) return std::string(split.message());
    if (view.key != expected.view().key || fields_of(view) != fields_of(expected.view()))
      return "sample " + std::to_string(samples[i].sample) + " has other fields";
    if (record.shard != dataset.index().locate(samples[i].sample)->shard)
      return "sample " + std::to_string(samples[i].sample) + " is of another shard";
  }
  return "";
}

}  // namespace stoker::testing
