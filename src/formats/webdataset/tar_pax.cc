#include "formats/webdataset/tar_pax.h"

#include <fmt/format.h>

#include <charconv>

#include "formats/webdataset/tar_header.h"

namespace stoker {
namespace {

/// A decimal number as POSIX writes it: digits, no sign, no blanks, no leading zero.
std::optional<std::uint64_t> parse_decimal(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (text.size() > 1 && text[0] == '0') return std::nullopt;
  return value;
}

struct Record {
  std::string_view keyword;
  std::string_view value;
};

/// Removes the first record from `rest` and returns it.
Result<Record> take_record(std::string_view& rest, std::uint64_t offset_bytes) {
  const auto refuse = [&](std::string_view why) {
    return tar_corrupt(offset_bytes, fmt::format("PAX record {}: {}", tar_quoted(rest), why));
  };
  const std::size_t space = rest.substr(0, 21).find(' ');
  if (space == std::string_view::npos) return refuse("does not begin with its length");
  const std::optional<std::uint64_t> length = parse_decimal(rest.substr(0, space));
  if (!length) return refuse("its length is not a number");
  if (*length > rest.size()) return refuse("its length goes past the end of the header");
  if (*length < space + 1) return refuse("its length is less than the record");
  const std::string_view record = rest.substr(0, *length);
  if (!record.ends_with('\n')) return refuse("does not end in a new line");
  const std::string_view content = record.substr(space + 1, record.size() - space - 2);
  const std::size_t equals = content.find('=');
  if (equals == std::string_view::npos || equals == 0) return refuse("has no keyword");
  // GNU tar skips additional blanks here; other programs make them part of the keyword.
  if (content[0] == ' ' || content[0] == '\t') return refuse("has a blank before its keyword");
  rest.remove_prefix(*length);
  return Record{content.substr(0, equals), content.substr(equals + 1)};
}

}  // namespace

Result<PaxOverrides> parse_pax(std::span<const std::byte> body, std::uint64_t offset_bytes) {
  PaxOverrides overrides;
  std::string_view rest(reinterpret_cast<const char*>(body.data()), body.size());
  while (!rest.empty()) {
    STOKER_ASSIGN(const Record record, take_record(rest, offset_bytes));
    if (record.keyword == "path") {
      if (overrides.path) return tar_corrupt(offset_bytes, "PAX path is given twice");
      if (record.value.empty()) return tar_corrupt(offset_bytes, "PAX path is empty");
      if (record.value.find('\0') != std::string_view::npos)
        return tar_corrupt(offset_bytes, "PAX path has a NUL in it");
      overrides.path = record.value;
    } else if (record.keyword == "size") {
      if (overrides.size_bytes) return tar_corrupt(offset_bytes, "PAX size is given twice");
      overrides.size_bytes = parse_decimal(record.value);
      if (!overrides.size_bytes)
        return tar_corrupt(offset_bytes,
                           fmt::format("PAX size {} is not a number", tar_quoted(record.value)));
    } else if (record.keyword == "hdrcharset") {
      if (record.value != "BINARY" && record.value != "ISO-IR 10646 2000 UTF-8")
        return tar_corrupt(offset_bytes, fmt::format("PAX character set {} is none of POSIX's two",
                                                     tar_quoted(record.value)));
    } else if (record.keyword.starts_with("GNU.") && record.keyword != "GNU.volume.label") {
      return tar_unsupported(
          offset_bytes,
          fmt::format("PAX keyword {}: sparse and multi-volume archives are not read; write the "
                      "archive again without --sparse",
                      tar_quoted(record.keyword)));
    }
  }
  return overrides;
}

void append_pax_record(std::string_view keyword, std::string_view value, std::string& out) {
  // The length counts its own digits: with an additional digit it may need one more.
  const std::size_t rest = keyword.size() + value.size() + 3;
  std::size_t length = rest + fmt::formatted_size("{}", rest);
  length = rest + fmt::formatted_size("{}", length);
  fmt::format_to(std::back_inserter(out), "{} {}={}\n", length, keyword, value);
}

}  // namespace stoker
