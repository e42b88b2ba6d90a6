/// \file
/// What the tests of orders share: keys by number, orders that must exist, and how far counts are
/// from even.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataset/order/mixture.h"
#include "dataset/order/order.h"
#include "dataset/order/order_hash.h"

namespace stoker::testing {

/// The keys that a run of seed 1 would have, one for each epoch: what users get.
inline PermutationKey key_of_epoch(std::uint64_t epoch) {
  return internal::OrderHash(internal::Purpose::global).with(1).with(epoch).key();
}

inline std::unique_ptr<SampleOrder> order_of(const OrderOptions& options) {
  auto order = make_order(options);
  EXPECT_TRUE(order.ok()) << order.status().message();
  return order.ok() ? *std::move(order) : nullptr;
}

inline std::unique_ptr<SampleOrder> mixture_of(const MixtureOptions& options) {
  auto order = make_mixture_order(options);
  EXPECT_TRUE(order.ok()) << order.status().message();
  return order.ok() ? *std::move(order) : nullptr;
}

/// Chi-square of counts that should be equal, in standard deviations from what chance gives.
/// Everything in these tests is seeded, so a bound of 5 holds always or never.
inline double unevenness(const std::vector<std::uint64_t>& counts) {
  double sum = 0;
  for (const std::uint64_t count : counts) sum += static_cast<double>(count);
  const double expected = sum / static_cast<double>(counts.size());
  double chi_square = 0;
  for (const std::uint64_t count : counts) {
    const double off = static_cast<double>(count) - expected;
    chi_square += off * off / expected;
  }
  const double freedom = static_cast<double>(counts.size()) - 1;
  return (chi_square - freedom) / std::sqrt(2 * freedom);
}

/// A small generator of numbers for test shapes; the same everywhere.
///
/// Thread safety: none.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return internal::mix64(state_ += internal::kWeyl); }
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }
  std::uint64_t from_to(std::uint64_t first, std::uint64_t last) {
    return first + below(last - first + 1);
  }

 private:
  std::uint64_t state_;
};

/// One epoch, position by position.
inline std::vector<SampleRef> epoch_of(const SampleOrder& order, std::uint64_t epoch) {
  std::vector<SampleRef> samples(order.epoch_samples());
  order.fill(epoch, 0, samples);
  return samples;
}

}  // namespace stoker::testing
