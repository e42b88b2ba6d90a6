// That fetching allocates nothing once it runs. A program of its own: it replaces operator new.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "dataset/fetch_support.h"

namespace {
thread_local std::uint64_t allocation_count = 0;

void* counted(std::size_t size, std::size_t align) {
  ++allocation_count;
  void* memory = std::aligned_alloc(align, (size + align - 1) / align * align);
  if (memory == nullptr) std::abort();
  return memory;
}
}  // namespace

// Not inlined: the compiler would see free() meet a new that it does not know, and say so.
[[gnu::noinline]] void* operator new(std::size_t size) {
  return counted(size == 0 ? 1 : size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size == 0 ? 1 : size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t align) {
  return counted(size == 0 ? 1 : size, static_cast<std::size_t>(align));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace stoker::testing {
namespace {

TEST(FetchAllocationTest, a_batch_like_those_before_it_allocates_nothing) {
  const DatasetDir dir;
  for (std::uint64_t i = 0; i < 3; ++i)
    write_tar(dir.file("s" + std::to_string(i) + ".tar"), make_samples(200, i * 200));
  for (const CachePolicy policy : {CachePolicy::automatic, CachePolicy::direct}) {
    if (policy == CachePolicy::direct && !has_direct_reads(dir.path())) continue;
    const auto dataset = open_dataset(dir.path(), {.index = {.checksums = true}, .policy = policy});
    make_warm(dir.path());
    const auto fetcher = make_fetcher(dataset);
    std::mt19937_64 random(1);
    std::vector<SampleRef> samples(256);
    std::vector<FetchedRecord> out(samples.size());
    GuardedMemory memory(RecordFetcher::memory_bytes_max(*dataset, samples.size(), FetchOptions()));
    FetchPlan plan;
    std::uint64_t allocated = 0;
    for (int round = 0; round < 20; ++round) {
      for (SampleRef& ref : samples) ref.sample = random() % dataset->sample_count();
      const std::uint64_t before = allocation_count;
      const Status planned = fetcher->plan(samples, plan);
      const Status read = fetcher->read(plan, memory.bytes(), out);
      if (round >= 10) allocated += allocation_count - before;
      ASSERT_TRUE(planned.ok() && read.ok());
    }
    EXPECT_EQ(allocated, 0U) << cache_policy_name(policy);
    EXPECT_GT(allocation_count, 0U) << "nothing is counted at all";
  }
}

}  // namespace
}  // namespace stoker::testing
