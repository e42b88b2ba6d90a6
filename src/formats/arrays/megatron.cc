#include "formats/arrays/megatron.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>

namespace stoker {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr std::uint64_t kHeaderBytes = 34;
constexpr std::uint64_t kVersionAt = 9;
constexpr std::uint64_t kDtypeAt = 17;
constexpr std::uint64_t kSequenceCountAt = 18;
constexpr std::uint64_t kBoundaryCountAt = 26;

// The index is the code; 0 is not a code.
constexpr std::array<Dtype, 9> kDtypes = {Dtype::uint8,   Dtype::uint8,   Dtype::int8,
                                          Dtype::int16,   Dtype::int32,   Dtype::int64,
                                          Dtype::float64, Dtype::float32, Dtype::uint16};

template <typename Number>
Number load(std::span<const std::byte> bytes, std::uint64_t offset) noexcept {
  Number value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof value);  // never aligned
  return value;
}

Status corrupt(std::uint64_t offset_bytes, const std::string& what) {
  return Status(Code::corrupt, ".idx offset " + std::to_string(offset_bytes) + ": " + what);
}

std::string text(std::uint64_t number) {
  return std::to_string(number);
}

}  // namespace

Result<std::uint8_t> megatron_dtype_code(Dtype dtype) {
  for (std::size_t code = 1; code < kDtypes.size(); ++code)
    if (kDtypes[code] == dtype) return static_cast<std::uint8_t>(code);
  return Status(Code::invalid_argument,
                "Megatron's index has no dtype " + std::string(dtype_name(dtype)) +
                    "; it has uint8, int8, int16, int32, int64, float64, float32 and uint16");
}

Result<MegatronIndexView> MegatronIndexView::open(std::span<const std::byte> idx) {
  if (idx.size() < kHeaderBytes)
    return corrupt(0, "the file ends after " + text(idx.size()) + " bytes of its header of 34");
  if (std::memcmp(idx.data(), kMagic.data(), kMagic.size()) != 0)
    return corrupt(0, "the file does not begin with MMIDIDX");
  if (const auto version = load<std::uint64_t>(idx, kVersionAt); version != 1)
    return Status(Code::unsupported, ".idx offset 9: version " + text(version) + ", not 1");
  const auto code = load<std::uint8_t>(idx, kDtypeAt);
  if (code == 0 || code >= kDtypes.size())
    return corrupt(kDtypeAt, "unknown dtype code " + text(code));

  MegatronIndexView view;
  view.idx_ = idx;
  view.dtype_ = kDtypes[code];
  view.sequence_count_ = load<std::uint64_t>(idx, kSequenceCountAt);
  view.boundary_count_ = load<std::uint64_t>(idx, kBoundaryCountAt);
  std::uint64_t rest_bytes = idx.size() - kHeaderBytes;
  if (view.sequence_count_ > rest_bytes / 12)
    return corrupt(kSequenceCountAt, text(view.sequence_count_) + " sequences of 12 bytes do not " +
                                         "fit a file of " + text(idx.size()));
  rest_bytes -= view.sequence_count_ * 12;
  if (view.boundary_count_ > rest_bytes / 8)
    return corrupt(kBoundaryCountAt, text(view.boundary_count_) + " boundaries of 8 bytes do not " +
                                         "fit a file of " + text(idx.size()) + " with " +
                                         text(view.sequence_count_) + " sequences");
  if (view.boundary_count_ == 0)
    return corrupt(kBoundaryCountAt, "no boundaries: even without documents there is one, 0");
  rest_bytes -= view.boundary_count_ * 8;
  view.multimodal_ = rest_bytes != 0;
  if (rest_bytes != 0 && rest_bytes != view.sequence_count_)
    return corrupt(idx.size() - rest_bytes, text(rest_bytes) + " bytes follow the boundaries; a " +
                                                "mode for each sequence would be " +
                                                text(view.sequence_count_));
  return view;
}

std::uint64_t MegatronIndexView::pointers_at() const noexcept {
  return kHeaderBytes + 4 * sequence_count_;
}
std::uint64_t MegatronIndexView::boundaries_at() const noexcept {
  return pointers_at() + 8 * sequence_count_;
}
std::uint64_t MegatronIndexView::modes_at() const noexcept {
  return boundaries_at() + 8 * boundary_count_;
}

