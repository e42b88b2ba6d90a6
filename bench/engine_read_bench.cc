// Random reads of one file through each engine: the rate of one core at a given block size and
// queue depth. The file is in memory, so this measures the engines; `stoker bench disk` measures
// devices.
#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <vector>

#include "base/unique_fd.h"
#include "io/engine/buffer_pool.h"
#include "io/engine/engine.h"

namespace stoker {
namespace {

constexpr std::size_t kFileBytes = std::size_t{64} << 20;

int warm_file() {
  static const UniqueFd fd = [] {
    UniqueFd file(::memfd_create("engine_read_bench", MFD_CLOEXEC));
    const std::vector<char> zeros(kFileBytes);
    if (::write(file.get(), zeros.data(), zeros.size()) != std::ssize(zeros)) return UniqueFd();
    return file;
  }();
  return fd.get();
}

/// Sets each request to a random block of the file.
void aim(std::span<Request> requests, std::mt19937_64& random) {
  for (Request& request : requests) {
    const std::size_t block_bytes = request.buffer.size();
    request.offset_bytes = random() % (kFileBytes / block_bytes) * block_bytes;
  }
}

void BM_EngineRead(benchmark::State& state) {
  const auto kind = static_cast<EngineKind>(state.range(0));
  const auto block_bytes = static_cast<std::size_t>(state.range(1));
  const auto depth = static_cast<std::size_t>(state.range(2));
  auto engine = make_engine(kind, {.depth = static_cast<std::uint32_t>(depth)});
  auto pool = BufferPool::make({.budget_bytes = block_bytes * depth});
  if (!engine.ok() || !pool.ok()) {
    state.SkipWithError("no such engine here");
    return;
  }
  static_cast<void>((*engine)->register_buffers(pool->memory()));  // `unsupported` is fine
  std::vector<Request> requests(depth);
  std::vector<Completion> completions(depth);
  for (std::size_t i = 0; i < depth; ++i) {
    const auto buffer = pool->memory().subspan(i * block_bytes, block_bytes);
    requests[i] = {.fd = warm_file(), .buffer = buffer, .tag = i};
  }
  std::mt19937_64 random(42);  // fixed: runs must be comparable

  for (auto _ : state) {
    aim(requests, random);
    if (!(*engine)->submit(requests).ok()) state.SkipWithError("submit");
    if (!(*engine)->reap(completions, depth, kForever).ok()) state.SkipWithError("reap");
  }
  state.SetLabel(std::string(engine_kind_name(kind)));
  state.SetItemsProcessed(state.iterations() * state.range(2));
  state.SetBytesProcessed(state.items_processed() * state.range(1));
}
BENCHMARK(BM_EngineRead)
    ->ArgNames({"engine", "block", "depth"})
    ->ArgsProduct({{static_cast<int>(EngineKind::uring), static_cast<int>(EngineKind::threads),
                    static_cast<int>(EngineKind::sync)},
                   {4 << 10, 1 << 20},
                   {1, 32}})
    ->UseRealTime();

}  // namespace
}  // namespace stoker
