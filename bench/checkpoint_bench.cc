// Saves 1 GiB repeatedly, with a change in every cache line: how long the caller is blocked (the
// copy) and how long until the save is durable. For comparison, measures a memory copy with several
// threads, and direct writes without checksums or protocol. The files are created under --dir=PATH
// or the current directory, which should not be a memory filesystem.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/manifest/names.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "checkpoint/staging/staging_memory.h"

namespace {

using namespace stoker;  // NOLINT: a program of one file

constexpr std::size_t kBytes = std::size_t{1} << 30;
constexpr std::size_t kTensors = 64;
std::string base_directory = ".";  // NOLINT: set by main() alone

class Scratch {
 public:
  Scratch() : path_(base_directory + "/checkpoint_bench_XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The tensors. change() modifies every cache line.
class Model {
 public:
  Model() : values_(kBytes / sizeof(std::uint64_t)) { change(); }
  void change() {
    ++turn_;
    for (std::size_t i = 0; i < values_.size(); i += 8) values_[i] = i * turn_;
  }
  std::vector<SaveTensor> tensors() const {
    std::vector<SaveTensor> tensors;
    const std::size_t each = values_.size() / kTensors;
    for (std::size_t i = 0; i < kTensors; ++i)
      tensors.push_back({.name = "layer." + std::to_string(i),
                         .type = TensorType::bf16,
                         .shape = {each * 4},
                         .data = reinterpret_cast<const std::byte*>(&values_[i * each])});
    return tensors;
  }

 private:
  std::vector<std::uint64_t> values_;
  std::uint64_t turn_ = 0;
};

double seconds_since(Deadline begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void BM_Save(benchmark::State& state) {
  const Scratch scratch;
  Model model;
  SaverOptions options;
  options.directory = scratch.path();
  auto saver = CheckpointSaver::make(std::move(options));
  if (!saver.ok()) return state.SkipWithError("no checkpointer");
  std::uint64_t step = 0;
  double copy_s = 0;
  double durable_s = 0;
  for (auto _ : state) {
    state.PauseTiming();
    model.change();
    if (step > 0) std::filesystem::remove_all(scratch.path() + "/" + step_name(step));
    state.ResumeTiming();
    const Deadline begin = Clock::now();
    const Result<PendingSave> pending =
        (*saver)->save({.step = ++step, .tensors = model.tensors()});
    const double copied = seconds_since(begin);
    if (!pending.ok() || !pending->wait().ok()) return state.SkipWithError("the save failed");
    if (step == 1) continue;  // touches fresh memory, which a run does only once
    copy_s += copied;
    durable_s += seconds_since(begin);
  }
  const auto bytes = static_cast<double>((step - 1) * kBytes);
  state.counters["copy_GBps"] = copy_s > 0 ? bytes / copy_s / 1e9 : 0;
  state.counters["durable_GBps"] = durable_s > 0 ? bytes / durable_s / 1e9 : 0;
}
BENCHMARK(BM_Save)->Unit(benchmark::kMillisecond)->Iterations(8)->UseRealTime();

void BM_Memcpy(benchmark::State& state) {
  const Model model;
  const std::vector<SaveTensor> tensors = model.tensors();
  auto arena = MappedArena::map(kBytes, /*huge_pages=*/true, /*touch=*/true);
  if (!arena.ok()) return state.SkipWithError("no memory");
  const std::size_t threads = std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
  const std::size_t part = kBytes / threads;
  for (auto _ : state) {
    std::vector<std::jthread> workers;
    for (std::size_t i = 0; i < threads; ++i)
      workers.emplace_back([&, i] {
        std::memcpy(arena->bytes().data() + i * part, tensors[0].data + i * part, part);
      });
  }
  state.SetBytesProcessed(state.iterations() * std::int64_t{kBytes});
}
BENCHMARK(BM_Memcpy)->Unit(benchmark::kMillisecond)->Iterations(8)->UseRealTime();

/// Writes with the same engine and file class, and nothing else: the limit of the disk.
void BM_DirectWrite(benchmark::State& state) {
  const Scratch scratch;
  auto arena = MappedArena::map(kBytes, /*huge_pages=*/true, /*touch=*/true);
  auto engine = make_engine(EngineKind::automatic, {.depth = 8});
  if (!arena.ok() || !engine.ok()) return state.SkipWithError("no engine");
  std::memset(arena->bytes().data(), 7, kBytes);
  int number = 0;
  for (auto _ : state) {
    const std::string path = scratch.path() + "/" + std::to_string(number++);
    auto file = File::create(posix_file_ops(), path, {});
    if (!file.ok() || !file->preallocate(kBytes).ok()) return state.SkipWithError("create");
    Completion done[8];
    for (std::size_t at = 0; at < kBytes; at += kCheckpointChunkBytes) {
      auto request = file->plan_write(at, kCheckpointChunkBytes, arena->bytes().subspan(at));
      while ((*engine)->in_flight() >= 8)
        if (!(*engine)->reap(done, 1, kForever).ok()) return state.SkipWithError("reap");
      if (!request.ok() || !(*engine)->submit(std::span(&*request, 1)).ok())
        return state.SkipWithError("submit");
    }
    while ((*engine)->in_flight() > 0)
      if (!(*engine)->reap(done, 1, kForever).ok()) return state.SkipWithError("reap");
    if (!file->finish(kBytes).ok()) return state.SkipWithError("finish");
    state.PauseTiming();
    std::filesystem::remove(path);
    state.ResumeTiming();
  }
  state.SetBytesProcessed(state.iterations() * std::int64_t{kBytes});
}
BENCHMARK(BM_DirectWrite)->Unit(benchmark::kMillisecond)->Iterations(8)->UseRealTime();

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--dir=", 6) != 0) continue;
    base_directory = argv[i] + 6;
    std::copy(argv + i + 1, argv + argc, argv + i);
    --argc;
    break;
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
