/// \file
/// The plan that all threads of a loader share: which samples are in which batch, and how they are
/// converted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "dataset/batch/batch_data.h"
#include "dataset/batch/field_plan.h"
#include "dataset/loader/loader_run.h"
#include "dataset/loader/token_units.h"
#include "dataset/order/batch_cut.h"
#include "stoker/status.h"

namespace stoker::internal {

/// A column of tokens or of their IDs: `length` elements per row.
struct TokenColumn {
  std::string name;
  Dtype dtype = Dtype::int32;
  std::uint64_t length = 0;
  std::size_t row_bytes = 0;
  bool is_widened = false;  ///< Rows are converted to a requested dtype.
  std::vector<std::byte> pad_element = {};
};

/// Thread safety: immutable.
struct LoaderPlan {
  /// Checks the options and fills in their defaults.
  static Result<LoaderPlan> make(LoaderRunOptions options);

  /// Where a batch of this run starts.
  struct Place {
    std::uint64_t epoch = 0;
    std::uint64_t position = 0;  ///< Of the global batch.
    std::uint64_t micro_batch = 0;
  };
  /// Returns the place of a batch below batch_count(), in constant time.
  Place place(std::uint64_t number) const noexcept;
  /// Nothing if endless.
  std::optional<std::uint64_t> batch_count() const noexcept;

  /// Sets everything that follows from the number: positions, samples, which are valid, the cursor.
  void begin_batch(std::uint64_t number, BatchData& out) const;

  /// Whether the loader reads token windows or packs instead of samples.
  bool is_tokens() const noexcept { return tokens.is_any(); }
  /// Number of samples, windows or packs of a dataset.
  std::uint64_t unit_count(std::uint32_t dataset) const noexcept;

  /// Maximum number of row pieces read at once: more than a device can use. Each needs memory for
  /// alignment, and rows of very short documents have thousands.
  static constexpr std::size_t kPiecesAtOnce = 512;

  /// Memory for the records and the arrays of one batch.
  struct BatchMemory {
    std::size_t records_bytes = 0;
    std::size_t arrays_bytes = 0;

    /// Size as the pool counts it.
    std::size_t pooled_bytes() const noexcept;
  };
  BatchMemory batch_memory_max() const;
  /// Memory needed to read the largest sample.
  std::size_t largest_sample_bytes() const;
  /// Three worst-case batches and the largest sample.
  std::size_t memory_needed() const;

  /// Memory for the arrays of a batch of `rows` token rows.
  std::size_t token_arrays_bytes(std::size_t rows) const noexcept;

  LoaderRunOptions options;
  BatchCut cut;
  FieldPlan fields;                        ///< For samples.
  std::vector<TokenColumn> token_columns;  ///< For tokens: the tokens; for packs also the IDs.
  TokenUnits tokens;
  std::shared_ptr<const DatasetList> datasets;
};

}  // namespace stoker::internal
