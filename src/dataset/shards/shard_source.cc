#include "dataset/shards/shard_source.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/shell_quote.h"
#include "dataset/shards/shard_names.h"
#include "formats/table/shard_formats.h"
#include "io/files/regular_file.h"

namespace stoker {
namespace {

constexpr std::size_t kHeadBytes = 512;
constexpr std::uint64_t kPackedBytesMax = (std::uint64_t{4} << 30) - 1;

/// Formats whose shards say everything themselves.
class PlainSource final : public ShardSource {
 public:
  PlainSource(const ShardFormat& format, std::string directory, std::vector<ShardFile> shards)
      : ShardSource(format, std::move(directory), std::move(shards)),
        reader_(format.make_reader()) {}
  const ShardReader& reader() const noexcept override { return *reader_; }

 private:
  std::unique_ptr<ShardReader> reader_;
};

bool starts_with(std::span<const std::byte> head, std::string_view magic) {
  return head.size() >= magic.size() && std::memcmp(head.data(), magic.data(), magic.size()) == 0;
}

std::int64_t mtime_ns_of(const struct stat& info) {
  return info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
}

/// At most `size_max` bytes from the start.
Result<std::vector<std::byte>> read_from(int fd, const std::string& path, std::size_t size_max) {
  std::vector<std::byte> bytes(size_max);
  std::size_t size = 0;
  while (size < size_max) {
    const ssize_t n = ::pread(fd, bytes.data() + size, size_max - size, static_cast<off_t>(size));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status::from_errno(errno, "read", path);
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  bytes.resize(size);
  return bytes;
}

/// Endings differ where formats do, as a rule: opening ten thousand shards to look at each would
/// cost what the index saves. A scan finds the rest.
Status check_one_format(const std::vector<std::string>& paths, const ShardFormat& format) {
  const std::filesystem::path first_ending = std::filesystem::path(paths.front()).extension();
  for (const std::string& path : paths) {
    if (std::filesystem::path(path).extension() == first_ending) continue;
    STOKER_ASSIGN(const ShardFormat* const other, internal::recognise_shard(path));
    if (other != &format)
      return Status(Code::invalid_argument,
                    fmt::format("{}: its format is {}, that of {} is {}; name shards of one format",
                                path, other->name, paths.front(), format.name));
  }
  return {};
}

/// Without what does not change its meaning, so that one directory has one index however it is
/// written: "a//b/", "./a/b".
std::string clean_path(const std::string& path) {
  std::string clean;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    const std::string_view part = std::string_view(path).substr(at, slash - at);
    if (!part.empty() && part != ".") {
      if (!clean.empty() && !clean.ends_with('/')) clean += '/';
      clean += part;
    }
    if (at == 0 && slash == 0) clean = "/";
    at = slash + 1;
  }
  return clean.empty() ? "." : clean;
}

}  // namespace

namespace internal {

Result<std::unique_ptr<ShardSource>> open_shard_files(const std::vector<std::string>& paths,
                                                      const ShardSourceOptions& options) {
  const ShardFormat* format = find_shard_format(options.format);
  if (format != nullptr && format->has_index_json)
    return Status(Code::invalid_argument,
                  fmt::format("{}: datasets of the format {} are opened by their directory: name "
                              "that",
                              paths.front(), format->name));
  if (format == nullptr) {
    STOKER_ASSIGN(format, recognise_shard(paths.front()));
    STOKER_TRY(check_one_format(paths, *format));
  }
  const std::string directory = common_directory(paths);
  if (format->is_array) return open_tokens(*format, paths, options.dtype);
  STOKER_ASSIGN(std::vector<ShardFile> shards, stat_shards(paths, directory));
  return std::unique_ptr<ShardSource>(
      std::make_unique<PlainSource>(*format, directory, std::move(shards)));
}

Result<const ShardFormat*> recognise_shard(const std::string& path) {
  STOKER_ASSIGN(const std::vector<std::byte> head, read_head(path, kHeadBytes));
  const std::span<const std::byte> bytes(head);
  const bool is_mds = std::filesystem::path(path).filename().string().find(".mds") !=
                      std::string::npos;  // its shards may be compressed
  const bool is_zstd = !is_mds && starts_with(bytes, "\x28\xb5\x2f\xfd");
  if (is_zstd || (!is_mds && starts_with(bytes, "\x1f\x8b")))
    return Status(Code::unsupported,
                  path + ": " + (is_zstd ? "zstd" : "gzip") +
                      " cannot be read at random; unpack it, or convert it: stoker convert " +
                      shell_quote(path) + " OUT --format tar");
  if (starts_with(bytes, "BZh") || starts_with(bytes,
                                               "\xfd"
                                               "7zXZ"))
    return Status(Code::unsupported,
                  path + ": bzip2 and xz cannot be read at random; unpack it first");
  if (const ShardFormat* const format = recognise_shard_head(bytes)) return format;
  const std::filesystem::path name = std::filesystem::path(path).filename();
  for (const ShardFormat* const format : shard_formats())
    if (!format->ending.empty() && format->make_reader != nullptr &&
        name.extension() == "." + std::string(format->ending))
      return format;
  if (name == "index.json" || name.string().find(".mds") != std::string::npos)
    return Status(Code::invalid_argument,
                  path + ": datasets with an index.json are opened by their directory: name that");
  return Status(
      Code::invalid_argument,
      path +
          ": not a shard of a known format; raw and counted arrays have nothing to "
          "be recognised by: name the format and the dtype, as --format raw --dtype uint16 (in "
          "Python stoker.Dataset(..., format=\"raw\", dtype=\"uint16\"), which Tokens "
          "and Loader take)");
}

Status check_unchanged(int fd, const ShardFile& file) {
  struct stat now{};
  if (::fstat(fd, &now) != 0) return Status::from_errno(errno, "fstat", file.path);
  if (static_cast<std::uint64_t>(now.st_size) == file.size_bytes &&
      mtime_ns_of(now) == file.mtime_ns)
    return {};
  return Status(Code::unavailable,
                file.path + ": changed since the dataset was opened; open it again");
}

Result<std::vector<std::byte>> read_packed(const ShardFile& shard) {
  if (shard.size_bytes > kPackedBytesMax)
    return Status(Code::unsupported,
                  shard.path + ": 4 GiB or more to be read as a whole; write smaller shards");
  STOKER_ASSIGN(const UniqueFd fd, open_regular(posix_file_ops(), shard.path));
  STOKER_ASSIGN(std::vector<std::byte> bytes, read_from(fd.get(), shard.path, shard.size_bytes));
  STOKER_TRY(check_unchanged(fd.get(), shard));
  return bytes;
}

Status check_digests(const ShardSource& source, std::size_t shard) {
  if (source.is_compressed(shard) || !source.has_digests(shard)) return {};
  const ShardFile& file = source.shards()[shard];
  STOKER_ASSIGN(const std::vector<std::byte> bytes, read_packed(file));
  return source.check_digests(shard, bytes).with_context(file.path);
}

Result<std::vector<std::byte>> read_head(const std::string& path, std::size_t size_max) {
  STOKER_ASSIGN(const UniqueFd fd, open_regular(posix_file_ops(), path));
  return read_from(fd.get(), path, size_max);
}

Result<std::string> read_whole(const PathAt& path, std::size_t size_max) {
  STOKER_ASSIGN(const UniqueFd fd, open_regular(posix_file_ops(), path));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return Status::from_errno(errno, "fstat", path.text());
  if (static_cast<std::uint64_t>(info.st_size) > size_max)
    return Status(Code::unsupported, path.text() + ": " + std::to_string(info.st_size) +
                                         " bytes are more than an index file may have (" +
                                         std::to_string(size_max) + "); split the dataset");
  STOKER_ASSIGN(const std::vector<std::byte> bytes,
                read_from(fd.get(), path.text(), static_cast<std::size_t>(info.st_size)));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string common_directory(std::span<const std::string> paths) {
  std::filesystem::path common = std::filesystem::path(paths.front()).parent_path();
  const auto holds = [&common](const std::string& path) {
    const std::string prefix = common.empty() ? "" : common.string() + "/";
    return path.starts_with(prefix);
  };
  while (!common.empty() && common.has_relative_path() &&
         !std::all_of(paths.begin(), paths.end(), holds))
    common = common.parent_path();
  return common.empty() ? "." : common.string();
}

Result<std::vector<ShardFile>> stat_shards(std::span<const std::string> paths,
                                           const std::string& directory, bool may_be_missing) {
  std::vector<ShardFile> shards;
  shards.reserve(paths.size());
  const std::string prefix = directory + "/";
  for (const std::string& path : paths) {
    const std::string name = path.starts_with(prefix) ? path.substr(prefix.size()) : path;
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) {
      if (errno != ENOENT || !may_be_missing) return Status::from_errno(errno, "stat", path);
      shards.push_back({.name = name, .path = path});
      continue;
    }
    if (!S_ISREG(info.st_mode))
      return Status(Code::invalid_argument, path + ": not a regular file");
    shards.push_back({.name = name,
                      .path = path,
                      .size_bytes = static_cast<std::uint64_t>(info.st_size),
                      .mtime_ns = mtime_ns_of(info)});
  }
  return shards;
}

}  // namespace internal

Result<std::unique_ptr<ShardSource>> open_shards(std::span<const std::string> patterns,
                                                 const ShardSourceOptions& options) {
  if (!options.format.empty()) STOKER_TRY(parse_shard_format(options.format).status());
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns) {
    if (pattern.empty())
      return Status(Code::invalid_argument,
                    "an empty name names no shards; \".\" is this directory");
    STOKER_ASSIGN(const std::vector<std::string> found, find_shards(pattern));
    for (const std::string& path : found) paths.push_back(clean_path(path));
  }
  if (paths.empty()) return Status(Code::not_found, "no shards were named");
  const auto is_directory = [](const std::string& path) {
    std::error_code ignored;  // what cannot be looked at fails with its reason when it is opened
    return std::filesystem::is_directory(path, ignored);
  };
  const auto first = std::ranges::find_if(paths, is_directory);
  if (first == paths.end()) return internal::open_shard_files(paths, options);
  if (!std::ranges::all_of(paths, is_directory))
    return Status(Code::invalid_argument,
                  *first + ": name directories, or shard files, not some of both");
  return internal::open_directories(paths, options);
}

}  // namespace stoker
