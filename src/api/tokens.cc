#include "stoker/tokens.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "api/border.h"
#include "api/inside.h"
#include "dataset/batch/field_plan.h"
#include "dataset/tokens/token_read.h"
#include "dataset/tokens/token_rows.h"

namespace stoker {
namespace internal {
namespace {

Status check_cut(const Dataset& dataset, const TokensOptions& options) {
  if ((options.window == 0) == (options.pack == 0))
    return invalid(options.pack == 0 ? "give window, or pack for whole documents"
                                     : "give window or pack, not both");
  if (options.pack != 0 && (options.stride != 0 || options.extra != 0))
    return invalid("stride and extra are for windows, not for packs");
  if (options.window != 0 && options.pad != 0) return invalid("pad is for packs: windows are full");
  if (DatasetInside::part(dataset).selection)
    return invalid("tokens are cut from a whole dataset: select or split the Tokens instead");
  return {};
}

}  // namespace

Tokens TokensInside::make(LoaderPart part, const TokensOptions& options, Dtype dtype) {
  const std::uint64_t count = part.selected_count();
  return Tokens(std::make_shared<const TokensState>(
      TokensState{.part = std::move(part), .count = count, .options = options, .dtype = dtype}));
}

FieldSpec TokensInside::field(const Tokens& tokens) {
  const TokensOptions& options = tokens.state_->options;
  return {.name = std::string(kTokens),
          .kind = FieldKind::tokens,
          .dtype = options.dtype,
          .pad_value = static_cast<double>(options.pad)};
}

}  // namespace internal

using internal::at_border;
using internal::TokensInside;

Tokens::Tokens(std::shared_ptr<const internal::TokensState> state) noexcept
    : state_(std::move(state)) {}
Tokens::Tokens(const Tokens& other) noexcept = default;
Tokens& Tokens::operator=(const Tokens& other) noexcept = default;
Tokens::~Tokens() = default;

Result<Tokens> Tokens::open(const Dataset& dataset, const TokensOptions& options) {
  return at_border([&]() -> Result<Tokens> {
    STOKER_TRY(internal::check_cut(dataset, options));
    LoaderPart part = internal::DatasetInside::part(dataset);
    Dtype stored = Dtype::int32;
    if (options.window != 0) {
      STOKER_ASSIGN(TokenWindows windows,
                    TokenWindows::make(*part.dataset, {.window = options.window,
                                                       .stride = options.stride,
                                                       .extra = options.extra}));
      stored = windows.dtype();
      part.windows = std::make_shared<const TokenWindows>(std::move(windows));
    } else {
      STOKER_ASSIGN(TokenBins packs,
                    TokenBins::open(part.dataset, {.length = options.pack,
                                                   .cache_directory = options.cache_directory,
                                                   .in_memory = true}));
      stored = packs.dtype();
      part.packs = std::make_shared<const TokenBins>(std::move(packs));
      part.pad = static_cast<std::uint64_t>(options.pad);
    }
    const Dtype dtype = options.dtype.value_or(stored);
    if (dtype != stored && dtype != Dtype::int64)
      return Status(Code::invalid_argument,
                    "tokens are given out as int64, or as stored, which is " +
                        std::string(dtype_name(stored)));
    std::vector<std::byte> pad;
    if (!internal::put_pad(dtype, static_cast<double>(options.pad), pad))
      return Status(Code::invalid_argument, "pad " + std::to_string(options.pad) + " is no " +
                                                std::string(dtype_name(dtype)) +
                                                "; dtype int64 has room for it");
    TokensOptions kept = options;
    // As stored, if that is what was asked for: a loader converts nothing then.
    kept.dtype = dtype == stored ? std::nullopt : std::optional(dtype);
    return TokensInside::make(std::move(part), kept, dtype);
  });
}

std::uint64_t Tokens::size() const noexcept {
  return state_->count;
}

std::uint64_t Tokens::row_tokens() const noexcept {
  const LoaderPart& part = state_->part;
  return part.windows ? part.windows->tokens_per_row() : part.packs->length();
}

Dtype Tokens::dtype() const noexcept {
  return state_->dtype;
}

Result<std::uint64_t> Tokens::token_count() const {
  return at_border([&]() -> Result<std::uint64_t> {
    if (state_->part.windows) return state_->part.windows->token_count();
    STOKER_ASSIGN(const TokenWindows windows,
                  TokenWindows::make(*state_->part.dataset, {.window = 1}));
    return windows.token_count();
  });
}

Result<TokenRow> Tokens::read(std::uint64_t number) const {
  return at_border([&]() -> Result<TokenRow> {
    const LoaderPart& part = state_->part;
    STOKER_ASSIGN(const std::uint64_t unit, internal::unit_of(part, number));
    const std::size_t count = row_tokens();
    const Dtype stored = part.windows ? part.windows->dtype() : part.packs->dtype();
    const std::size_t wide = dtype_size_bytes(state_->dtype);
    TokenRow row;
    row.tokens.resize(count * wide);
    row.length = count;
    // Narrow elements are read to the end of their room, and widened to its start.
    const std::size_t stored_bytes = count * dtype_size_bytes(stored);
    const std::span<std::byte> room = row.tokens;
    const std::span<std::byte> read = room.last(stored_bytes);
    if (part.windows) {
      STOKER_TRY(internal::read_window(*part.dataset, *part.windows, unit, read));
    } else {
      row.position_ids.resize(count);
      row.document_ids.resize(count);
      STOKER_ASSIGN(row.length, internal::read_pack(*part.dataset, *part.packs, unit,
                                                    {.tokens = read,
                                                     .position_ids = row.position_ids,
                                                     .document_ids = row.document_ids}));
    }
    if (state_->dtype != stored) internal::widen_tokens(stored, room, count);
    std::vector<std::byte> pad;
    if (row.length < count &&
        internal::put_pad(state_->dtype, static_cast<double>(state_->options.pad), pad))
      for (std::size_t i = row.length; i < count; ++i)
        std::memcpy(row.tokens.data() + i * wide, pad.data(), wide);
    return row;
  });
}

Result<Tokens> Tokens::select(std::span<const std::uint64_t> numbers) const {
  return at_border([&]() -> Result<Tokens> {
    STOKER_ASSIGN(LoaderPart part, internal::select_part(state_->part, numbers));
    return TokensInside::make(std::move(part), state_->options, state_->dtype);
  });
}

Result<Tokens> Tokens::slice(std::uint64_t first, std::uint64_t count) const {
  return at_border([&]() -> Result<Tokens> {
    STOKER_ASSIGN(LoaderPart part, internal::slice_part(state_->part, first, count));
    return TokensInside::make(std::move(part), state_->options, state_->dtype);
  });
}

Result<std::vector<Tokens>> Tokens::split(std::span<const double> parts,
                                          std::optional<std::uint64_t> seed) const {
  return at_border([&]() -> Result<std::vector<Tokens>> {
    STOKER_ASSIGN(std::vector<LoaderPart> found, internal::split_part(state_->part, parts, seed));
    std::vector<Tokens> made;
    for (LoaderPart& part : found)
      made.push_back(TokensInside::make(std::move(part), state_->options, state_->dtype));
    return made;
  });
}

Digest128 Tokens::fingerprint() const {
  return state_->part.fingerprint();
}

}  // namespace stoker
