// Cached records in random order on one thread: RecordFetcher with and without checksums, against a
// bare pread of the same ranges and a memcpy of the same number of bytes.
//
//   fetch_bench --benchmark_filter=2048
//
// The shards are tar files in the temporary directory (TMPDIR), written once for each size.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "dataset/fetch/record_fetch.h"
#include "formats/webdataset/webdataset_writer.h"
#include "io/files/file.h"

namespace {

using namespace stoker;  // NOLINT(google-build-using-namespace)

constexpr std::size_t kBatch = 256;
constexpr std::size_t kShards = 8;
constexpr std::size_t kTotalBytes = std::size_t{512} << 20;

class FileSink final : public ByteSink {
 public:
  explicit FileSink(const std::string& path) : out_(path, std::ios::binary) {}
  Status write(std::span<const std::byte> bytes) override {
    out_.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    return out_ ? Status() : Status(Code::io_error, "cannot write");
  }

 private:
  std::ofstream out_;
};

/// Shards of samples of one size, indexed with checksums and cached. Removed at the end.
class Shards {
 public:
  explicit Shards(std::size_t sample_bytes) {
    std::string name = std::filesystem::temp_directory_path() / "fetch_bench_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) return;
    directory_ = name;
    const std::size_t per_shard = kTotalBytes / kShards / sample_bytes;
    std::vector<std::byte> body(sample_bytes - 1024);  // the tar headers take the rest
    std::mt19937_64 random(1);
    for (std::size_t shard = 0; shard < kShards; ++shard) {
      FileSink sink(directory_ + "/" + std::to_string(shard) + ".tar");
      const std::unique_ptr<ShardWriter> writer = make_webdataset_writer(sink);
      for (std::size_t i = 0; i < per_shard; ++i) {
        for (std::size_t at = 0; at + 8 <= body.size(); at += 512) {
          const std::uint64_t word = random();
          std::memcpy(body.data() + at, &word, sizeof word);
        }
        const std::string key = std::to_string(i);
        SampleView sample;
        sample.key = key;
        sample.fields.push_back({.name = "bin", .bytes = body});
        if (!writer->append(sample).ok()) return;
      }
      if (!writer->finish().ok()) return;
    }
    auto opened = ShardDataset::open({&directory_, 1}, {.index = {.checksums = true}});
    if (opened.ok()) dataset_ = *opened;
  }
  ~Shards() {
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  }

  const std::shared_ptr<const ShardDataset>& dataset() const { return dataset_; }

 private:
  std::string directory_;
  std::shared_ptr<const ShardDataset> dataset_;
};

const std::shared_ptr<const ShardDataset>& dataset_of(std::size_t sample_bytes) {
  static Shards small(2048);
  static Shards large(110 << 10);
  return sample_bytes == 2048 ? small.dataset() : large.dataset();
}

struct Free {
  void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{4096}); }
};
using Memory = std::unique_ptr<std::byte, Free>;

Memory make_memory(std::size_t size_bytes) {
  Memory memory(static_cast<std::byte*>(::operator new(size_bytes, std::align_val_t{4096})));
  std::memset(memory.get(), 1, size_bytes);
  return memory;
}

void next_batch(std::mt19937_64& random, const ShardDataset& dataset,
                std::vector<SampleRef>& samples) {
  for (SampleRef& ref : samples) ref.sample = random() % dataset.sample_count();
}

void count(benchmark::State& state, std::size_t bytes) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kBatch));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

void fetch(benchmark::State& state) {
  const auto& dataset = dataset_of(static_cast<std::size_t>(state.range(0)));
  if (!dataset) return state.SkipWithError("cannot write the shards");
  FetchOptions options;
  options.checksums = state.range(1) != 0;
  auto fetcher = RecordFetcher::make({dataset}, options);
  if (!fetcher.ok()) return state.SkipWithError("cannot make a fetcher");
  const std::uint64_t size = RecordFetcher::memory_bytes_max(*dataset, kBatch, options);
  const Memory memory = make_memory(size);
  std::vector<SampleRef> samples(kBatch);
  std::vector<FetchedRecord> out(kBatch);
  std::mt19937_64 random(7);
  FetchPlan plan;
  // Not measured: the fetcher checks the residency of each whole shard once.
  while ((*fetcher)->counters().record_bytes < kTotalBytes) {
    next_batch(random, *dataset, samples);
    if (!(*fetcher)->plan(samples, plan).ok()) return state.SkipWithError("plan");
    if (!(*fetcher)->read(plan, {memory.get(), size}, out).ok()) return state.SkipWithError("read");
  }
  const FetchCounters before = (*fetcher)->counters();
  for (auto _ : state) {
    next_batch(random, *dataset, samples);
    if (!(*fetcher)->plan(samples, plan).ok()) return state.SkipWithError("plan");
    if (!(*fetcher)->read(plan, {memory.get(), size}, out).ok()) return state.SkipWithError("read");
    for (const FetchedRecord& record : out)
      if (!record.status.ok()) return state.SkipWithError("record");
  }
  count(state, kBatch * static_cast<std::size_t>(state.range(0)));
  const FetchCounters after = (*fetcher)->counters();
  const auto records = static_cast<double>(after.record_count - before.record_count);
  state.counters["plan_ns"] =
      static_cast<double>((after.plan_time - before.plan_time).count()) / records;
  state.counters["looks"] =
      static_cast<double>(after.residency_looks - before.residency_looks) / records;
  state.counters["warm"] =
      static_cast<double>(after.page_cache_reads - before.page_cache_reads) / records;
}
BENCHMARK(fetch)->ArgsProduct({{2048, 110 << 10}, {0, 1}})->ArgNames({"bytes", "checksums"});

/// Reads the same ranges of the same files with pread, in the requested order.
void plain_pread(benchmark::State& state) {
  const auto& dataset = dataset_of(static_cast<std::size_t>(state.range(0)));
  if (!dataset) return state.SkipWithError("cannot write the shards");
  const Memory memory = make_memory(kBatch * dataset->index().record_bytes_max());
  std::vector<SampleRef> samples(kBatch);
  std::mt19937_64 random(7);
  for (auto _ : state) {
    next_batch(random, *dataset, samples);
    std::byte* to = memory.get();
    for (const SampleRef& ref : samples) {
      const auto at = dataset->index().locate(ref.sample);
      const auto object = dataset->lend_shard(at->shard);
      const auto size = static_cast<std::size_t>(at->record.size_bytes);
      if (::pread((*object)->file()->buffered_fd(), to, size,
                  static_cast<off_t>(at->record.offset_bytes)) != static_cast<ssize_t>(size))
        return state.SkipWithError("pread");
      to += size;
    }
  }
  count(state, kBatch * static_cast<std::size_t>(state.range(0)));
}
BENCHMARK(plain_pread)->Arg(2048)->Arg(110 << 10);

/// Copies as many bytes in as many pieces, from memory as large as the shards.
void plain_memcpy(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const Memory from = make_memory(kTotalBytes);
  const Memory to = make_memory(kBatch * size);
  std::mt19937_64 random(7);
  for (auto _ : state) {
    for (std::size_t i = 0; i < kBatch; ++i)
      std::memcpy(to.get() + i * size, from.get() + random() % (kTotalBytes / size) * size, size);
    benchmark::ClobberMemory();
  }
  count(state, kBatch * size);
}
BENCHMARK(plain_memcpy)->Arg(2048)->Arg(110 << 10);

}  // namespace
