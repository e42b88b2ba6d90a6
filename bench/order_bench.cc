// Measures the cost of getting samples from an order, one at a time and in batches. The permutation
// is measured in its best case (a power of two), its worst (one more) and between. Short
// permutations need more steps, which affects block order with few blocks.
#include <benchmark/benchmark.h>

#include <vector>

#include "dataset/order/mixture.h"
#include "dataset/order/order.h"
#include "dataset/order/order_hash.h"
#include "dataset/order/permutation.h"

namespace {

using stoker::Permutation;
using stoker::SampleOrder;
using stoker::SampleRef;
using stoker::Shuffle;

constexpr std::size_t kBatch = 256;

Permutation permutation_of(const benchmark::State& state) {
  const auto hash = stoker::internal::OrderHash(stoker::internal::Purpose::global).with(7);
  return {static_cast<std::uint64_t>(state.range(0)), hash.key()};
}

/// Each lookup depends on the previous one.
void permutation_latency(benchmark::State& state) {
  const Permutation permuted = permutation_of(state);
  std::uint64_t x = 0;
  for (auto _ : state) x = permuted(x);
  benchmark::DoNotOptimize(x);
}

void permutation_in_a_row(benchmark::State& state) {
  const Permutation permuted = permutation_of(state);
  std::uint64_t position = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(permuted(position));
    if (++position == permuted.count()) position = 0;
  }
}

void permutation_inverse(benchmark::State& state) {
  const Permutation permuted = permutation_of(state);
  std::uint64_t item = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(permuted.inverse(item));
    if (++item == permuted.count()) item = 0;
  }
}

void counts(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t count :
       {10LL, 100LL, 1'000LL, 65'536LL, 1'281'167LL, 10'000'000LL, 1LL << 30, (1LL << 30) + 1})
    benchmark->Arg(count);
}
BENCHMARK(permutation_latency)->Apply(counts);
BENCHMARK(permutation_in_a_row)->Apply(counts);
BENCHMARK(permutation_inverse)->Apply(counts);

void ask_one_by_one(benchmark::State& state, const SampleOrder& order) {
  std::uint64_t position = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(order.at(3, position));
    position += 7919;
  }
}

/// The time is for one sample of a batch.
void ask_by_the_batch(benchmark::State& state, const SampleOrder& order) {
  std::vector<SampleRef> batch(kBatch);
  std::uint64_t position = 0;
  while (state.KeepRunningBatch(kBatch)) {
    order.fill(3, position, batch);
    benchmark::DoNotOptimize(batch.data());
    benchmark::ClobberMemory();
    position += kBatch;
  }
}

using Ask = void (*)(benchmark::State&, const SampleOrder&);

void single(benchmark::State& state, Ask ask, Shuffle shuffle) {
  const auto order = stoker::make_order({.shuffle = shuffle,
                                         .seed = 7,
                                         .sample_count = static_cast<std::uint64_t>(state.range(0)),
                                         .block_samples = 1024,
                                         .window_blocks = 16,
                                         .deal_samples = 1024});
  if (!order.ok()) return state.SkipWithError("no order");
  ask(state, **order);
}
BENCHMARK_CAPTURE(single, global_one_by_one, ask_one_by_one, Shuffle::global)->Arg(10'000'000);
BENCHMARK_CAPTURE(single, global_by_the_batch, ask_by_the_batch, Shuffle::global)->Arg(10'000'000);
BENCHMARK_CAPTURE(single, block_one_by_one, ask_one_by_one, Shuffle::block)
    ->Arg(100'000)
    ->Arg(10'000'000);
BENCHMARK_CAPTURE(single, block_by_the_batch, ask_by_the_batch, Shuffle::block)
    ->Arg(100'000)
    ->Arg(10'000'000);
BENCHMARK_CAPTURE(single, resampled_by_the_batch, ask_by_the_batch, Shuffle::resampled)
    ->Arg(10'000'000);

void mixture(benchmark::State& state, Ask ask) {
  stoker::MixtureOptions options;
  options.order.seed = 7;
  for (std::int64_t i = 0; i < state.range(0); ++i)
    options.parts.push_back({.sample_count = 1'000'003 + 999'983 * static_cast<std::uint64_t>(i),
                             .weight = 1.0 + static_cast<double>(i)});
  const auto order = stoker::make_mixture_order(options);
  if (!order.ok()) return state.SkipWithError("no order");
  ask(state, **order);
}
BENCHMARK_CAPTURE(mixture, one_by_one, ask_one_by_one)->Arg(3)->Arg(100);
BENCHMARK_CAPTURE(mixture, by_the_batch, ask_by_the_batch)->Arg(3)->Arg(100);

}  // namespace
