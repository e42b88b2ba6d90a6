#include "dataset/loader/extra_samples.h"

#include <fmt/format.h>

#include <stop_token>
#include <utility>

#include "dataset/batch/batch_data.h"
#include "dataset/loader/batch_maker.h"
#include "dataset/loader/loader_plan.h"
#include "io/engine/buffer_pool.h"

namespace stoker {

using internal::BatchData;
using internal::BatchMaker;
using internal::BatchShelf;
using internal::LoaderPlan;

namespace {

constexpr std::size_t kKeptBatches = 2;  // kept for reuse

Status check_samples(const LoaderPlan& plan, std::span<const SampleRef> samples) {
  for (const SampleRef& ref : samples)
    if (ref.dataset >= plan.datasets->size() || ref.sample >= plan.unit_count(ref.dataset))
      return Status(Code::invalid_argument,
                    fmt::format("there is no sample {} of dataset {}", ref.sample, ref.dataset));
  return {};
}

Status lease_from(BufferPool& pool, std::size_t size_bytes, Lease& out) {
  if (size_bytes == 0) return {};
  STOKER_ASSIGN(out, pool.try_lease(size_bytes));
  return {};
}

}  // namespace

ExtraSamples::ExtraSamples(std::unique_ptr<const LoaderPlan> plan)
    : plan_(std::move(plan)), shelf_(std::make_shared<BatchShelf>(kKeptBatches)) {}
ExtraSamples::~ExtraSamples() = default;

Result<std::unique_ptr<ExtraSamples>> ExtraSamples::make(LoaderRunOptions options) {
  STOKER_ASSIGN(LoaderPlan plan, LoaderPlan::make(std::move(options)));
  return std::unique_ptr<ExtraSamples>(
      new ExtraSamples(std::make_unique<const LoaderPlan>(std::move(plan))));
}

Result<Batch> ExtraSamples::read(std::uint64_t epoch, std::span<const std::uint64_t> positions,
                                 std::span<const SampleRef> samples) const {
  if (positions.size() != samples.size())
    return Status(Code::invalid_argument, "the numbers of positions and samples differ");
  STOKER_TRY(check_samples(*plan_, samples));
  // An engine belongs to one thread, so each call makes its own.
  STOKER_ASSIGN(const std::unique_ptr<BatchMaker> maker, make_batches(*plan_, nullptr));
  std::unique_ptr<BatchData> data = shelf_->take();
  data->number = 0;
  data->epoch = epoch;
  data->position = positions.empty() ? 0 : positions.front();
  data->micro_batch = 0;
  data->last = true;
  data->cursor = plan_->options.cursor;
  data->positions.assign(positions.begin(), positions.end());
  data->samples.assign(samples.begin(), samples.end());
  data->valid.assign(samples.size(), 1);
  data->datasets = plan_->is_tokens() ? nullptr : plan_->datasets;
  STOKER_ASSIGN(const LoaderPlan::BatchMemory memory, maker->plan_samples(*data));
  if (memory.pooled_bytes() > 0) {
    STOKER_ASSIGN(BufferPool pool, BufferPool::make({.budget_bytes = memory.pooled_bytes(),
                                                     .huge_pages = false,
                                                     .touch = false}));
    STOKER_TRY(lease_from(pool, memory.records_bytes, data->records));
    STOKER_TRY(lease_from(pool, memory.arrays_bytes, data->arrays));
  }
  STOKER_TRY(maker->fill(*data, std::stop_token()));
  return BatchShelf::make_batch(std::move(data), shelf_);
}

}  // namespace stoker
