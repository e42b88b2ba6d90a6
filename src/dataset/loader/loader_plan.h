/// \file
/// What all threads of a loader work from: which samples are in which batch, and what becomes of
/// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "dataset/batch/batch_data.h"
#include "dataset/batch/field_plan.h"
#include "dataset/loader/loader.h"
#include "dataset/loader/token_units.h"
#include "dataset/order/batch_cut.h"
#include "stoker/status.h"

namespace stoker::internal {

/// A column of tokens, or of what is said of each: an array of `length` for each row.
struct TokenColumn {
  std::string name;
  Dtype dtype = Dtype::int32;
  std::uint64_t length = 0;
  std::size_t row_bytes = 0;
  bool is_widened = false;  ///< A dtype was asked for, which rows are converted to.
  std::vector<std::byte> pad_element = {};
};

/// Thread safety: immutable.
struct LoaderPlan {
  /// Checks the options and settles what they leave open. Reads at most one sample.
  static Result<LoaderPlan> make(LoaderOptions options);

  /// Where a batch of this run begins.
  struct Place {
    std::uint64_t epoch = 0;
    std::uint64_t position = 0;
  };
  /// In constant time, for batches below batch_count().
  Place place(std::uint64_t number) const noexcept;
  /// Nothing: endless.
  std::optional<std::uint64_t> batch_count() const noexcept;

  /// Fills in all that follows from the number: positions, samples, the valid ones, the cursor.
  void begin_batch(std::uint64_t number, BatchData& out) const;

  /// Whether the loader reads token windows or packs instead of samples.
  bool is_tokens() const noexcept { return tokens.is_any(); }
  /// Samples, windows or packs of one of the datasets.
  std::uint64_t unit_count(std::uint32_t dataset) const noexcept;

  /// Pieces of rows that are read at once: more than a device can use, and each takes room for
  /// alignment. Rows of very short documents have thousands.
  static constexpr std::size_t kPiecesAtOnce = 512;

  /// The most that the records, and the arrays, of one batch take. Constant time.
  struct BatchMemory {
    std::size_t records_bytes = 0;
    std::size_t arrays_bytes = 0;

    /// As the pool counts it.
    std::size_t pooled_bytes() const noexcept;
  };
  BatchMemory batch_memory_max() const;
  /// What the largest sample takes when it is read.
  std::size_t largest_sample_bytes() const;
  /// Three worst-case batches and the largest sample.
  std::size_t memory_needed() const;

  /// Of a batch of `rows` units of tokens.
  std::size_t token_arrays_bytes(std::size_t rows) const noexcept;

  LoaderOptions options;
  BatchCut cut;
  FieldPlan fields;                        ///< Of samples.
  std::vector<TokenColumn> token_columns;  ///< Of tokens: these first; of packs also what follows.
  TokenUnits tokens;
  std::shared_ptr<const DatasetList> datasets;
};

}  // namespace stoker::internal
