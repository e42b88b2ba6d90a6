#include "formats/webdataset/tar_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "formats/webdataset/tar_pax.h"

namespace stoker {
namespace {

struct Field {
  std::size_t offset;
  std::size_t size;
};
constexpr Field kName = {0, 100};
constexpr Field kMode = {100, 8};
constexpr Field kUid = {108, 8};
constexpr Field kGid = {116, 8};
constexpr Field kSize = {124, 12};
constexpr Field kMtime = {136, 12};
constexpr Field kChecksum = {148, 8};
constexpr Field kType = {156, 1};
constexpr Field kMagic = {257, 8};  // with the version
constexpr Field kDeviceMajor = {329, 8};
constexpr Field kDeviceMinor = {337, 8};
constexpr Field kPrefix = {345, 155};

constexpr std::string_view kUstarMagic("ustar\0", 6);
constexpr std::string_view kGnuMagic("ustar  \0", 8);
constexpr std::string_view kV7Magic("\0\0\0\0\0\0\0\0", 8);

std::string_view raw(std::span<const std::byte, kTarBlockBytes> block, Field field) {
  return {reinterpret_cast<const char*>(block.data()) + field.offset, field.size};
}

std::string_view until_nul(std::string_view text) {
  return text.substr(0, text.find('\0'));
}

/// Parses blanks, octal digits, then blanks or NULs to the end. Returns nothing for any other text.
std::optional<std::uint64_t> parse_octal(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size() && text[i] == ' ') ++i;
  const std::size_t digits_begin = i;
  std::uint64_t value = 0;  // at most 12 digits of 3 bits: no overflow
  for (; i < text.size() && text[i] >= '0' && text[i] <= '7'; ++i)
    value = value << 3 | static_cast<std::uint64_t>(text[i] - '0');
  if (i == digits_begin) return std::nullopt;
  for (; i < text.size(); ++i)
    if (text[i] != ' ' && text[i] != '\0') return std::nullopt;
  return value;
}

bool is_base256(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  return lead == 0x80 || lead == 0xff;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(std::string_view(" \0", 2)) == std::string_view::npos;
}

Result<std::uint64_t> parse_size(std::string_view text, std::uint64_t offset_bytes) {
  if (!is_base256(text)) {
    const std::optional<std::uint64_t> size = parse_octal(text);
    if (size) return *size;
    return tar_corrupt(offset_bytes,
                       fmt::format("size {} is not an octal number", tar_quoted(text)));
  }
  if (static_cast<unsigned char>(text[0]) == 0xff)
    return tar_corrupt(offset_bytes, "size is negative (base-256)");
  std::uint64_t size = 0;
  for (const char c : text.substr(1)) {
    if (size >> 55 != 0) return tar_corrupt(offset_bytes, "size is above 2^63 (base-256)");
    size = size << 8 | static_cast<unsigned char>(c);
  }
  return size;
}

/// The sums of all bytes, with the checksum field as spaces. Old tars summed signed bytes.
struct Sums {
  std::int64_t unsigned_sum = 0;
  std::int64_t signed_sum = 0;
};
Sums sums_of(std::span<const std::byte, kTarBlockBytes> block) {
  std::uint32_t total = 0;
  std::uint32_t high = 0;  // bytes above 127: each counts 256 less when signed
  for (const std::byte byte : block) {
    total += std::to_integer<std::uint32_t>(byte);
    high += std::to_integer<std::uint32_t>(byte) >> 7;
  }
  for (const char c : raw(block, kChecksum)) {
    total -= static_cast<unsigned char>(c);
    high -= static_cast<std::uint32_t>(static_cast<unsigned char>(c) >> 7);
  }
  total += static_cast<std::uint32_t>(' ') * kChecksum.size;
  return {total, std::int64_t{total} - 256 * std::int64_t{high}};
}

Status check_checksum(std::span<const std::byte, kTarBlockBytes> block,
                      std::uint64_t offset_bytes) {
  const std::optional<std::uint64_t> stored = parse_octal(raw(block, kChecksum));
  if (!stored) return tar_corrupt(offset_bytes, "no tar header here: its checksum is not a number");
  const Sums sums = sums_of(block);
  const auto value = static_cast<std::int64_t>(*stored);
  if (value == sums.unsigned_sum || value == sums.signed_sum) return {};
  return tar_corrupt(offset_bytes, fmt::format("header checksum is {:o}, its bytes sum to {:o}",
                                               value, sums.unsigned_sum));
}

/// Checks numbers that nothing here depends on, because Python's tarfile treats a header with a bad
/// one as the end of the archive.
Status check_other_numbers(std::span<const std::byte, kTarBlockBytes> block,
                           std::uint64_t offset_bytes) {
  struct Named {
    Field field;
    const char* name;
  };
  for (const Named& number :
       {Named{kMode, "mode"}, Named{kUid, "uid"}, Named{kGid, "gid"}, Named{kMtime, "mtime"},
        Named{kDeviceMajor, "device major number"}, Named{kDeviceMinor, "device minor number"}}) {
    const std::string_view text = raw(block, number.field);
    if (is_base256(text) || is_blank(text) || parse_octal(text)) continue;
    return tar_corrupt(offset_bytes,
                       fmt::format("{} {} is not an octal number", number.name, tar_quoted(text)));
  }
  return {};
}

void put(std::span<std::byte> block, Field field, std::string_view text) {
  std::ranges::copy(std::as_bytes(std::span(text.substr(0, field.size))),
                    block.subspan(field.offset).begin());
}

struct SplitName {
  std::string_view prefix;
  std::string_view name;
};
/// Returns the name as in a ustar header, split at a slash; nothing if it does not fit.
std::optional<SplitName> ustar_split(std::string_view name) {
  if (name.size() <= kName.size) return SplitName{{}, name};
  if (name.size() > kPrefix.size + 1 + kName.size) return std::nullopt;
  // The leftmost slash that leaves a short enough name, so that the prefix is as short as possible.
  const std::size_t slash = name.find('/', name.size() - kName.size - 1);
  if (slash == std::string_view::npos || slash == 0 || slash > kPrefix.size ||
      slash + 1 == name.size())
    return std::nullopt;
  return SplitName{name.substr(0, slash), name.substr(slash + 1)};
}

void append_block(SplitName name, char type, std::uint64_t size_bytes,
                  std::vector<std::byte>& out) {
  out.resize(out.size() + kTarBlockBytes);
  const auto block = std::span(out).last<kTarBlockBytes>();
  put(block, kName, name.name);
  put(block, kMode, "0000444");
  put(block, kUid, "0000000");
  put(block, kGid, "0000000");
  put(block, kSize, fmt::format("{:011o}", size_bytes));
  put(block, kMtime, "00000000000");
  put(block, kType, std::string_view(&type, 1));
  put(block, kMagic, std::string_view("ustar\00000", 8));
  put(block, kDeviceMajor, "0000000");
  put(block, kDeviceMinor, "0000000");
  put(block, kPrefix, name.prefix);
  put(block, kChecksum, fmt::format("{:06o}", sums_of(block).unsigned_sum));
  block[kChecksum.offset + 7] = std::byte{' '};  // after a NUL, as every tar writes it
}

}  // namespace

