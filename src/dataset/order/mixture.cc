#include "dataset/order/mixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "base/word_bytes.h"
#include "dataset/order/divider.h"
#include "dataset/order/order_hash.h"

namespace stoker {
namespace {

using internal::append_word;
using internal::OrderHash;
using internal::Purpose;

/// Weights are compared as integers of this many bits, so that every machine computes the same
/// slots.
constexpr int kWeightBits = 40;
constexpr std::string_view kFingerprintHead = "stoker-mixture-1";

Status invalid(std::string message) {
  return Status(Code::invalid_argument, "mixture: " + std::move(message));
}

class MixtureOrder final : public SampleOrder {
 public:
  MixtureOrder(std::uint64_t seed, std::uint64_t epoch_samples,
               std::span<const std::uint32_t> slots,
               std::vector<std::unique_ptr<SampleOrder>> parts)
      : epoch_samples_(epoch_samples),
        parts_(std::move(parts)),
        seeded_(OrderHash(Purpose::mixture_cycle).with(seed)) {
    first_slot_.push_back(0);
    for (const std::uint32_t count : slots) first_slot_.push_back(first_slot_.back() + count);
    for (const auto& part : parts_) by_samples_.emplace_back(part->epoch_samples());
  }

  std::uint64_t epoch_samples() const noexcept override { return epoch_samples_; }
  std::uint64_t dataset_count() const noexcept override { return parts_.size(); }

  SampleRef at(std::uint64_t epoch, std::uint64_t position) const noexcept override {
    SampleRef ref;
    fill(epoch, position, {&ref, 1});
    return ref;
  }

  void fill(std::uint64_t epoch, std::uint64_t position,
            std::span<SampleRef> out) const noexcept override {
    const std::uint64_t start = epoch * epoch_samples_;  // modulo 2^64, as are the positions below
    if (position >= epoch_samples_) position %= epoch_samples_;
    std::uint64_t cycle = (start + position) / kMixtureSlots;
    Permutation permuted = cycle_permutation(cycle);
    for (SampleRef& ref : out) {
      const std::uint64_t line = start + position;
      if (line / kMixtureSlots != cycle) {
        cycle = line / kMixtureSlots;
        permuted = cycle_permutation(cycle);
      }
      ref = use_of_slot(cycle, permuted(line % kMixtureSlots));
      if (++position == epoch_samples_) position = 0;
    }
  }

  std::optional<std::uint64_t> next_use(std::uint64_t epoch, std::uint64_t position,
                                        SampleRef sample) const noexcept override;

 private:
  Permutation cycle_permutation(std::uint64_t cycle) const noexcept {
    return {kMixtureSlots, seeded_.with(cycle).key()};
  }

  std::uint64_t slot_count(std::size_t dataset) const noexcept {
    return first_slot_[dataset + 1] - first_slot_[dataset];
  }

  SampleRef use_of_slot(std::uint64_t cycle, std::uint64_t slot) const noexcept {
    const auto after = std::ranges::upper_bound(first_slot_, slot);
    const auto dataset = static_cast<std::size_t>(after - first_slot_.begin()) - 1;
    const std::uint64_t use = cycle * slot_count(dataset) + (slot - first_slot_[dataset]);
    const auto [own_epoch, own_position] = by_samples_[dataset](use);
    return {.dataset = static_cast<std::uint32_t>(dataset),
            .sample = parts_[dataset]->at(own_epoch, own_position).sample};
  }

