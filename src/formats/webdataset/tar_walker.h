/// \file
/// Iterates over the members of a tar archive, header by header, without reading their data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "formats/shard_format.h"
#include "formats/webdataset/tar_header.h"
#include "stoker/status.h"

namespace stoker {

/// Limit of the contents of a PAX or long-name header, and so of the bytes wanted at a time.
inline constexpr std::uint64_t kTarExtensionBytesMax = std::uint64_t{1} << 20;

struct TarEntry {
  enum class Kind : std::uint8_t { regular, directory };

  Kind kind = Kind::regular;
  /// Relative, without "..". Valid during the call only; refers to the fed bytes if `name_is_fed`,
  /// otherwise to the walker.
  std::string_view name;
  bool name_is_fed = false;
  std::uint64_t begin_bytes = 0;  ///< Offset of its first header, PAX and long-name included.
  ByteRange data;
  std::uint64_t end_bytes = 0;  ///< End of its data, padding included.
};

class TarEntrySink {
 public:
  virtual ~TarEntrySink() = default;
  virtual Status add(const TarEntry& entry) = 0;
};

/// Reads ustar, PAX, GNU and V7 archives. It accepts only what GNU tar and Python's tarfile read in
/// the same way: `unsupported` for links, devices, sparse files, unknown types and compressed
/// archives; `corrupt`, with the offset of the header, for everything that is invalid.
///   - An `x` or `L` header applies to the member right after it; two in a row are rejected, and
///     so is one without a member. A `g` header may not set a path or a size.
///   - The archive ends with its first block of zeros; anything after it is ignored, as in tar.
///   - An archive without such a block is `corrupt` unless `require_end` is false: if truncated
///     between two members, it would look complete, but lack part of its last sample.
///
/// Thread safety: none.
class TarWalker {
 public:
  struct Options {
    std::uint64_t offset_bytes = 0;  ///< Where the archive or record begins in its shard.
    std::uint64_t size_bytes = 0;    ///< Size of the range to read.
    bool require_end = true;
  };

  explicit TarWalker(const Options& options)
      : position_bytes_(options.offset_bytes),
        limit_bytes_(options.offset_bytes + options.size_bytes),
        require_end_(options.require_end) {
    if (options.size_bytes == 0) finished_ = true;
  }

  /// Like ShardScanner::wants(), in offsets of the shard.
  ByteRange wants() const;
  /// Like ShardScanner::feed().
  Status feed(std::span<const std::byte> bytes, TarEntrySink& sink);
  bool finished() const noexcept { return finished_; }

 private:
  Status take(std::span<const std::byte> piece, TarEntrySink& sink);
  Status take_header(std::span<const std::byte> piece, TarEntrySink& sink);
  Status take_extension(std::span<const std::byte> piece);
  Status begin_extension(const TarHeader& header);
  Status take_entry(const TarHeader& header, TarEntrySink& sink);
  std::string_view name_of(const TarHeader& header);
  Status finish_if_at_end();
  Status refuse_first_block(std::span<const std::byte> piece, Status why) const;

  std::uint64_t position_bytes_;  // of the next header or extension
  std::uint64_t limit_bytes_;
  bool require_end_;
  bool finished_ = false;

  // Type of the extension whose body is next; '\0' if a header is next.
  char extension_type_ = '\0';
  std::uint64_t extension_size_bytes_ = 0;
  std::uint64_t extension_padded_bytes_ = 0;

  // State set by the extensions before the next entry.
  bool has_global_ = false;
  bool has_member_ = false;  // or a directory
  bool has_own_ = false;     // an x or an L
  std::uint64_t entry_begin_bytes_ = 0;
  std::optional<std::uint64_t> size_override_bytes_;
  bool has_name_override_ = false;
  std::string name_;  // the override, or prefix and name joined
};

}  // namespace stoker
