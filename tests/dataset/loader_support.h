/// \file
/// What the loader's tests share: a dataset, its order, a run of batches written down.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dataset/dataset_support.h"
#include "dataset/loader/loader_run.h"
#include "dataset/order/mixture.h"

namespace stoker::testing {

using Kind = NextBatch::Kind;

/// A number of samples in tar shards, with checksums, opened.
class LoaderData {
 public:
  explicit LoaderData(std::size_t count = 100, std::size_t per_shard = 30,
                      std::size_t image_bytes = 0, bool checksums = true) {
    for (std::size_t first = 0; first < count; first += per_shard) {
      std::vector<OwnedSample> samples;
      for (std::size_t i = first; i < std::min(count, first + per_shard); ++i)
        samples.push_back(make_sample(i, image_bytes));
      paths_.push_back(dir_.file("s-" + std::to_string(10 + paths_.size()) + ".tar"));
      write_tar(paths_.back(), samples);
    }
    open(checksums);
  }

  void open(bool checksums) {
    ShardDataset::Options options;
    options.index.checksums = checksums;
    auto opened = ShardDataset::open(paths_, options);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    dataset_ = *opened;
  }
  const std::shared_ptr<const ShardDataset>& dataset() const { return dataset_; }
  const std::vector<std::string>& paths() const { return paths_; }

  /// Global batches of `batch`, one rank, one epoch, from the beginning.
  LoaderRunOptions options(std::uint64_t batch, Shuffle shuffle = Shuffle::global) const {
    LoaderRunOptions options;
    options.datasets = {dataset_};
    options.cut = {.global_batch_size = batch};
    OrderOptions order{.shuffle = shuffle, .seed = 7, .sample_count = dataset_->sample_count()};
    if (shuffle == Shuffle::block) {
      order.block_samples = 5;
      order.window_blocks = 2;
      order.deal_samples = batch;
    }
    const auto resolved = resolve_order(order);
    EXPECT_TRUE(resolved.ok()) << resolved.status().message();
    options.cursor.order = *resolved;
    options.cursor.fingerprint = dataset_->index().fingerprint();
    auto made = make_order(*resolved);
    EXPECT_TRUE(made.ok()) << made.status().message();
    options.order = *std::move(made);
    options.memory_bytes = std::size_t{64} << 20;
    options.threads = 2;
    return options;
  }

 private:
  DatasetDir dir_;
  std::vector<std::string> paths_;
  std::shared_ptr<const ShardDataset> dataset_;
};

inline std::unique_ptr<LoaderRun> start_loader(LoaderRunOptions options) {
  auto loader = LoaderRun::start(std::move(options));
  EXPECT_TRUE(loader.ok()) << loader.status().message();
  return loader.ok() ? *std::move(loader) : nullptr;
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Everything that is in a batch, as text that can be compared.
inline std::string written_down(const Batch& batch) {
  std::string out = "epoch " + std::to_string(batch.epoch()) + " to " +
                    std::to_string(batch.cursor().position) + "\n";
  for (std::size_t i = 0; i < batch.size(); ++i) {
    out += std::to_string(batch.positions()[i]) + " " + std::to_string(batch.samples()[i].dataset) +
           ":" + std::to_string(batch.samples()[i].sample) + " " + batch.key(i) +
           (batch.valid()[i] != 0 ? "" : " filled");
    for (const Column& column : batch.columns())
      if (column.layout == Column::Layout::views)
        out += " " + std::string(column.name) + "=" + text_of(column.views[i]);
    out += "\n";
  }
  for (const Column& column : batch.columns())
    if (column.layout != Column::Layout::views)
      out += std::string(column.name) + "=" + text_of(column.data) + "\n";
  return out;
}

/// All batches of a run, each written down; the run must end well.
inline std::vector<std::string> all_batches(LoaderRunOptions options) {
  const auto loader = start_loader(std::move(options));
  std::vector<std::string> out;
  for (;;) {
    NextBatch next = loader->next();
    if (next.kind == Kind::end) return out;
    EXPECT_EQ(next.kind, Kind::batch) << next.status.message();
    if (next.kind != Kind::batch) return out;
    EXPECT_EQ(next.batch.number(), out.size());
    out.push_back(written_down(next.batch));
  }
}

template <typename T>
std::vector<T> numbers_of(const Column& column) {
  std::vector<T> out(column.data.size() / sizeof(T));
  std::memcpy(out.data(), column.data.data(), column.data.size());
  return out;
}

inline std::size_t open_fd_count() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

}  // namespace stoker::testing
