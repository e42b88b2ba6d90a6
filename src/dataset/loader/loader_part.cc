#include "dataset/loader/loader_part.h"

#include <array>
#include <span>
#include <vector>

#include "dataset/tokens/token_fingerprint.h"

namespace stoker {
namespace {

Digest128 cut_fingerprint(const LoaderPart& part, bool is_old) {
  const Digest128 dataset = part.dataset->index().fingerprint();
  if (part.windows) {
    const TokenWindows::Options& cut = part.windows->options();
    return token_fingerprint(dataset, std::array{cut.window, cut.stride, cut.extra});
  }
  if (!part.packs) return dataset;
  const std::array<std::uint64_t, 2> cut = {part.packs->length(), part.pad};
  return token_fingerprint(dataset, std::span(cut).first(is_old ? 1 : 2));
}

Digest128 with_selection(const LoaderPart& part, const Digest128& whole) {
  return part.selection ? selection_fingerprint(whole, *part.selection) : whole;
}

}  // namespace

void LoaderPart::drop_whole_selection() noexcept {
  const auto* slice = selection ? std::get_if<SampleSlice>(&*selection) : nullptr;
  const std::uint64_t count = slice == nullptr ? 0 : whole_count();
  if (slice != nullptr && slice->first == 0 && slice->count == count &&
      (slice->step == 1 || count <= 1))
    selection.reset();
}

std::uint64_t LoaderPart::whole_count() const noexcept {
  if (windows) return windows->count();
  return packs ? packs->count() : dataset->sample_count();
}

std::uint64_t LoaderPart::selected_count() const noexcept {
  if (!selection) return whole_count();
  if (const auto* slice = std::get_if<SampleSlice>(&*selection)) return slice->count;
  const auto* list = std::get_if<std::vector<std::uint64_t>>(&*selection);
  return list != nullptr ? list->size() : 0;
}

std::uint64_t LoaderPart::row_bytes() const noexcept {
  if (windows) return windows->row_bytes();
  return packs ? packs->row_bytes() : 0;
}

Digest128 LoaderPart::fingerprint() const {
  return with_selection(*this, cut_fingerprint(*this, false));
}

Digest128 LoaderPart::old_fingerprint() const {
  return with_selection(*this, cut_fingerprint(*this, true));
}

}  // namespace stoker
