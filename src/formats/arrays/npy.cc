#include "formats/arrays/npy.h"

#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace stoker {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kAlignBytes = 64;
constexpr std::size_t kGrowthDigits = 21;  // NumPy's room for the digits of the first dimension

Status corrupt(std::uint64_t offset_bytes, const std::string& what) {
  return Status(Code::corrupt, "offset " + std::to_string(offset_bytes) + ": " + what);
}

/// Parses the dict of the header.
class DictParser {
 public:
  DictParser(std::string_view text, std::uint64_t offset_bytes)
      : text_(text), offset_bytes_(offset_bytes) {}

  Status parse(NpyArray& out) {
    STOKER_TRY(expect('{'));
    while (!take('}')) {
      STOKER_ASSIGN(const std::string_view key, string());
      STOKER_TRY(expect(':'));
      STOKER_TRY(value(key, out));
      if (take('}')) break;
      STOKER_TRY(expect(','));
    }
    skip_spaces();
    if (at_ != text_.size()) return fail("something follows the dict");
    if (!descr_) return fail("the header has no 'descr'");
    if (!order_) return fail("the header has no 'fortran_order'");
    if (!shape_) return fail("the header has no 'shape'");
    return {};
  }

 private:
  Status fail(const std::string& what) const { return corrupt(offset_bytes_ + at_, what); }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
  }
  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  Status expect(char c) {
    return take(c) ? Status() : fail(std::string("the header needs a '") + c + "' here");
  }

  Result<std::string_view> string() {
    skip_spaces();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"'))
      return fail("the header needs a string here");
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return fail("a string without an end");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    if (inside.find('\\') != std::string_view::npos) return fail("a string with an escape");
    at_ = end + 1;
    return inside;
  }

  Status once(bool& seen, std::string_view key) {
    if (seen) return fail("duplicate key '" + std::string(key) + "'");
    seen = true;
    return {};
  }

  Status value(std::string_view key, NpyArray& out) {
    if (key == "descr") {
      STOKER_TRY(once(descr_, key));
      return descr(out);
    }
    if (key == "fortran_order") {
      STOKER_TRY(once(order_, key));
      if (take_word("False")) return {};
      if (take_word("True"))
        return Status(Code::unsupported,
                      "the array is in Fortran order; save it again as "
                      "numpy.ascontiguousarray(array)");
      return fail("'fortran_order' is neither True nor False");
    }
    if (key == "shape") {
      STOKER_TRY(once(shape_, key));
      return shape(out);
    }
    return fail("a key that is none of 'descr', 'fortran_order' and 'shape'");
  }

  Status descr(NpyArray& out) {
    if (take('['))
      return Status(Code::unsupported,
                    "the array is structured; save each of its fields as an array");
    const std::uint64_t begin = offset_bytes_ + at_;
    STOKER_ASSIGN(const std::string_view text, string());
    Result<Dtype> dtype = dtype_from_descr(text);
    if (!dtype.ok()) return dtype.status().with_context("offset " + std::to_string(begin));
    out.dtype = *dtype;
    return {};
  }

  Status shape(NpyArray& out) {
    STOKER_TRY(expect('('));
    bool comma = true;
    while (!take(')')) {
      if (!comma) return fail("the shape needs a ',' or ')' here");
      if (out.shape.size() == kNpyDimensionsMax)
        return fail("more than " + std::to_string(kNpyDimensionsMax) + " dimensions");
      STOKER_ASSIGN(const std::uint64_t dimension, number());
      out.shape.push_back(dimension);
      comma = take(',');
    }
    if (out.shape.size() == 1 && !comma) return fail("the shape is a number, not a tuple");
    return {};
  }

  Result<std::uint64_t> number() {
    skip_spaces();
    const std::size_t begin = at_;
    std::uint64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(value, 10U, &value) ||
          __builtin_add_overflow(value, static_cast<unsigned>(text_[at_] - '0'), &value))
        return fail("a dimension that does not fit 64 bits");
    if (at_ == begin) return fail("a dimension that is not a whole number from 0 on");
    if (text_[begin] == '0' && at_ - begin > 1) return fail("a dimension that begins with 0");
    return value;
  }

  std::string_view text_;
  std::uint64_t offset_bytes_;  // of the text in the file
  std::size_t at_ = 0;
  bool descr_ = false;
  bool order_ = false;
  bool shape_ = false;
};

