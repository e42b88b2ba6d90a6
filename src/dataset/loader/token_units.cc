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
                   std::size_t dataset_count) {
  if (all.size() != dataset_count)
    return Status(Code::invalid_argument,
                  fmt::format("{} datasets need as many token {}, and {} were given", dataset_count,
                              what, all.size()));
  for (const auto& units : all) {
    if (!units)
      return Status(Code::invalid_argument, fmt::format("token {} are missing (null)", what));
    const Units& first = *all.front();
    if (tokens_of(*units) != tokens_of(first) || units->dtype() != first.dtype())
      return Status(Code::invalid_argument,
                    fmt::format("the datasets of a mixture need {} alike: {} tokens of {} in one, "
                                "{} of {} in another",
                                what, tokens_of(first), dtype_name(first.dtype()),
                                tokens_of(*units), dtype_name(units->dtype())));
  }
  return {};
}

}  // namespace

Result<TokenUnits> TokenUnits::make(const LoaderOptions& options) {
  TokenUnits units;
  if (!options.windows.empty() && !options.packs.empty())
    return Status(Code::invalid_argument, "token windows or packs: not both");
  if (!options.windows.empty()) {
    STOKER_TRY(check_alike("windows", options.windows, options.datasets.size()));
    units.tokens_per_row_ = options.windows.front()->tokens_per_row();
    units.dtype_ = options.windows.front()->dtype();
  } else if (!options.packs.empty()) {
    STOKER_TRY(check_alike("packs", options.packs, options.datasets.size()));
    units.tokens_per_row_ = options.packs.front()->length();
    units.dtype_ = options.packs.front()->dtype();
  }
  units.windows_ = options.windows;
  units.packs_ = options.packs;
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

Status TokenUnits::locate(const SampleRef& ref, std::vector<PackPiece>& out) const {
  if (is_packs()) return packs_[ref.dataset]->locate(ref.sample, out);
  STOKER_ASSIGN(const TokenSpan at, windows_[ref.dataset]->locate(ref.sample));
  out.assign(1, PackPiece{.shard = at.shard, .range = at.range});
  return {};
}

}  // namespace stoker::internal
