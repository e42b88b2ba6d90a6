/// \file
/// Assigns the positions of an epoch to ranks. A global batch that begins at position p is the
/// positions [p, p + G), cut into `world_size` equal parts; rank r has the r-th. So every world
/// size that divides G gives the same global batches. A rank's part may be cut further, into
/// micro-batches: one step of an optimizer is then several of them.
#pragma once

#include <cstdint>

#include "stoker/order.h"
#include "stoker/status.h"

namespace stoker {

struct BatchCutOptions {
  std::uint64_t global_batch_size = 0;  ///< G, at least 1; over all ranks.
  std::uint64_t rank = 0;
  std::uint64_t world_size = 1;        ///< W: divides G.
  std::uint64_t micro_batch_size = 0;  ///< M: divides G / W. 0: parts are not cut.
  Tail tail = Tail::drop;
  std::uint64_t epoch_samples = 0;
};

/// Thread safety: immutable.
class BatchCut {
 public:
  static constexpr std::uint64_t kGlobalBatchMax = std::uint64_t{1} << 40;
  static constexpr std::uint64_t kEpochSamplesMax = std::uint64_t{1} << 62;

  /// `invalid_argument`: a batch size of 0 or above kGlobalBatchMax, a rank not below the world
  /// size, a world size that does not divide the batch, a micro-batch size that does not divide a
  /// rank's part, an epoch that is empty or longer than kEpochSamplesMax, or one that `drop` would
  /// leave empty.
  static Result<BatchCut> make(const BatchCutOptions& options);

  /// One rank's share of one global batch, or one micro-batch of it.
  struct Part {
    /// The position of slot 0; slot k has position_of(part, k).
    std::uint64_t first_position = 0;
    /// Number of slots: M; under `keep` possibly fewer, or 0.
    std::uint64_t count = 0;
    /// The first `valid_count` slots are valid; the others were added by `pad`. Equal to `count`
    /// under every other tail.
    std::uint64_t valid_count = 0;

    bool operator==(const Part&) const = default;
  };

  /// Number of global batches from `position` to the end of the epoch; 0 at the end and beyond. The
  /// same on every rank.
  std::uint64_t batches_from(std::uint64_t position) const noexcept;
  /// Number of micro-batches of the global batch that begins at `position`; 0 if batches_from() is.
  /// The same on every rank, so that no rank waits for the others: in a short batch (`keep`), as
  /// many as rank 0 fills, of which other ranks may get short or empty ones.
  std::uint64_t micro_batches_at(std::uint64_t position) const noexcept;
  /// The same for all global batches from `position` to the end of the epoch. All but the last have
  /// micro_batches_per_step().
  std::uint64_t micro_batches_from(std::uint64_t position) const noexcept;
  /// A micro-batch, below micro_batches_at(), of this rank's part of the global batch that begins
  /// at `position`; empty if batches_from() is 0.
  Part part(std::uint64_t position, std::uint64_t micro_batch = 0) const noexcept;
  /// The position of a slot. Positions wrap at the end of the epoch (`wrap`, `pad`), as they do in
  /// SampleOrder::fill().
  std::uint64_t position_of(const Part& part, std::uint64_t slot) const noexcept {
    return (part.first_position + slot) % options_.epoch_samples;
  }
  /// Position of the batch after the one at `position`: at most epoch_samples. The epoch is over
  /// when batches_from() of the result is 0; the next epoch begins at position 0.
  std::uint64_t next_position(std::uint64_t position) const noexcept;

  const BatchCutOptions& options() const noexcept { return options_; }
  /// G / W: slots per rank in a full batch.
  std::uint64_t rank_batch_size() const noexcept {
    return options_.global_batch_size / options_.world_size;
  }
  /// M: slots in a full micro-batch; rank_batch_size() if parts are not cut.
  std::uint64_t micro_batch_size() const noexcept {
    return options_.micro_batch_size != 0 ? options_.micro_batch_size : rank_batch_size();
  }
  /// Micro-batches of a full batch.
  std::uint64_t micro_batches_per_step() const noexcept {
    return rank_batch_size() / micro_batch_size();
  }

 private:
  explicit BatchCut(const BatchCutOptions& options) : options_(options) {}

  BatchCutOptions options_;
};

}  // namespace stoker
