#include "formats/webdataset/tar_walker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "formats/webdataset/tar_pax.h"

namespace stoker {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns the format of a file that is not a tar, by its first bytes; empty if unknown.
std::string_view other_format(std::string_view start) {
  struct Magic {
    std::string_view bytes;
    std::string_view name;
  };
  for (const Magic& magic : {Magic{"\x1f\x8b", "gzip"}, Magic{"BZh", "bzip2"},
                             Magic{"\xfd"
                                   "7zXZ",
                                   "xz"},
                             Magic{"\x28\xb5\x2f\xfd", "zstd"}, Magic{"\x04\x22\x4d\x18", "lz4"},
                             Magic{"\x1f\x9d", "compress"}, Magic{"PK\x03\x04", "zip"}})
    if (start.starts_with(magic.bytes)) return magic.name;
  return {};
}

/// Returns why a type of member is not read; empty for types that are.
std::string_view refused_type(char type) {
  switch (type) {
    case '\0':
    case '0':
    case '5':
    case '7': return {};
    case '1': return "a hard link";
    case '2':
    case 'K': return "a symbolic link";
    case '3': return "a character device";
    case '4': return "a block device";
    case '6': return "a FIFO";
    case 'S': return "a sparse file";
    case 'M': return "part of a multi-volume archive";
    case kTarLabelType: return "a volume label with contents";
    case 'D':
    case 'N': return "part of an incremental archive";
    case 'X': return "a Solaris extended header";
    default: return "a member of unknown type";
  }
}

bool has_parent_component(std::string_view name) {
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..") return true;
    begin = end + 1;
  }
  return false;
}

/// Returns what is wrong with a member's name; empty if nothing.
std::string_view name_fault(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.size() > kTarNameBytesMax) return "is longer than 4096 bytes";
  if (name.front() == '/') return "is absolute";
  if (has_parent_component(name)) return "goes up by \"..\"";
  return {};
}

}  // namespace

ByteRange TarWalker::wants() const {
  if (finished_) return {position_bytes_, 0};
  if (extension_type_ != '\0') return {position_bytes_, extension_padded_bytes_};
  return {position_bytes_, std::min(kTarBlockBytes, limit_bytes_ - position_bytes_)};
}

Status TarWalker::feed(std::span<const std::byte> bytes, TarEntrySink& sink) {
  const std::uint64_t origin_bytes = position_bytes_;
  if (bytes.size() < wants().size_bytes) {
    finished_ = true;
    return Status(Code::invalid_argument, fmt::format("offset {}: fed {} bytes, fewer than wanted",
                                                      origin_bytes, bytes.size()));
  }
  while (!finished_) {
    const ByteRange want = wants();
    const std::uint64_t skip_bytes = want.offset_bytes - origin_bytes;
    if (skip_bytes > bytes.size() || want.size_bytes > bytes.size() - skip_bytes) return {};
    if (Status status = take(bytes.subspan(skip_bytes, want.size_bytes), sink); !status.ok()) {
      finished_ = true;
      return status;
    }
  }
  return {};
}

Status TarWalker::take(std::span<const std::byte> piece, TarEntrySink& sink) {
  return extension_type_ == '\0' ? take_header(piece, sink) : take_extension(piece);
}

Status TarWalker::refuse_first_block(std::span<const std::byte> piece, Status why) const {
  const std::string_view format = other_format(text_of(piece));
  if (position_bytes_ != 0 || format.empty()) return why;
  return tar_unsupported(
      0, fmt::format("this is {} data: a compressed archive cannot be read at random; decompress "
                     "it once and keep the plain tar (gunzip, xz -d, unzstd, ...)",
                     format));
}

Status TarWalker::take_header(std::span<const std::byte> piece, TarEntrySink& sink) {
  if (piece.size() < kTarBlockBytes)
    return refuse_first_block(
        piece,
        tar_corrupt(position_bytes_,
                    fmt::format("cut off: {} bytes where a header of 512 belongs", piece.size())));
  const std::span<const std::byte, kTarBlockBytes> block = piece.first<kTarBlockBytes>();
  if (is_tar_end(block)) {
    // `tar --label` without members writes only a global header.
    if (has_own_ || (has_global_ && has_member_))
      return tar_corrupt(position_bytes_,
                         "the archive ends after an extended header, without the "
                         "member it belongs to");
    finished_ = true;
    return {};
  }
  const Result<TarHeader> header = parse_tar_header(block, position_bytes_);
  if (!header.ok()) return refuse_first_block(piece, header.status());
  if (!has_own_) entry_begin_bytes_ = position_bytes_;
  switch (header->type) {
    case 'x':
    case 'L':
    case 'g': return begin_extension(*header);
    default: break;
  }
  // `tar --label` writes a name for the archive, which is not a member.
  if (header->type == kTarLabelType && header->size_bytes == 0 && !has_own_) {
    position_bytes_ += kTarBlockBytes;
    return finish_if_at_end();
  }
  return take_entry(*header, sink);
}

