#include "cli/dataset_stats.h"

#include <algorithm>
#include <bit>

namespace stoker::cli {

void SizeStats::add(std::uint64_t size_bytes) {
  min_bytes = count == 0 ? size_bytes : std::min(min_bytes, size_bytes);
  max_bytes = std::max(max_bytes, size_bytes);
  total_bytes += size_bytes;
  ++count;
}

void SizeHistogram::add(std::uint64_t size_bytes) {
  ++counts[static_cast<std::size_t>(std::bit_width(size_bytes))];
}

std::uint64_t SizeHistogram::lowest_in(std::size_t bucket) noexcept {
  return bucket == 0 ? 0 : std::uint64_t{1} << (bucket - 1);
}

Result<DatasetStats> gather_stats(const Dataset& dataset, std::uint64_t read_max,
                                  const std::stop_token& stop) {
  DatasetStats stats;
  const std::uint64_t count = dataset.sample_count();
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % 4096 == 0 && stop.stop_requested()) return Status(Code::cancelled, "stopped");
    STOKER_ASSIGN(const SampleLocation at, dataset.index().locate(i));
    stats.records.add(at.record.size_bytes);
    stats.histogram.add(at.record.size_bytes);
  }
  stats.read_count = std::min(count, read_max);
  SampleRecord sample;
  for (std::uint64_t i = 0; i < stats.read_count; ++i) {
    if (stop.stop_requested()) return Status(Code::cancelled, "stopped");
    // Evenly spread, without overflow: a whole part and what is left over.
    const std::uint64_t step = count / stats.read_count;
    const std::uint64_t extra = count % stats.read_count;
    STOKER_TRY(dataset.read(i * step + i * extra / stats.read_count, sample));
    for (const FieldView& field : sample.view().fields)
      stats.fields[std::string(field.name)].add(field.bytes.size());
  }
  return stats;
}

}  // namespace stoker::cli
