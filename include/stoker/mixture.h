/// \file
/// Mixture: several datasets in one order, by weight.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "stoker/api.h"
#include "stoker/dataset.h"
#include "stoker/digest.h"
#include "stoker/order.h"
#include "stoker/status.h"
#include "stoker/tokens.h"

namespace stoker {

namespace internal {
class MixtureInside;
struct MixtureState;
}  // namespace internal

/// Several datasets as one, each with its share of the samples. Positions are in cycles of 65,536,
/// in each of which every dataset has exactly its share. Over whole cycles all samples of a dataset
/// are used equally often, give or take one. Copies share the datasets.
///
/// Thread safety: every method from any thread, also in a forked child, as for Dataset.
class STOKER_API Mixture {
 public:
  struct Part {
    std::variant<Dataset, Tokens> data;
    double weight = 1;  ///< Relative to the sum of all weights; more than 0.
  };

  /// Either all parts are Datasets, or all are Tokens that differ only in their stride.
  /// `epoch_samples`: the length of an epoch; 0: all samples together. `invalid_argument` for a
  /// weight that is not a positive number or too small for a share (1 in 65,536), and for Tokens
  /// that differ in length, dtype or padding.
  static Result<Mixture> make(std::vector<Part> parts, std::uint64_t epoch_samples = 0);

  Mixture(const Mixture& other) noexcept;
  Mixture& operator=(const Mixture& other) noexcept;
  ~Mixture();

  /// Positions in an epoch.
  std::uint64_t size() const noexcept;
  /// Which sample of which dataset is at a position, without the shuffling of a loader.
  SampleRef at(std::uint64_t position) const noexcept;
  const std::vector<Part>& parts() const noexcept;
  /// The share of each dataset.
  std::vector<double> shares() const;
  /// Identifies the datasets, their samples and their shares.
  Digest128 fingerprint() const noexcept;

 private:
  friend class internal::MixtureInside;
  explicit Mixture(std::shared_ptr<const internal::MixtureState> state) noexcept;
  std::shared_ptr<const internal::MixtureState> state_;
};

}  // namespace stoker
