#include "dataset/pack/pack_paths.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "dataset/shards/shard_files.h"
#include "store/local_store.h"

namespace stoker {
namespace {

bool is_inside(const std::filesystem::path& path, const std::filesystem::path& directory) {
  const auto [rest, ignored] = std::ranges::mismatch(directory, path);
  return rest == directory.end();
}

/// The path with links resolved, up to the first name that does not exist; without a trailing
/// slash.
std::filesystem::path real_path(const std::string& path) {
  std::error_code error;
  std::filesystem::path real =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  return real.has_filename() ? real : real.parent_path();
}

}  // namespace

Status check_apart(const std::string& source, const std::string& destination) {
  std::error_code error;
  if (!std::filesystem::is_directory(source, error)) return {};
  const std::filesystem::path from = real_path(source);
  const std::filesystem::path to = real_path(destination);
  const bool is_below = is_inside(to, from);
  if (!is_below && !is_inside(from, to)) return {};
  const std::string relation = from == to ? "is the directory to pack itself, "
                               : is_below ? "is inside the directory to pack, "
                                          : "contains the directory to pack, ";
  return Status(Code::invalid_argument,
                destination + ": the directory for the shards " + relation + source +
                    "; use one outside of it, such as " +
                    (from.parent_path() / (from.filename().string() + "-shards")).string());
}

Result<std::string> read_own_file(const PathAt& path, std::size_t size_max) {
  STOKER_ASSIGN(const std::unique_ptr<const Object> object,
                open_local_object(posix_file_ops(), path, CachePolicy::buffered));
  return internal::read_whole(*object, size_max);
}

}  // namespace stoker
