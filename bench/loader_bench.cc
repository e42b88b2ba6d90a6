// Measures how fast a loader turns cached tar shards into shuffled batches, by sample size, number
// of threads, and with or without checksums in the index. For comparison, two threads only copy as
// many bytes, which is the limit for any loader.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dataset/loader/loader_run.h"
#include "formats/webdataset/webdataset_writer.h"

namespace {

using namespace stoker;  // NOLINT: a program of one file

constexpr std::size_t kDatasetBytes = std::size_t{512} << 20;
constexpr std::size_t kShards = 8;

class FileSink : public ByteSink {
 public:
  explicit FileSink(const std::string& path) : out_(path, std::ios::binary) {}
  Status write(std::span<const std::byte> bytes) override {
    out_.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    return out_ ? Status() : Status(Code::io_error, "cannot write the shard");
  }

 private:
  std::ofstream out_;
};

/// Shards of samples of one size, removed when the program ends.
class Shards {
 public:
  Shards(std::size_t sample_bytes, bool checksums) {
    std::string name = std::filesystem::temp_directory_path() / "loader_bench_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
    const std::vector<std::byte> image(sample_bytes, std::byte{0x5A});
    const std::size_t per_shard = kDatasetBytes / kShards / (sample_bytes + 512);
    std::vector<std::string> files;
    for (std::size_t shard = 0; shard < kShards; ++shard) {
      files.push_back(name + "/s" + std::to_string(shard) + ".tar");
      FileSink sink(files.back());
      const auto writer = make_webdataset_writer(sink);
      for (std::size_t i = 0; i < per_shard; ++i) {
        const std::string key = "sample" + std::to_string(shard * per_shard + i);
        SampleView view;
        view.key = key;
        view.fields.push_back({.name = "jpg", .bytes = image});
        if (!writer->append(view).ok()) std::abort();
      }
      if (!writer->finish().ok()) std::abort();
    }
    ShardDataset::Options options;
    options.index.checksums = checksums;
    auto opened = ShardDataset::open(files, options);
    if (!opened.ok()) std::abort();
    dataset_ = *opened;
  }
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;
  ~Shards() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::shared_ptr<const ShardDataset>& dataset() const { return dataset_; }

 private:
  std::filesystem::path path_;
  std::shared_ptr<const ShardDataset> dataset_;
};

const Shards& shards_of(std::size_t sample_bytes, bool checksums) {
  static std::map<std::pair<std::size_t, bool>, std::unique_ptr<Shards>> made;
  auto& shards = made[{sample_bytes, checksums}];
  if (!shards) shards = std::make_unique<Shards>(sample_bytes, checksums);
  return *shards;
}

/// Each iteration is a batch of 256.
void load_batches(benchmark::State& state) {
  const auto sample_bytes = static_cast<std::size_t>(state.range(0));
  const auto dataset = shards_of(sample_bytes, state.range(2) != 0).dataset();
  LoaderRunOptions options;
  options.datasets = {dataset};
  options.order = *make_order({.seed = 7, .sample_count = dataset->sample_count()});
  options.cut = {.global_batch_size = 256};
  options.end_epoch = std::nullopt;
  options.threads = static_cast<std::size_t>(state.range(1));
  options.memory_bytes = std::max<std::size_t>(*LoaderRun::memory_needed(options), 128 << 20);
  options.fields = {{.name = "jpg"}};
  const auto loader = LoaderRun::start(options);
  if (!loader.ok()) return state.SkipWithError(std::string(loader.status().message()).c_str());
  std::int64_t samples = 0;
  for (int i = 0; i < 50; ++i) benchmark::DoNotOptimize((*loader)->next());  // touches the memory
  for (auto _ : state) {
    NextBatch next = (*loader)->next();
    if (next.kind != NextBatch::Kind::batch)
      return state.SkipWithError(std::string(next.status.message()).c_str());
    benchmark::DoNotOptimize(next.batch.columns()[0].views.data());
    samples += static_cast<std::int64_t>(next.batch.size());
  }
  state.SetItemsProcessed(samples);
  state.SetBytesProcessed(samples * static_cast<std::int64_t>(sample_bytes));
}
BENCHMARK(load_batches)
    ->ArgNames({"bytes", "threads", "checksums"})
    ->ArgsProduct({{2048, 110 << 10}, {1, 2}, {0, 1}})
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->MinTime(1.0);

/// From start to the first batch, in the middle of an epoch, as in a resumed run.
void first_batch(benchmark::State& state) {
  const auto dataset = shards_of(2048, false).dataset();
  LoaderRunOptions options;
  options.datasets = {dataset};
  options.order = *make_order({.seed = 7, .sample_count = dataset->sample_count()});
  options.cut = {.global_batch_size = 256};
  options.cursor.position = dataset->sample_count() / 2;
  options.end_epoch = std::nullopt;
  for (auto _ : state) {
    const auto loader = LoaderRun::start(options);
    if (!loader.ok() || (*loader)->next().kind != NextBatch::Kind::batch)
      return state.SkipWithError("no batch");
  }
}
BENCHMARK(first_batch)->UseRealTime()->Unit(benchmark::kMillisecond);

/// Two threads copy pieces of this size between scattered places of two areas.
void copy_by_two_threads(benchmark::State& state) {
  const auto piece = static_cast<std::size_t>(state.range(0));
  const std::size_t pieces = kDatasetBytes / 2 / piece;
  std::vector<std::byte> from(kDatasetBytes, std::byte{1});
  std::vector<std::byte> to(std::size_t{128} << 20, std::byte{2});
  const std::size_t to_pieces = to.size() / 2 / piece;
  for (auto _ : state) {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 2; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < pieces; ++i)
          std::memcpy(to.data() + t * to.size() / 2 + i % to_pieces * piece,
                      from.data() + t * from.size() / 2 + i * 7919 % pieces * piece, piece);
      });
  }
  const auto bytes = static_cast<std::int64_t>(2 * pieces * piece);
  state.SetItemsProcessed(state.iterations() * bytes / state.range(0));
  state.SetBytesProcessed(state.iterations() * bytes);
}
BENCHMARK(copy_by_two_threads)
    ->ArgName("bytes")
    ->Arg(2048)
    ->Arg(110 << 10)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
