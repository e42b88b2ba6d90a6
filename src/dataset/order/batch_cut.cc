#include "dataset/order/batch_cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace stoker {
namespace {

constexpr std::array<std::string_view, 4> kTailNames = {"drop", "keep", "wrap", "pad"};

Status invalid(std::string message) {
  return Status(Code::invalid_argument, "batches: " + std::move(message));
}

}  // namespace

std::string_view tail_name(Tail tail) noexcept {
  const auto number = static_cast<std::size_t>(tail);
  return number < kTailNames.size() ? kTailNames[number] : "unknown";
}

Result<Tail> parse_tail(std::string_view name) {
  const auto found = std::ranges::find(kTailNames, name);
  if (found == kTailNames.end())
    return invalid(fmt::format("tail is one of {}, not '{}'", fmt::join(kTailNames, ", "), name));
  return static_cast<Tail>(found - kTailNames.begin());
}

Result<BatchCut> BatchCut::make(const BatchCutOptions& options) {
  const std::uint64_t batch = options.global_batch_size;
  if (batch == 0 || batch > kGlobalBatchMax)
    return invalid(fmt::format("a global batch has 1 to 2^40 samples, not {}", batch));
  if (options.world_size == 0) return invalid("world_size must be at least 1");
  if (options.rank >= options.world_size)
    return invalid(
        fmt::format("there is no rank {} in a world of {}", options.rank, options.world_size));
  if (batch % options.world_size != 0)
    return invalid(fmt::format("a global batch of {} cannot be divided among {} ranks", batch,
                               options.world_size));
  if (const std::uint64_t part = batch / options.world_size;
      options.micro_batch_size != 0 && part % options.micro_batch_size != 0)
    return invalid(fmt::format("the {} samples of a rank are not a multiple of micro-batches of {}",
                               part, options.micro_batch_size));
  if (static_cast<std::size_t>(options.tail) >= kTailNames.size()) return invalid("no such tail");
  if (options.epoch_samples == 0) return invalid("an epoch has no samples");
  if (options.epoch_samples > kEpochSamplesMax)
    return invalid(
        fmt::format("an epoch of {} samples is longer than 2^62", options.epoch_samples));
  if (options.tail == Tail::drop && options.epoch_samples < batch)
    return invalid(
        fmt::format("an epoch of {} samples has no full batch of {}, and tail=drop drops "
                    "the rest; use a smaller batch, or tail=keep, wrap or pad",
                    options.epoch_samples, batch));
  return BatchCut(options);
}

std::uint64_t BatchCut::batches_from(std::uint64_t position) const noexcept {
  if (position >= options_.epoch_samples) return 0;
  const std::uint64_t left = options_.epoch_samples - position;
  const std::uint64_t full = left / options_.global_batch_size;
  const bool has_tail = options_.tail != Tail::drop && left % options_.global_batch_size != 0;
  return full + (has_tail ? 1 : 0);
}

std::uint64_t BatchCut::micro_batches_at(std::uint64_t position) const noexcept {
  if (batches_from(position) == 0) return 0;
  if (options_.tail != Tail::keep) return micro_batches_per_step();
  const std::uint64_t most = std::min(rank_batch_size(), options_.epoch_samples - position);
  return (most + micro_batch_size() - 1) / micro_batch_size();
}

std::uint64_t BatchCut::micro_batches_from(std::uint64_t position) const noexcept {
  const std::uint64_t batches = batches_from(position);
  if (batches == 0) return 0;
  const std::uint64_t last = position + (batches - 1) * options_.global_batch_size;
  return (batches - 1) * micro_batches_per_step() + micro_batches_at(last);
}

BatchCut::Part BatchCut::part(std::uint64_t position, std::uint64_t micro_batch) const noexcept {
  if (batches_from(position) == 0) return {};
  const std::uint64_t size = micro_batch_size();
  const std::uint64_t first_slot = options_.rank * rank_batch_size() + micro_batch * size;
  // The number of slots of the global batch that the epoch still has samples for.
  const std::uint64_t filled =
      std::min(options_.global_batch_size, options_.epoch_samples - position);
  const std::uint64_t mine = std::min(size, filled - std::min(filled, first_slot));
  const std::uint64_t first = (position + first_slot) % options_.epoch_samples;
  switch (options_.tail) {
    case Tail::keep: return {.first_position = first, .count = mine, .valid_count = mine};
    case Tail::pad: return {.first_position = first, .count = size, .valid_count = mine};
    case Tail::drop:
    case Tail::wrap: break;
  }
  return {.first_position = first, .count = size, .valid_count = size};
}

std::uint64_t BatchCut::next_position(std::uint64_t position) const noexcept {
  if (position >= options_.epoch_samples) return options_.epoch_samples;
  return position + std::min(options_.global_batch_size, options_.epoch_samples - position);
}

}  // namespace stoker