bool tar_padded(std::uint64_t size_bytes, std::uint64_t& padded_bytes) noexcept {
  if (__builtin_add_overflow(size_bytes, kTarBlockBytes - 1, &padded_bytes)) return false;
  padded_bytes -= padded_bytes % kTarBlockBytes;
  return true;
}

bool is_tar_end(std::span<const std::byte, kTarBlockBytes> block) noexcept {
  return std::ranges::all_of(block, [](std::byte byte) { return byte == std::byte{0}; });
}

Result<TarHeader> parse_tar_header(std::span<const std::byte, kTarBlockBytes> block,
                                   std::uint64_t offset_bytes) {
  STOKER_TRY(check_checksum(block, offset_bytes));
  STOKER_TRY(check_other_numbers(block, offset_bytes));
  TarHeader header;
  header.type = raw(block, kType)[0];
  header.name = until_nul(raw(block, kName));
  // GNU tar leaves the numbers of a label blank.
  const bool is_blank_label = header.type == kTarLabelType && is_blank(raw(block, kSize));
  if (!is_blank_label) {
    STOKER_ASSIGN(header.size_bytes, parse_size(raw(block, kSize), offset_bytes));
  }

  const std::string_view magic = raw(block, kMagic);
  const std::string_view prefix = until_nul(raw(block, kPrefix));
  if (magic.starts_with(kUstarMagic)) {
    header.prefix = prefix;
  } else if (magic != kGnuMagic && magic != kV7Magic) {
    return tar_corrupt(offset_bytes, fmt::format("unknown magic {}", tar_quoted(magic)));
  } else if (!prefix.empty()) {
    return tar_unsupported(offset_bytes,
                           "a header that is not POSIX ustar has bytes where ustar keeps the "
                           "prefix of the name, and tars disagree on them; write the archive "
                           "again with --format=ustar or --format=pax");
  }
  return header;
}

void append_tar_headers(std::string_view name, std::uint64_t size_bytes,
                        std::vector<std::byte>& out) {
  std::optional<SplitName> split = ustar_split(name);
  std::string records;
  if (!split) append_pax_record("path", name, records);
  if (size_bytes > kTarOctalSizeMax)
    append_pax_record("size", fmt::format("{}", size_bytes), records);
  if (!records.empty()) {
    append_block({{}, "././@PaxHeader"}, 'x', records.size(), out);
    const std::span<const std::byte> body = std::as_bytes(std::span(records));
    out.insert(out.end(), body.begin(), body.end());
    out.resize(out.size() + (kTarBlockBytes - body.size() % kTarBlockBytes) % kTarBlockBytes);
  }
  if (!split) split = SplitName{{}, name.substr(0, kName.size)};
  append_block(*split, '0', size_bytes > kTarOctalSizeMax ? 0 : size_bytes, out);
}

Status tar_corrupt(std::uint64_t offset_bytes, std::string_view what) {
  return Status(Code::corrupt, fmt::format("offset {}: {}", offset_bytes, what));
}

Status tar_unsupported(std::uint64_t offset_bytes, std::string_view what) {
  return Status(Code::unsupported, fmt::format("offset {}: {}", offset_bytes, what));
}

std::string tar_quoted(std::string_view text) {
  constexpr std::size_t kShownMax = 64;
  std::string shown(text.substr(0, kShownMax));
  std::ranges::replace_if(shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  return fmt::format("\"{}{}\"", shown, text.size() > kShownMax ? "..." : "");
}

}  // namespace stoker