/// Returns the number of elements; nothing if the size in bytes does not fit 63 bits. All
/// dimensions are read before an overflow counts: (2^60, 2^60, 0) is an empty array, as in NumPy.
std::optional<std::uint64_t> count_elements(std::span<const std::uint64_t> shape, Dtype dtype) {
  std::uint64_t count = 1;
  bool overflow = false;
  bool empty = false;
  for (const std::uint64_t dimension : shape) {
    empty |= dimension == 0;
    overflow |= __builtin_mul_overflow(count, dimension, &count);
  }
  if (empty) return 0;
  std::uint64_t size_bytes = 0;
  overflow |= __builtin_mul_overflow(count, dtype_size_bytes(dtype), &size_bytes);
  if (overflow || size_bytes > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  return count;
}

/// Where the header begins and ends.
struct HeaderPlace {
  std::uint64_t begin_bytes;
  std::uint64_t size_bytes;
};

Result<HeaderPlace> find_header(std::span<const std::byte> head, std::uint64_t size_bytes) {
  if (head.size() < kMagic.size() || std::memcmp(head.data(), kMagic.data(), kMagic.size()) != 0)
    return corrupt(0, "the file does not begin with \\x93NUMPY");
  if (head.size() < 8) return corrupt(6, "the file ends in its version");
  const auto major = std::to_integer<unsigned>(head[6]);
  const auto minor = std::to_integer<unsigned>(head[7]);
  if (major < 1 || major > 3 || minor != 0)
    return Status(Code::unsupported, "offset 6: .npy version " + std::to_string(major) + "." +
                                         std::to_string(minor) + ", not 1.0, 2.0 or 3.0");
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  if (head.size() < 8 + length_bytes) return corrupt(8, "the file ends in its header's length");
  std::uint64_t length = 0;
  for (std::size_t i = length_bytes; i-- > 0;)
    length = length << 8 | std::to_integer<std::uint64_t>(head[8 + i]);
  const HeaderPlace place{8 + length_bytes, length};
  if (length > size_bytes - place.begin_bytes)
    return corrupt(8, "a header of " + std::to_string(length) + " bytes in a file of " +
                          std::to_string(size_bytes));
  if (length > kNpyHeaderBytesMax)
    return Status(Code::unsupported, "offset 8: a header of " + std::to_string(length) +
                                         " bytes; no array of numbers needs more than " +
                                         std::to_string(kNpyHeaderBytesMax));
  if (length > head.size() - place.begin_bytes)
    return Status(Code::invalid_argument, "parse_npy() got " + std::to_string(head.size()) +
                                              " bytes of a file of " + std::to_string(size_bytes));
  return place;
}

}  // namespace

Result<NpyArray> parse_npy(std::span<const std::byte> head, std::uint64_t size_bytes) {
  if (head.size() > size_bytes) head = head.first(static_cast<std::size_t>(size_bytes));
  STOKER_ASSIGN(const HeaderPlace place, find_header(head, size_bytes));
  const std::string_view text(reinterpret_cast<const char*>(head.data()) + place.begin_bytes,
                              static_cast<std::size_t>(place.size_bytes));
  NpyArray array;
  STOKER_TRY(DictParser(text, place.begin_bytes).parse(array));
  const std::optional<std::uint64_t> count = count_elements(array.shape, array.dtype);
  if (!count)
    return corrupt(place.begin_bytes, "the shape needs more bytes than 63 bits can count");
  array.element_count = *count;
  array.data_offset_bytes = place.begin_bytes + place.size_bytes;
  const std::uint64_t data_bytes = *count * dtype_size_bytes(array.dtype);
  const std::uint64_t have_bytes = size_bytes - array.data_offset_bytes;
  if (data_bytes != have_bytes)
    return corrupt(array.data_offset_bytes, "the array has " + std::to_string(data_bytes) +
                                                " bytes, the file has " +
                                                std::to_string(have_bytes) + " after its header");
  return array;
}

Result<std::vector<std::byte>> make_npy_head(Dtype dtype, std::span<const std::uint64_t> shape) {
  if (shape.size() > kNpyDimensionsMax)
    return Status(Code::invalid_argument, std::to_string(shape.size()) +
                                              " dimensions; a .npy has " +
                                              std::to_string(kNpyDimensionsMax) + " at most");
  if (!count_elements(shape, dtype))
    return Status(Code::invalid_argument, "an array of more bytes than 63 bits can count");
  std::string header =
      "{'descr': '" + std::string(dtype_descr(dtype)) + "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i)
    header += (i == 0 ? "" : " ") + std::to_string(shape[i]) +
              (i + 1 < shape.size() || shape.size() == 1 ? "," : "");
  header += "), }";
  if (!shape.empty()) header.append(kGrowthDigits - std::to_string(shape[0]).size(), ' ');
  // Like NumPy, pads by 64 and not by 0 if the end is at a multiple of 64 already.
  header.append(kAlignBytes - (10 + header.size() + 1) % kAlignBytes, ' ');
  header += '\n';
  const std::string head = std::string(kMagic) + '\x01' + '\0' +
                           static_cast<char>(header.size() & 0xFF) +
                           static_cast<char>(header.size() >> 8) + header;
  const auto bytes = std::as_bytes(std::span(head));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

}  // namespace stoker
