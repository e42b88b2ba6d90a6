// That a loader allocates for batches and not for samples. A program of its own: it replaces
// operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "dataset/loader_support.h"

namespace {
std::atomic<std::uint64_t> allocation_count = 0;  // relaxed: a count, of all threads

void* counted(std::size_t size, std::size_t align) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
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

/// Allocations of all threads for each batch, once the run is under way. Over enough batches that
/// those prepared ahead, more at the end than at the beginning, do not count.
std::uint64_t allocations_per_batch(const LoaderRunOptions& options) {
  constexpr std::uint64_t kBatches = 400;
  const auto loader = start_loader(options);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(loader->next().kind, Kind::batch);
  const std::uint64_t before = allocation_count;
  for (std::uint64_t i = 0; i < kBatches; ++i) EXPECT_EQ(loader->next().kind, Kind::batch);
  return (allocation_count - before) / kBatches;
}

TEST(LoaderAllocationTest, batches_allocate_and_samples_do_not) {
  const LoaderData data(600, 200);
  for (const std::uint64_t batch : {64U, 512U}) {
    LoaderRunOptions options = data.options(batch);
    options.end_epoch = std::nullopt;
    EXPECT_LE(allocations_per_batch(options), 8U) << "all fields, batches of " << batch;
    options.fields = {{.name = "cls", .kind = FieldKind::int64},
                      {.name = "jpg"},
                      {.name = "text", .kind = FieldKind::text, .field = "cls"}};
    EXPECT_LE(allocations_per_batch(options), 12U) << "columns, batches of " << batch;
  }
  EXPECT_GT(allocation_count.load(), 0U) << "nothing is counted at all";
}

}  // namespace
}  // namespace stoker::testing
