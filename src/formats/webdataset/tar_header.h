/// \file
/// One 512-byte tar header: read strictly, written reproducibly.
///
/// Archives are hostile, and parsers that disagree about one are how bytes are smuggled past a
/// check. So a header is refused wherever GNU tar and Python's tarfile would read it differently:
/// numbers with anything but octal digits and blanks, a prefix without the magic that gives it
/// meaning, an unknown magic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/status.h"

namespace stoker {

inline constexpr std::uint64_t kTarBlockBytes = 512;
/// The longest member name that is read or written: Linux's PATH_MAX.
inline constexpr std::size_t kTarNameBytesMax = 4096;
/// The greatest size that the eleven octal digits of a header hold.
inline constexpr std::uint64_t kTarOctalSizeMax = (std::uint64_t{1} << 33) - 1;

/// GNU tar's label of an archive (--label), which is no member of it.
inline constexpr char kTarLabelType = 'V';

/// A header's fields, as views into its block.
struct TarHeader {
  std::string_view name;
  std::string_view prefix;  ///< Goes before the name, with a slash between; empty if there is none.
  std::uint64_t size_bytes = 0;
  char type = '0';
};

/// Bytes that `size_bytes` of data take up, padding included; false if that overflows.
bool tar_padded(std::uint64_t size_bytes, std::uint64_t& padded_bytes) noexcept;

/// Whether a block is all zeros: the end of the archive.
bool is_tar_end(std::span<const std::byte, kTarBlockBytes> block) noexcept;

/// Reads the block found at `offset_bytes` of its shard; `corrupt` names that offset.
Result<TarHeader> parse_tar_header(std::span<const std::byte, kTarBlockBytes> block,
                                   std::uint64_t offset_bytes);

/// Appends the headers of a regular file to `out`: one block, and before it a PAX header where the
/// name or the size does not fit. Mode 0444, everything else zero, so equal members have equal
/// bytes. `name` is at most kTarNameBytesMax long, not empty, and free of NUL.
void append_tar_headers(std::string_view name, std::uint64_t size_bytes,
                        std::vector<std::byte>& out);

/// `corrupt`, with the message "offset N: what".
Status tar_corrupt(std::uint64_t offset_bytes, std::string_view what);
/// `unsupported`, likewise: well-formed, and refused on purpose.
Status tar_unsupported(std::uint64_t offset_bytes, std::string_view what);

/// Untrusted text as it may stand in a message: ASCII, quoted, not longer than a line.
std::string tar_quoted(std::string_view text);

}  // namespace stoker
