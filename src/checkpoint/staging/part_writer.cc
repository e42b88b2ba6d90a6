#include "checkpoint/staging/part_writer.h"

#include <array>
#include <cerrno>
#include <new>
#include <optional>
#include <set>
#include <thread>
#include <utility>

namespace stoker {
namespace {

class PartWriter {
 public:
  explicit PartWriter(const PartRequest& request)
      : request_(request), part_(request.part), scans_(request.tensors.size()) {
    for (const LayoutFile& file : request.layout.files) {
      Output output;
      output.digests.resize(file.chunk_count());
      if (request.parent != nullptr && file.group && !request.staging.is_ring())
        output.source = request.parent->find(file.name, file.size_bytes);
      outputs_.push_back(std::move(output));
      for (const PlacedTensor& placed : file.tensors)  // an empty tensor is in no chunk
        if (placed.begin_bytes == placed.end_bytes) scans_[placed.tensor].digest = xxh3_128({});
    }
    in_flight_.resize(request.layout.chunks.size());
  }

  Status make_files();
  Status write_chunks();
  Status reuse_or_write();
  Status finish_files();
  Result<WrittenPart> write_manifest();

 private:
  struct Output {
    bool is_created = false;
    std::vector<Digest128> digests;
    ChunkScanner scanner;
    const CheckpointFile* source = nullptr;  ///< File to reuse if all checksums match.
    std::uint32_t link_count = 0;
    FileInfo info;
  };

  const LayoutFile& layout_of(std::size_t index) const { return request_.layout.files[index]; }

  /// Returns path and offset of a chunk, for messages.
  std::string where(std::size_t chunk) const {
    const ChunkRef ref = request_.layout.chunks[chunk];
    return part_.path_of(ref.file) + " at " + std::to_string(ref.offset_bytes());
  }

  Status make_file(std::uint32_t index);
  Result<bool> try_reuse(std::uint32_t index);
  Status write(const Staging::Chunk& chunk);
  Status await_rate(std::uint64_t size_bytes);
  Status reap(std::size_t count_min) { return reap(count_min, request_.deadline); }
  Status reap(std::size_t count_min, Deadline until);
  Status check_deadline();

  const PartRequest& request_;
  StagedPart& part_;
  std::vector<Output> outputs_;
  std::vector<TensorScan> scans_;
  std::vector<Staging::Chunk> in_flight_;  // by index of the chunk
  std::set<std::size_t> writing_;          // indexes of chunks that were submitted but not reaped
};

Status PartWriter::check_deadline() {
  if (Clock::now() < request_.deadline) return {};
  STOKER_TRY(reap(0));  // so that the message does not name a write that has ended
  if (writing_.empty())
    return Status(Code::unavailable, "the deadline passed while the save was being written");
  return Status(Code::unavailable,
                "write " + where(*writing_.begin()) + ": did not end before the deadline");
}

Status PartWriter::make_file(std::uint32_t index) {
  STOKER_TRY(part_.create(index));
  outputs_[index].is_created = true;
  return {};
}

Status PartWriter::make_files() {
  STOKER_TRY(part_.begin());
  if (request_.reservation_changed) request_.reservation_changed(Reservation::under_way);
  for (std::uint32_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].source == nullptr) STOKER_TRY(make_file(i));
  }
  if (request_.reservation_changed) request_.reservation_changed(Reservation::done);
  return {};
}

Status PartWriter::reap(std::size_t count_min, Deadline until) {
  std::array<Completion, 16> completions;
  STOKER_ASSIGN(const std::size_t count, part_.reap(completions, count_min, time_left(until)));
  if (count < count_min) STOKER_TRY(check_deadline());
  for (const Completion& done : std::span(completions).first(count)) {
    const Staging::Chunk& chunk = in_flight_[done.tag];
    writing_.erase(done.tag);
    if (done.result < 0)
      return Status::from_errno(static_cast<int>(-done.result), "write", where(done.tag));
    if (static_cast<std::uint64_t>(done.result) < chunk.size_bytes)
      return Status(Code::io_error, "write " + where(done.tag) + ": only " +
                                        std::to_string(done.result) + " bytes were written");
    // relaxed: for progress reports
    if (request_.written_bytes != nullptr)
      request_.written_bytes->fetch_add(chunk.size_bytes, std::memory_order_relaxed);
    request_.staging.release(chunk);
  }
  return {};
}

// Waits until the rate limiter allows these bytes, and reaps writes meanwhile, which frees memory
// and updates progress. Fails at once if that would be after the deadline.
Status PartWriter::await_rate(std::uint64_t size_bytes) {
  if (request_.limiter == nullptr) return {};
  const Deadline until = deadline_after(request_.limiter->reserve(size_bytes));
  if (until >= request_.deadline && request_.deadline != Deadline::max()) {
    request_.limiter->give_back(size_bytes);
    return Status(Code::unavailable, "the rate limit of " +
                                         std::to_string(request_.limiter->rate_bytes_per_s()) +
                                         " bytes/s is too low to finish before the deadline");
  }
  while (Clock::now() < until) {
    if (part_.in_flight() > 0)
      STOKER_TRY(reap(1, until));
    else
      std::this_thread::sleep_until(until);
  }
  return {};
}