std::uint64_t MegatronIndexView::sequence_tokens(std::uint64_t i) const noexcept {
  return load<std::uint32_t>(idx_, kHeaderBytes + 4 * i);
}

ByteRange MegatronIndexView::sequence(std::uint64_t i) const noexcept {
  return {load<std::uint64_t>(idx_, pointers_at() + 8 * i),
          sequence_tokens(i) * dtype_size_bytes(dtype_)};
}

DocumentRange MegatronIndexView::document(std::uint64_t i) const noexcept {
  const auto first = load<std::uint64_t>(idx_, boundaries_at() + 8 * i);
  return {first, load<std::uint64_t>(idx_, boundaries_at() + 8 * (i + 1)) - first};
}

std::int8_t MegatronIndexView::mode(std::uint64_t i) const noexcept {
  return multimodal_ ? load<std::int8_t>(idx_, modes_at() + i) : std::int8_t{0};
}

Status MegatronIndexView::validate(std::uint64_t bin_size_bytes) const {
  const std::uint64_t item_bytes = dtype_size_bytes(dtype_);
  std::uint64_t end_bytes = 0;  // of the sequence before; never more than bin_size_bytes
  for (std::uint64_t i = 0; i < sequence_count_; ++i) {
    const std::uint64_t length_at = kHeaderBytes + 4 * i;
    const auto length = load<std::int32_t>(idx_, length_at);
    if (length < 0)
      return corrupt(length_at,
                     "sequence " + text(i) + " has " + std::to_string(length) + " tokens");
    const std::uint64_t pointer_at = pointers_at() + 8 * i;
    const auto pointer = load<std::int64_t>(idx_, pointer_at);
    if (pointer < 0)
      return corrupt(pointer_at, "sequence " + text(i) + " begins at " + std::to_string(pointer));
    const auto begin_bytes = static_cast<std::uint64_t>(pointer);
    if (begin_bytes != end_bytes)
      return corrupt(pointer_at,
                     "sequence " + text(i) + " begins at byte " + text(begin_bytes) +
                         (begin_bytes < end_bytes ? " and overlaps" : " and leaves a gap after") +
                         " the one before, which ends at " + text(end_bytes));
    const std::uint64_t size_bytes = static_cast<std::uint64_t>(length) * item_bytes;  // < 2^34
    if (size_bytes > bin_size_bytes - end_bytes)
      return corrupt(length_at, "sequence " + text(i) + ", " + text(size_bytes) + " bytes at " +
                                    text(begin_bytes) + ", goes past the end of the .bin at " +
                                    text(bin_size_bytes));
    end_bytes += size_bytes;
  }
  if (end_bytes != bin_size_bytes)
    return corrupt(pointers_at(), "the sequences end at byte " + text(end_bytes) +
                                      ", the .bin at " + text(bin_size_bytes) +
                                      ": the two files do not belong together");
  std::uint64_t before = 0;
  for (std::uint64_t i = 0; i < boundary_count_; ++i) {
    const std::uint64_t at = boundaries_at() + 8 * i;
    const auto boundary = load<std::int64_t>(idx_, at);
    if (i == 0 && boundary != 0)
      return corrupt(at, "the first document begins at sequence " + std::to_string(boundary));
    if (boundary < 0 || static_cast<std::uint64_t>(boundary) > sequence_count_)
      return corrupt(at, "boundary " + text(i) + " is at sequence " + std::to_string(boundary) +
                             " of " + text(sequence_count_));
    if (static_cast<std::uint64_t>(boundary) < before)
      return corrupt(at, "boundary " + text(i) + " goes back from sequence " + text(before) +
                             " to " + std::to_string(boundary));
    before = static_cast<std::uint64_t>(boundary);
  }
  if (before != sequence_count_)
    return corrupt(
        boundaries_at() + 8 * (boundary_count_ - 1),
        "the last document ends at sequence " + text(before) + " of " + text(sequence_count_));
  return {};
}

}  // namespace stoker
