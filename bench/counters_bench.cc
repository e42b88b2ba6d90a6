// Measures what counters cost on the hot path: one add, one record, and one snapshot.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "base/counters.h"
#include "stoker/histogram.h"

namespace stoker {
namespace {

void BM_CounterAdd(benchmark::State& state) {
  Counter counter;
  for (auto _ : state) {
    counter.add();
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_CounterAdd);

void BM_SharedCounterAdd(benchmark::State& state) {
  static SharedCounter counter;
  for (auto _ : state) counter.add();
}
BENCHMARK(BM_SharedCounterAdd)->ThreadRange(1, 2);

void BM_HistogramRecord(benchmark::State& state) {
  std::mt19937_64 random(42);  // fixed: runs must be comparable
  std::vector<nanoseconds> samples(4096);
  for (nanoseconds& sample : samples) sample = nanoseconds(random() >> (34 + random() % 20));
  Histogram histogram;
  std::size_t i = 0;
  for (auto _ : state) histogram.record(samples[i++ % samples.size()]);
}
BENCHMARK(BM_HistogramRecord);

void BM_HistogramSnapshotAndQuantile(benchmark::State& state) {
  Histogram histogram;
  for (int i = 0; i < 100'000; ++i) histogram.record(nanoseconds(i * 100));
  for (auto _ : state) {
    nanoseconds p99 = histogram.snapshot().quantile(0.99);
    benchmark::DoNotOptimize(p99);
  }
}
BENCHMARK(BM_HistogramSnapshotAndQuantile);

}  // namespace
}  // namespace stoker
