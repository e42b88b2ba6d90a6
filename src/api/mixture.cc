#include "stoker/mixture.h"

#include <fmt/format.h>

#include <numeric>
#include <span>
#include <utility>

#include "api/border.h"
#include "api/inside.h"
#include "dataset/order/mixture.h"

namespace stoker {

using internal::at_border;

namespace {

const LoaderPart& part_of(const Mixture::Part& part) noexcept {
  if (const auto* dataset = std::get_if<Dataset>(&part.data))
    return internal::DatasetInside::part(*dataset);
  return internal::TokensInside::state(*std::get_if<Tokens>(&part.data)).part;
}

/// `invalid_argument` if Tokens are cut or converted differently.
Status check_alike(const Tokens& one, const Tokens& first, std::size_t number) {
  const TokensOptions& here = internal::TokensInside::state(one).options;
  const TokensOptions& there = internal::TokensInside::state(first).options;
  std::string_view what;
  if (here.pack != there.pack || here.window != there.window || here.extra != there.extra)
    what = "length";
  else if (here.pad != there.pad)
    what = "padding";
  else if (one.dtype() != first.dtype())
    what = "dtype";
  if (what.empty()) return {};
  return Status(Code::invalid_argument,
                fmt::format("a mixture is one of Tokens that are cut alike: the {} of dataset {} "
                            "is another than that of dataset 0",
                            what, number));
}

Status check_parts(std::span<const Mixture::Part> parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].data.index() != parts[0].data.index())
      return Status(Code::invalid_argument,
                    "a mixture is one of samples or one of Tokens, not of both");
    if (const auto* tokens = std::get_if<Tokens>(&parts[i].data))
      STOKER_TRY(check_alike(*tokens, *std::get_if<Tokens>(&parts[0].data), i));
  }
  return {};
}

}  // namespace

Mixture::Mixture(std::shared_ptr<const internal::MixtureState> state) noexcept
    : state_(std::move(state)) {}
Mixture::Mixture(const Mixture& other) noexcept = default;
Mixture& Mixture::operator=(const Mixture& other) noexcept = default;
Mixture::~Mixture() = default;

Result<Mixture> Mixture::make(std::vector<Part> parts, std::uint64_t epoch_samples) {
  return at_border([&]() -> Result<Mixture> {
    STOKER_TRY(check_parts(parts));
    MixtureOptions options{.order = {.shuffle = Shuffle::off, .sample_count = epoch_samples},
                           .parts = {}};
    std::vector<Digest128> fingerprints;
    for (const Part& part : parts) {
      options.parts.push_back(
          {.sample_count = part_of(part).selected_count(), .weight = part.weight});
      fingerprints.push_back(part_of(part).fingerprint());
    }
    internal::MixtureState state;
    STOKER_ASSIGN(state.order, make_mixture_order(options));
    STOKER_ASSIGN(state.fingerprint, mixture_fingerprint(fingerprints, options.parts));
    state.parts = std::move(parts);
    state.epoch_samples = epoch_samples;
    return Mixture(std::make_shared<const internal::MixtureState>(std::move(state)));
  });
}

std::uint64_t Mixture::size() const noexcept {
  return state_->order->epoch_samples();
}

SampleRef Mixture::at(std::uint64_t position) const noexcept {
  return state_->order->at(0, position);
}

const std::vector<Mixture::Part>& Mixture::parts() const noexcept {
  return state_->parts;
}

std::vector<double> Mixture::shares() const {
  double sum = 0;
  for (const Part& part : state_->parts) sum += part.weight;
  std::vector<double> shares;
  for (const Part& part : state_->parts) shares.push_back(part.weight / sum);
  return shares;
}

Digest128 Mixture::fingerprint() const noexcept {
  return state_->fingerprint;
}

}  // namespace stoker
