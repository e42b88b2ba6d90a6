/// \file
/// Walks the members of a tar archive from header to header, without their data.
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

/// The most that a PAX or a long-name header may hold, and so the most that is wanted at once.
inline constexpr std::uint64_t kTarExtensionBytesMax = std::uint64_t{1} << 20;

struct TarEntry {
  enum class Kind : std::uint8_t { regular, directory };

  Kind kind = Kind::regular;
  /// Relative, without "..". Valid during the call only, and inside the bytes that were fed if
  /// `name_is_fed`, else in the walker.
  std::string_view name;
  bool name_is_fed = false;
  std::uint64_t begin_bytes = 0;  ///< Of its first header, PAX and long-name headers included.
  ByteRange data;
  std::uint64_t end_bytes = 0;  ///< Of its data with the padding.
};

class TarEntrySink {
 public:
  virtual ~TarEntrySink() = default;
  virtual Status add(const TarEntry& entry) = 0;
};

/// Reads ustar, PAX, GNU and V7 archives. It takes only what GNU tar and Python's tarfile take in
/// the same way, and refuses the rest: `unsupported` for links, devices, sparse files, unknown
/// types and compressed archives; `corrupt` for everything that is wrong, with the offset of its
/// header.
///   - An `x` or `L` header belongs to the file that comes right after it; two of them are refused,
///     and so is one without a file. A `g` header may not hold a path or a size.
///   - The archive ends with its first block of zeros; what comes after is ignored, as tar does.
///   - An archive without such a block is `corrupt` unless `require_end` is false: cut off between
///     two members it would otherwise pass for whole, with part of its last sample gone.
///
/// Thread safety: none.
class TarWalker {
 public:
  struct Options {
    std::uint64_t offset_bytes = 0;  ///< Where the walk begins in its shard.
    std::uint64_t size_bytes = 0;    ///< How far it goes.
    bool require_end = true;
  };

  explicit TarWalker(const Options& options)
      : position_bytes_(options.offset_bytes),
        limit_bytes_(options.offset_bytes + options.size_bytes),
        require_end_(options.require_end) {
    if (options.size_bytes == 0) finished_ = true;
  }

  /// As ShardScanner::wants(), in offsets of the shard.
  ByteRange wants() const;
  /// As ShardScanner::feed().
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

  std::uint64_t position_bytes_;  // of the header or extension that comes next
  std::uint64_t limit_bytes_;
  bool require_end_;
  bool finished_ = false;

  // The extension whose body comes next; '\0' if a header comes next.
  char extension_type_ = '\0';
  std::uint64_t extension_size_bytes_ = 0;
  std::uint64_t extension_padded_bytes_ = 0;

  // What the extensions before the next entry said.
  bool has_global_ = false;
  bool has_member_ = false;  // or a directory
  bool has_own_ = false;     // an x or an L
  std::uint64_t entry_begin_bytes_ = 0;
  std::optional<std::uint64_t> size_override_bytes_;
  bool has_name_override_ = false;
  std::string name_;  // the override, or prefix and name joined
};

}  // namespace stoker
