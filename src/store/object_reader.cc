#include "store/object_reader.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "store/open_object.h"

namespace stoker {
namespace {

constexpr std::uint32_t kDepth = 4;
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

}  // namespace

Status failure_of(const Completion& failed, const std::string& key) {
  if (!failed.failure.ok()) return naming(failed.failure, key);
  return Status::from_errno(static_cast<int>(-failed.result), "read", key);
}

Status naming(const Status& failure, const std::string& key) {
  const bool is_named = failure.message().find(key) != std::string_view::npos;
  return is_named ? failure : failure.with_context(key);
}

Result<ObjectReader> ObjectReader::make(ObjectStore& store) {
  STOKER_ASSIGN(std::unique_ptr<RangeSource> source, open_source(store, kDepth));
  return ObjectReader(std::move(source));
}

ObjectReader::ObjectReader(std::unique_ptr<RangeSource> source)
    : pieces_(std::clamp(source->depth_max(), 1U, kDepth)), source_(std::move(source)) {}

Status ObjectReader::read(const Object& object, const Took& took) {
  const std::uint64_t size_bytes = object.info().size_bytes;
  std::uint64_t planned = 0;  // bytes of the object that are requested
  std::uint64_t next = 0;     // numbers of pieces
  std::uint64_t end = 0;
  while (planned < size_bytes || next < end) {
    while (planned < size_bytes && end - next < pieces_.size()) {
      Piece& piece = pieces_[end % pieces_.size()];
      piece.memory.resize(std::min<std::uint64_t>(size_bytes, kPieceBytes));
      piece.size_bytes = std::min<std::uint64_t>(piece.memory.size(), size_bytes - planned);
      Request request =
          request_of(object, planned, std::span(piece.memory).first(piece.size_bytes));
      request.tag = end % pieces_.size();
      STOKER_ASSIGN(const std::size_t taken, source_->submit({&request, 1}));
      if (taken == 0) break;
      piece.is_in_flight = true;
      planned += piece.size_bytes;
      ++end;
    }
    const Piece& first = pieces_[next % pieces_.size()];
    if (next == end || first.is_in_flight) {
      STOKER_TRY(reap(object));
      continue;
    }
    STOKER_TRY(took(std::span(first.memory).first(first.size_bytes)));
    ++next;
  }
  return {};
}

Status ObjectReader::reap(const Object& object) {
  std::array<Completion, kDepth> completions;
  STOKER_ASSIGN(const std::size_t count,
                source_->reap(completions, 1, std::chrono::milliseconds(50)));
  for (const Completion& completion : std::span(completions).first(count)) {
    if (completion.tag >= pieces_.size())
      return {Code::invalid_argument, object.key() + ": the store completed an unknown request"};
    Piece& piece = pieces_[completion.tag];
    piece.is_in_flight = false;
    if (completion.result < 0) return failure_of(completion, object.key());
    if (static_cast<std::uint64_t>(completion.result) != piece.size_bytes)
      return {Code::unavailable, object.key() + " is shorter than it was: was it replaced?"};
  }
  return {};
}

}  // namespace stoker