Status PartWriter::write(const Staging::Chunk& chunk) {
  const ChunkRef ref = request_.layout.chunks[chunk.index];
  STOKER_TRY(await_rate(chunk.size_bytes));
  while (part_.in_flight() >= request_.depth) STOKER_TRY(reap(1));
  in_flight_[chunk.index] = chunk;
  for (;;) {
    STOKER_ASSIGN(const bool is_accepted, part_.submit({.file = ref.file,
                                                        .offset_bytes = ref.offset_bytes(),
                                                        .size_bytes = chunk.size_bytes,
                                                        .memory = chunk.memory,
                                                        .tag = chunk.index}));
    if (is_accepted) {
      writing_.insert(chunk.index);
      return {};
    }
    STOKER_TRY(reap(1));
  }
}

// A chunk is submitted first and scanned afterwards, while the device writes it.
Status PartWriter::write_chunks() {
  for (std::size_t taken = 0; taken < request_.layout.chunks.size();) {
    STOKER_TRY(check_deadline());
    std::optional<Staging::Chunk> chunk = request_.staging.try_take();
    if (!chunk && part_.in_flight() > 0) {
      // In a ring the copying threads may be waiting for these writes, so reap them first.
      STOKER_TRY(reap(1));
      continue;
    }
    if (!chunk) chunk = request_.staging.take(request_.deadline);
    if (!chunk) {
      STOKER_TRY(request_.staging.status());
      return Status(Code::unavailable, "the deadline passed while the save was being copied");
    }
    ++taken;
    const ChunkRef ref = request_.layout.chunks[chunk->index];
    Output& output = outputs_[ref.file];
    if (output.source == nullptr) STOKER_TRY(write(*chunk));
    output.digests[ref.chunk] =
        output.scanner.scan(layout_of(ref.file), ref.chunk, chunk->memory.first(chunk->size_bytes),
                            request_.tensors, scans_);
  }
  return {};
}

// Returns false if the group's file must be written. The checksums show that the tensors have not
// changed; the store checks that the file has not.
Result<bool> PartWriter::try_reuse(std::uint32_t index) {
  Output& output = outputs_[index];
  if (output.source->chunks != output.digests) return false;
  const LinkParent& parent = *request_.parent;
  STOKER_ASSIGN(const std::optional<FileInfo> info,
                part_.reuse(index, {.step = parent.step,
                                    .name = output.source->name,
                                    .is_as_committed = [&](const FileInfo& there) {
                                      return parent.is_as_committed(*output.source, there);
                                    }}));
  if (!info) return false;
  output.info = *info;
  output.link_count = output.source->link_count + 1;
  return true;
}

// Reuses or writes the files of groups, whose checksums are all known now.
Status PartWriter::reuse_or_write() {
  for (std::uint32_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].source == nullptr) continue;
    STOKER_ASSIGN(const bool is_reused, try_reuse(i));
    if (is_reused) continue;
    STOKER_TRY(make_file(i));
    for (std::size_t index = 0; index < request_.layout.chunks.size(); ++index) {
      if (request_.layout.chunks[index].file == i) STOKER_TRY(write(request_.staging.at(index)));
    }
  }
  while (part_.in_flight() > 0) STOKER_TRY(reap(1));
  part_.all_written();
  return {};
}

Status PartWriter::finish_files() {
  for (std::uint32_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].is_created) continue;
    STOKER_ASSIGN(outputs_[i].info, part_.finish(i));
  }
  return {};
}

Result<WrittenPart> PartWriter::write_manifest() {
  WrittenPart written;
  written.part = describe(request_.layout, request_.tensors);
  written.part.state_json = request_.state_json;
  written.part.copies = request_.copies;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    written.part.files[i].chunks = std::move(outputs_[i].digests);
    written.part.files[i].link_count = outputs_[i].link_count;
    written.infos.push_back(outputs_[i].info);
  }
  std::size_t next = 0;  // describe() lists files and their tensors in this order
  for (const LayoutFile& file : request_.layout.files) {
    for (const PlacedTensor& placed : file.tensors) {
      CheckpointTensor& tensor = written.part.tensors[next++];
      tensor.nonfinite_count = scans_[placed.tensor].nonfinite_count;
      tensor.digest = scans_[placed.tensor].digest;
    }
  }
  STOKER_TRY(part_.seal(request_.layout.rank, format_checkpoint_part(written.part)));
  written.scans = std::move(scans_);
  return written;
}

Result<WrittenPart> run(PartWriter& writer) {
  STOKER_TRY(writer.make_files());
  STOKER_TRY(writer.write_chunks());
  STOKER_TRY(writer.reuse_or_write());
  STOKER_TRY(writer.finish_files());
  return writer.write_manifest();
}

}  // namespace

// Creates the files, writes the chunks and computes their checksums, and makes the files and the
// part manifest durable. In a directory these are steps 1 to 7 of docs/durability.md
// (directory_part.cc). Nothing is visible to readers yet. An error ends the attempt: nothing is
// synced twice.
Result<WrittenPart> write_part(const PartRequest& request) {
  PartWriter writer(request);
  Result<WrittenPart> written = Status::from_errno(ENOMEM, "write a checkpoint", "");
  try {
    written = run(writer);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): `written` is ENOMEM already
  }
  if (written.ok()) return written;
  request.staging.fail(written.status());
  request.part.abandon(request.deadline);
  return written;
}

}  // namespace stoker