Status TarWalker::begin_extension(const TarHeader& header) {
  const std::string_view kind = header.type == 'x'   ? "a PAX header"
                                : header.type == 'L' ? "a GNU long name"
                                                     : "a global PAX header";
  const auto refuse = [&](std::string_view why) {
    return tar_corrupt(position_bytes_, fmt::format("{} {}", kind, why));
  };
  if (has_own_) return refuse("where the member of an extended header belongs");
  if (header.type == 'g' && has_global_) return refuse("right after another");
  if (header.size_bytes > kTarExtensionBytesMax) return refuse("of more than 1 MiB");
  if (header.size_bytes == 0) return refuse("without contents");
  std::uint64_t padded_bytes = 0;
  if (!tar_padded(header.size_bytes, padded_bytes) ||
      padded_bytes > limit_bytes_ - position_bytes_ - kTarBlockBytes)
    return refuse("is cut off");
  extension_type_ = header.type;
  extension_size_bytes_ = header.size_bytes;
  extension_padded_bytes_ = padded_bytes;
  position_bytes_ += kTarBlockBytes;
  return {};
}

Status TarWalker::take_extension(std::span<const std::byte> piece) {
  const std::uint64_t header_bytes = position_bytes_ - kTarBlockBytes;
  const auto body = piece.first(extension_size_bytes_);
  const char type = std::exchange(extension_type_, '\0');
  // Python's tarfile would read records from the padding.
  if (!std::ranges::all_of(piece.subspan(body.size()),
                           [](std::byte b) { return b == std::byte{}; }))
    return tar_corrupt(header_bytes, "the padding of an extended header is not zero");
  if (type == 'L') {
    std::string_view name = text_of(body);
    name = name.substr(0, name.find_last_not_of('\0') + 1);
    if (name.find('\0') != std::string_view::npos)
      return tar_corrupt(header_bytes, "a GNU long name has a NUL in it");
    if (name.empty()) return tar_corrupt(header_bytes, "a GNU long name is empty");
    name_ = name.substr(0, kTarNameBytesMax + 1);  // take_entry() rejects a name that is too long
    has_name_override_ = true;
  } else {
    STOKER_ASSIGN(const PaxOverrides overrides, parse_pax(body, header_bytes));
    if (type == 'g' && (overrides.path || overrides.size_bytes))
      return tar_unsupported(header_bytes,
                             "a global PAX header sets the path or the size of every member, and "
                             "tars disagree on what that means; write the archive again");
    if (overrides.path) {
      name_ = overrides.path->substr(0, kTarNameBytesMax + 1);
      has_name_override_ = true;
    }
    size_override_bytes_ = overrides.size_bytes;
  }
  (type == 'g' ? has_global_ : has_own_) = true;
  position_bytes_ += extension_padded_bytes_;
  return finish_if_at_end();
}

std::string_view TarWalker::name_of(const TarHeader& header) {
  if (has_name_override_) return name_;
  if (header.prefix.empty()) return header.name;
  name_.assign(header.prefix).append("/").append(header.name);
  return name_;
}

Status TarWalker::take_entry(const TarHeader& header, TarEntrySink& sink) {
  const std::uint64_t header_bytes = position_bytes_;
  TarEntry entry;
  entry.name = name_of(header);
  entry.name_is_fed = entry.name.data() == header.name.data();
  const auto refuse = [&](std::string_view why) {
    return tar_corrupt(header_bytes, fmt::format("member {} {}", tar_quoted(entry.name), why));
  };
  if (const std::string_view type = refused_type(header.type); !type.empty())
    return tar_unsupported(
        header_bytes,
        fmt::format("{} is {} (type {}): a shard holds regular files only; write it again "
                    "without (tar --hard-dereference --dereference follows links)",
                    tar_quoted(entry.name), type, tar_quoted({&header.type, 1})));
  if (const std::string_view fault = name_fault(entry.name); !fault.empty())
    return refuse(fmt::format("has a name that {}", fault));

  // V7 had no directory type: a file whose name ends in a slash is one. Later tars apply this to
  // the name in the header only.
  const bool ends_in_slash = entry.name.ends_with('/');
  const bool v7_directory = header.type == '\0' && header.name.ends_with('/');
  if (v7_directory && has_name_override_) return refuse("is a V7 directory with another name");
  if (header.type == '5' || v7_directory) entry.kind = TarEntry::Kind::directory;
  const std::uint64_t size_bytes = size_override_bytes_.value_or(header.size_bytes);
  if (entry.kind == TarEntry::Kind::directory && (size_bytes != 0 || header.size_bytes != 0))
    return refuse("is a directory with contents");
  if (entry.kind == TarEntry::Kind::regular && ends_in_slash)
    return refuse("is a file whose name ends in a slash");

  entry.begin_bytes = entry_begin_bytes_;
  entry.data = {header_bytes + kTarBlockBytes, size_bytes};
  std::uint64_t padded_bytes = 0;
  if (!tar_padded(size_bytes, padded_bytes) ||
      padded_bytes > limit_bytes_ - entry.data.offset_bytes)
    return refuse(fmt::format("is cut off: {} bytes of data, and {} left in the shard", size_bytes,
                              limit_bytes_ - entry.data.offset_bytes));
  entry.end_bytes = entry.data.offset_bytes + padded_bytes;
  STOKER_TRY(sink.add(entry));

  position_bytes_ = entry.end_bytes;
  has_global_ = has_own_ = has_name_override_ = false;
  has_member_ = true;
  size_override_bytes_.reset();
  return finish_if_at_end();
}

Status TarWalker::finish_if_at_end() {
  if (position_bytes_ < limit_bytes_) return {};
  if (has_own_ || has_global_)
    return tar_corrupt(position_bytes_, "cut off after an extended header, before its member");
  if (require_end_)
    return tar_corrupt(position_bytes_,
                       "no end-of-archive block: the shard was probably cut off here; if you know "
                       "that it is whole, append one (truncate --size=+1024)");
  finished_ = true;
  return {};
}

}  // namespace stoker