  std::uint64_t epoch_samples_;
  std::vector<std::unique_ptr<SampleOrder>> parts_;
  std::vector<internal::Divider> by_samples_;  // per dataset: splits a use into epoch and position
  std::vector<std::uint64_t> first_slot_;      // per dataset, and kMixtureSlots at the end
  OrderHash seeded_;
};

/// Each epoch of the dataset uses the sample once. The uses in one cycle are in any order, so all
/// uses that may be in the first cycle that has one are examined: a single use, unless the dataset
/// is so small that a cycle uses it several times.
std::optional<std::uint64_t> MixtureOrder::next_use(std::uint64_t epoch, std::uint64_t position,
                                                    SampleRef sample) const noexcept {
  if (sample.dataset >= parts_.size()) return std::nullopt;
  const SampleOrder& own = *parts_[sample.dataset];
  const std::uint64_t count = own.epoch_samples();
  const std::uint64_t slots = slot_count(sample.dataset);
  const std::uint64_t from = epoch * epoch_samples_ + position % epoch_samples_;
  const std::uint64_t first_cycle = from / kMixtureSlots;
  std::optional<std::uint64_t> best;
  // Beyond these the numbers below would overflow; no run gets there.
  const std::uint64_t own_epochs = UINT64_MAX / count;
  constexpr std::uint64_t kLastCycle = UINT64_MAX / kMixtureSlots;
  for (std::uint64_t own_epoch = first_cycle * slots / count; own_epoch < own_epochs; ++own_epoch) {
    const std::uint64_t earliest_cycle = own_epoch * count / slots;
    if (earliest_cycle > (best ? *best / kMixtureSlots : kLastCycle)) break;
    const std::optional<std::uint64_t> at =
        own.next_use(own_epoch, 0, {.dataset = 0, .sample = sample.sample});
    if (!at) return std::nullopt;
    const std::uint64_t use = own_epoch * count + *at;
    const std::uint64_t cycle = use / slots;
    if (cycle < first_cycle || cycle > kLastCycle) continue;
    const std::uint64_t slot = first_slot_[sample.dataset] + use % slots;
    const std::uint64_t line = cycle * kMixtureSlots + cycle_permutation(cycle).inverse(slot);
    if (line >= from && (!best || line < *best)) best = line;
  }
  if (!best) return std::nullopt;
  return *best - from;
}

}  // namespace

Result<std::vector<std::uint32_t>> mixture_slots(std::span<const double> weights) {
  if (weights.empty()) return invalid("there are no datasets");
  if (weights.size() > kMixtureSlots)
    return invalid(
        fmt::format("{} datasets exceed the limit of {}", weights.size(), kMixtureSlots));
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (!std::isfinite(weights[i]) || weights[i] <= 0)
      return invalid(
          fmt::format("dataset {}: a weight is a number above 0, not {}", i, weights[i]));

  const double largest = *std::ranges::max_element(weights);
  std::vector<std::uint64_t> whole;
  std::uint64_t sum = 0;
  for (const double weight : weights) {
    whole.push_back(
        static_cast<std::uint64_t>(std::llround(std::ldexp(weight / largest, kWeightBits))));
    sum += whole.back();
  }
  std::vector<std::uint32_t> slots;
  std::uint64_t dealt = 0;
  for (const std::uint64_t weight : whole) {
    slots.push_back(static_cast<std::uint32_t>(weight * kMixtureSlots / sum));
    dealt += slots.back();
  }
  std::vector<std::size_t> by_remainder(weights.size());
  std::iota(by_remainder.begin(), by_remainder.end(), std::size_t{0});
  const auto remainder = [&](std::size_t i) { return whole[i] * kMixtureSlots % sum; };
  std::ranges::sort(by_remainder, [&](std::size_t a, std::size_t b) {
    return remainder(a) != remainder(b) ? remainder(a) > remainder(b) : a < b;
  });
  for (std::size_t i = 0; dealt < kMixtureSlots; ++i, ++dealt) ++slots[by_remainder[i]];

  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] > 0) continue;
    const double others = std::accumulate(weights.begin(), weights.end(), -weights[i]);
    return invalid(
        fmt::format("dataset {}: its weight {:.6g} is too small for one slot of {}; give it at "
                    "least {:.4g}, or "
                    "leave it out",
                    i, weights[i], kMixtureSlots, 1.001 * others / (kMixtureSlots - 1)));
  }
  return slots;
}

Result<OrderOptions> resolve_mixture(const MixtureOptions& options) {
  if (options.parts.empty()) return invalid("there are no datasets");
  OrderOptions order = options.order;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < options.parts.size(); ++i) {
    const std::uint64_t count = options.parts[i].sample_count;
    if (count == 0) return invalid(fmt::format("dataset {}: there are no samples", i));
    if (count > Permutation::kCountMax - sum)
      return invalid("the datasets have more than 2^62 samples");
    sum += count;
  }
  if (order.sample_count == 0) order.sample_count = sum;
  if (order.shuffle == Shuffle::block) {
    if (order.lanes > 1 || order.deal_samples > 1)
      return invalid("lanes are not dealt in a mixture: set lanes and deal_samples to 1");
    order.lanes = 1;
    order.deal_samples = 1;
  }
  Result<OrderOptions> resolved = resolve_order(order);
  if (!resolved.ok()) return resolved.status().with_context("mixture");
  return resolved;
}

Result<std::unique_ptr<SampleOrder>> make_mixture_order(const MixtureOptions& options) {
  STOKER_ASSIGN(const OrderOptions resolved, resolve_mixture(options));
  std::vector<double> weights;
  for (const MixturePart& part : options.parts) weights.push_back(part.weight);
  STOKER_ASSIGN(const std::vector<std::uint32_t> slots, mixture_slots(weights));
  const OrderHash part_seed = OrderHash(Purpose::mixture_part).with(resolved.seed);
  std::vector<std::unique_ptr<SampleOrder>> parts;
  for (std::size_t i = 0; i < options.parts.size(); ++i) {
    OrderOptions own = resolved;
    own.seed = part_seed.with(i).value();
    own.sample_count = options.parts[i].sample_count;
    STOKER_ASSIGN(std::unique_ptr<SampleOrder> order, make_order(own));
    parts.push_back(std::move(order));
  }
  std::unique_ptr<SampleOrder> order =
      std::make_unique<MixtureOrder>(resolved.seed, resolved.sample_count, slots, std::move(parts));
  return order;
}

Result<Digest128> mixture_fingerprint(std::span<const Digest128> fingerprints,
                                      std::span<const MixturePart> parts) {
  if (fingerprints.size() != parts.size())
    return invalid(
        fmt::format("{} fingerprints for {} datasets", fingerprints.size(), parts.size()));
  std::vector<double> weights;
  for (const MixturePart& part : parts) weights.push_back(part.weight);
  STOKER_ASSIGN(const std::vector<std::uint32_t> slots, mixture_slots(weights));
  std::vector<std::byte> bytes;
  for (const char c : kFingerprintHead) bytes.push_back(static_cast<std::byte>(c));
  append_word(bytes, parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    append_word(bytes, fingerprints[i].low);
    append_word(bytes, fingerprints[i].high);
    append_word(bytes, parts[i].sample_count);
    append_word(bytes, slots[i]);
  }
  return xxh3_128(bytes);
}

}  // namespace stoker
