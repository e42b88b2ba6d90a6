// Measures how long an index takes to open, for ten samples and for millions: the difference should
// be only the 16 bytes of checksum for every 4096 samples. Also measures one lookup, cached.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "dataset/index/index.h"

namespace {

using stoker::Index;
using stoker::IndexWriter;

/// An index file of `count` samples in 16 shards, removed at the end.
class IndexFileOnDisk {
 public:
  explicit IndexFileOnDisk(std::uint64_t count) {
    constexpr std::uint64_t kShards = 16;
    IndexWriter writer("tar", true);
    for (std::uint64_t shard = 0; shard < kShards; ++shard) {
      writer.add_shard("shard-" + std::to_string(shard) + ".tar", 1ULL << 40, 1ULL << 40, 0);
      for (std::uint64_t i = shard * count / kShards; i < (shard + 1) * count / kShards; ++i)
        ok_ = ok_ && writer.add_sample({i * 1024, 1000}, 7).ok();
    }
    const std::vector<std::byte> bytes = writer.finish();
    std::string name = std::filesystem::temp_directory_path() / "index_bench_XXXXXX";
    const int fd = ::mkstemp(name.data());
    ok_ = ok_ && fd >= 0 && ::close(fd) == 0;
    path_ = name;
    std::ofstream out(path_, std::ios::binary);
    ok_ = ok_ && out.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes)).flush();
  }
  ~IndexFileOnDisk() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  bool ok() const { return ok_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool ok_ = true;
};

void open_index(benchmark::State& state) {
  const IndexFileOnDisk file(static_cast<std::uint64_t>(state.range(0)));
  if (!file.ok()) return state.SkipWithError("cannot write the index");
  for (auto _ : state) {
    auto index = Index::open(file.path());
    if (!index.ok()) return state.SkipWithError(std::string(index.status().message()).c_str());
    benchmark::DoNotOptimize(index->sample_count());
  }
}
BENCHMARK(open_index)->Arg(10)->Arg(1'000'000)->Arg(10'000'000)->Unit(benchmark::kMicrosecond);

void locate_sample(benchmark::State& state) {
  const auto count = static_cast<std::uint64_t>(state.range(0));
  const IndexFileOnDisk file(count);
  const auto index = Index::open(file.path());
  if (!index.ok()) return state.SkipWithError("cannot open the index");
  std::uint64_t sample = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(index->locate(sample));
    sample = (sample + 7919UL * 4096) % count;  // another block each time
  }
}
BENCHMARK(locate_sample)->Arg(10)->Arg(1'000'000);

}  // namespace
