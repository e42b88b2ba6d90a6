#include "stoker/io.h"

#include <map>
#include <memory>
#include <utility>

#include "api/border.h"
#include "base/unique_fd.h"
#include "io/engine/arena.h"
#include "io/engine/residency.h"
#include "io/files/publish.h"
#include "io/files/regular_file.h"
#include "io/read_many.h"

namespace stoker {
namespace {

/// A range with its file's number; files are opened once each.
std::vector<ReadRange> numbered(std::span<const FileRange> ranges,
                                std::vector<std::string>& paths) {
  std::map<std::string_view, std::uint32_t> numbers;
  std::vector<ReadRange> out;
  out.reserve(ranges.size());
  for (const FileRange& range : ranges) {
    const auto [at, is_new] =
        numbers.try_emplace(range.path, static_cast<std::uint32_t>(paths.size()));
    if (is_new) paths.push_back(range.path);
    out.push_back({.file = at->second,
                   .offset_bytes = range.offset_bytes,
                   .size_bytes = range.size_bytes,
                   .into = range.into});
  }
  return out;
}

Result<RangeBytes> read(std::span<const FileRange> ranges, const ReadRangesOptions& options) {
  std::vector<std::string> paths;
  std::vector<ReadRange> reads = numbered(ranges, paths);
  STOKER_ASSIGN(ManyReads many,
                ManyReads::plan(posix_file_ops(), std::move(paths), std::move(reads),
                                {.policy = options.policy,
                                 .engine = options.engine,
                                 .sync_for_few = options.engine == EngineKind::automatic,
                                 .is_interrupted = options.is_interrupted}));
  std::shared_ptr<MappedArena> arena;
  if (many.memory_bytes() > 0) {
    STOKER_ASSIGN(MappedArena mapped, MappedArena::map(many.memory_bytes(), true, false));
    arena = std::make_shared<MappedArena>(std::move(mapped));
  }
  const std::span<std::byte> memory = arena ? arena->bytes() : std::span<std::byte>();
  STOKER_TRY(many.read(memory));
  RangeBytes out{.memory = std::move(arena), .ranges = {}};
  for (std::size_t i = 0; i < many.count(); ++i) out.ranges.push_back(many.bytes(i, memory));
  return out;
}

Result<Residency> look(const std::string& path, std::string_view what, std::uint64_t offset_bytes,
                       std::uint64_t size_bytes, bool evicts) {
  STOKER_ASSIGN(const UniqueFd fd, open_regular(posix_file_ops(), path));
  const std::string context = std::string(what) + " " + path;
  if (evicts) STOKER_TRY(evict(fd.get()).with_context(context));
  Result<Residency> found = residency(fd.get(), offset_bytes, size_bytes);
  if (!found.ok()) return found.status().with_context(context);
  return found;
}

}  // namespace

Result<RangeBytes> read_ranges(std::span<const FileRange> ranges,
                               const ReadRangesOptions& options) {
  return internal::at_border([&] { return read(ranges, options); });
}

Status write_durable(const std::string& path, std::span<const std::byte> bytes,
                     IfExists if_exists) {
  return internal::at_border(
      [&] { return publish_file(posix_file_ops(), path, bytes, if_exists); });
}

Result<Residency> residency(const std::string& path, std::uint64_t offset_bytes,
                            std::uint64_t size_bytes) {
  return internal::at_border(
      [&] { return look(path, "residency", offset_bytes, size_bytes, false); });
}

Result<Residency> evict(const std::string& path) {
  return internal::at_border([&] { return look(path, "evict", 0, 0, true); });
}

}  // namespace stoker
