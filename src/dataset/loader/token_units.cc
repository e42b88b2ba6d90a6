#include "dataset/loader/token_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace stoker::internal {
namespace {

std::uint64_t tokens_of(const TokenWindows& windows) {
  return windows.tokens_per_row();
}
std::uint64_t tokens_of(const TokenBins& packs) {
  return packs.length();
}

/// `what`: "windows" or "packs".
template <typename Units>
Status check_alike(std::string_view what, const std::vector<std::shared_ptr<const Units>>& all,
                   const LoaderRunOptions& options) {
  const std::size_t dataset_count = options.datasets.size();
  const bool is_widened = !options.fields.empty() && options.fields.front().dtype.has_value();
  if (all.size() != dataset_count)
    return Status(Code::invalid_argument,
                  fmt::format("{} datasets need as many token {}, but {} were given", dataset_count,
                              what, all.size()));
  for (const auto& units : all) {
    if (!units)
      return Status(Code::invalid_argument, fmt::format("token {} are missing (null)", what));
    const Units& first = *all.front();
    if (tokens_of(*units) != tokens_of(first))
      return Status(Code::invalid_argument,
                    fmt::format("the datasets of a mixture need {} of one length: {} tokens in "
                                "one, {} in another",
                                what, tokens_of(first), tokens_of(*units)));
    if (units->dtype() != first.dtype() && !is_widened)
      return Status(Code::invalid_argument,
                    fmt::format("the datasets of a mixture store tokens of {} and {}: give each "
                                "the dtype int64",
                                dtype_name(first.dtype()), dtype_name(units->dtype())));
  }
  return {};
}

}  // namespace

Result<TokenUnits> TokenUnits::make(const LoaderRunOptions& options) {
  TokenUnits units;
  if (!options.windows.empty() && !options.packs.empty())
    return Status(Code::invalid_argument, "token windows or packs: not both");
  if (!options.windows.empty()) {
    STOKER_TRY(check_alike("windows", options.windows, options));
    units.tokens_per_row_ = options.windows.front()->tokens_per_row();
  } else if (!options.packs.empty()) {
    STOKER_TRY(check_alike("packs", options.packs, options));
    units.tokens_per_row_ = options.packs.front()->length();
  }
  units.windows_ = options.windows;
  units.packs_ = options.packs;
  const std::size_t count = std::max(units.windows_.size(), units.packs_.size());
  for (std::uint32_t i = 0; i < count; ++i)
    units.row_bytes_max_ = std::max(units.row_bytes_max_, units.row_bytes(i));
  return units;
}

std::uint64_t TokenUnits::count(std::uint32_t dataset) const noexcept {
  return is_packs() ? packs_[dataset]->count() : windows_[dataset]->count();
}

std::uint64_t TokenUnits::pieces_max() const noexcept {
  std::uint64_t most = 1;
  for (const auto& packs : packs_) most = std::max(most, packs->pieces_max());
  return most;
}

Status TokenUnits::locate(const SampleRef& ref, std::vector<BinPiece>& out) const {
  if (is_packs()) return packs_[ref.dataset]->locate(ref.sample, out);
  STOKER_ASSIGN(const TokenSpan at, windows_[ref.dataset]->locate(ref.sample));
  out.assign(1, BinPiece{.shard = at.shard, .range = at.range});
  return {};
}

}  // namespace stoker::internal
