/// \file
/// One 512-byte tar header: parsed strictly, written reproducibly.
///
/// Archives are untrusted, and parsers that disagree about one allow bytes to pass a check unseen.
/// A header is therefore rejected if GNU tar and Python's tarfile would read it differently:
/// numbers with anything but octal digits and blanks, a prefix without the magic that defines it,
/// an unknown magic.
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
/// The largest size that the eleven octal digits of a header can represent.
inline constexpr std::uint64_t kTarOctalSizeMax = (std::uint64_t{1} << 33) - 1;

/// GNU tar's archive label (--label), which is not a member.
inline constexpr char kTarLabelType = 'V';

/// A header's fields, as views into its block.
struct TarHeader {
  std::string_view name;
  std::string_view prefix;  ///< Precedes the name, separated by a slash; empty if there is none.
  std::uint64_t size_bytes = 0;
  char type = '0';
};

/// Computes the size of `size_bytes` of data with padding; false if it overflows.
bool tar_padded(std::uint64_t size_bytes, std::uint64_t& padded_bytes) noexcept;

/// Whether a block is all zeros, which marks the end of the archive.
bool is_tar_end(std::span<const std::byte, kTarBlockBytes> block) noexcept;

/// Parses the block at `offset_bytes` of its shard; `corrupt` names that offset.
Result<TarHeader> parse_tar_header(std::span<const std::byte, kTarBlockBytes> block,
                                   std::uint64_t offset_bytes);

/// Appends the headers of a regular file to `out`: one block, preceded by a PAX header if the name
/// or the size does not fit. Mode 0444, everything else zero, so that equal members have equal
/// bytes. `name` has 1 to kTarNameBytesMax bytes and no NUL.
void append_tar_headers(std::string_view name, std::uint64_t size_bytes,
                        std::vector<std::byte>& out);

/// Returns `corrupt` with the message "offset N: what".
Status tar_corrupt(std::uint64_t offset_bytes, std::string_view what);
/// Returns `unsupported` with the same message: the archive is valid, but not read by design.
Status tar_unsupported(std::uint64_t offset_bytes, std::string_view what);

/// Returns untrusted text for a message: ASCII, quoted, truncated after 64 bytes.
std::string tar_quoted(std::string_view text);

}  // namespace stoker
