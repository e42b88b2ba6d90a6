#include "io/read_many.h"

#include <algorithm>
#include <utility>

#include "base/rounding.h"

namespace stoker {
namespace {

constexpr std::size_t kPlaceAlignBytes = 64;  // a cache line; O_DIRECT may require more

}  // namespace

Status ManyReads::with_place(const Status& status, const ReadRange& range) const {
  std::string place = "read " + sources_[range.file].path + ", offset " +
                      std::to_string(range.offset_bytes) + ", length ";
  place += range.size_bytes == ReadRange::kToEnd ? "to the end" : std::to_string(range.size_bytes);
  return status.with_context(place);
}

Status ManyReads::open(Source& source) const {
  Result<File> file = File::open(*ops_, source.path, {.policy = options_.policy});
  if (!file.ok()) return file.status();
  source.file.emplace(*std::move(file));
  return {};
}

/// Checks a range against its file and assigns its place in the memory.
Status ManyReads::place(ReadRange& range) {
  Source& source = sources_[range.file];
  if (!source.was_opened) {
    STOKER_TRY(open(source));
    source.was_opened = true;
    source.size_bytes = source.file->size_bytes();
    source.alignment = source.file->alignment();
    if (open_count_ < options_.open_files_max) {
      ++open_count_;
    } else {
      source.file.reset();
    }
  }
  const std::uint64_t end = source.size_bytes;
  if (range.offset_bytes > end ||
      (range.size_bytes != ReadRange::kToEnd && range.size_bytes > end - range.offset_bytes))
    return Status(Code::io_error, "the file ends at byte " + std::to_string(end));
  if (range.size_bytes == ReadRange::kToEnd) range.size_bytes = end - range.offset_bytes;
  const bool has_place = range.into.data() != nullptr;
  if (has_place && range.into.size() != range.size_bytes)
    return Status(Code::invalid_argument,
                  "its destination has " + std::to_string(range.into.size()) + " bytes");
  const std::size_t memory_align =
      std::max<std::size_t>(source.alignment.memory_bytes, kPlaceAlignBytes);
  places_.push_back(round_up(memory_bytes_, memory_align));
  if (range.size_bytes == 0) return {};
  ++source.ranges_left;
  piece_count_ += 1 + range.size_bytes / options_.piece_bytes;
  const std::uint64_t unit = source.alignment.offset_bytes;
  if (!has_place)
    memory_bytes_ = places_.back() + round_up(range.offset_bytes + range.size_bytes, unit) -
                    round_down(range.offset_bytes, unit);
  return {};
}

Result<ManyReads> ManyReads::plan(FileOps& ops, std::vector<std::string> paths,
                                  std::vector<ReadRange> ranges, ReadManyOptions options) {
  // Pieces start and end at multiples of their size in the file, which direct reads require.
  if (options.piece_bytes < 4096 || options.piece_bytes % 4096 != 0)
    return Status(Code::invalid_argument, "read_many: piece_bytes must be a multiple of 4096");
  ManyReads reads(ops, std::move(options));
  for (std::string& path : paths) reads.sources_.push_back({.path = std::move(path)});
  reads.ranges_ = std::move(ranges);
  reads.places_.reserve(reads.ranges_.size());
  for (ReadRange& range : reads.ranges_) {
    if (range.file >= reads.sources_.size())
      return Status(Code::invalid_argument,
                    "read_many: there is no file " + std::to_string(range.file));
    const Status status = reads.place(range);
    if (!status.ok()) return reads.with_place(status, range);
  }
  return reads;
}

std::span<std::byte> ManyReads::bytes(std::size_t i, std::span<std::byte> memory) const noexcept {
  const ReadRange& range = ranges_[i];
  if (range.into.data() != nullptr) return range.into;
  if (range.size_bytes == 0) return {};
  const std::uint64_t unit = sources_[range.file].alignment.offset_bytes;
  return memory.subspan(places_[i] + range.offset_bytes % unit, range.size_bytes);
}

}  // namespace stoker
