#include "support/model_engine.h"

#include <algorithm>
#include <cerrno>

namespace stoker::testing {

Status ModelEngine::record(const Request& request, std::size_t moved_bytes) {
  if (request.op == Op::fsync) return disk_.fsync(request.fd);
  if (request.op == Op::fdatasync) return disk_.fdatasync(request.fd);
  if (request.op != Op::write) return {};
  if (request.pieces.empty())
    return disk_.record_write(request.fd, request.offset_bytes, request.buffer.first(moved_bytes));
  std::uint64_t offset = request.offset_bytes;
  for (const std::span<std::byte> piece : request.pieces) {
    const std::size_t size = std::min(moved_bytes, piece.size());
    STOKER_TRY(disk_.record_write(request.fd, offset, piece.first(size)));
    offset += size;
    moved_bytes -= size;
  }
  return {};
}

Result<Completion> ModelEngine::perform_now(const Request& request) {
  STOKER_ASSIGN(const std::size_t accepted, target_->submit({&request, 1}));
  Completion completion;
  STOKER_ASSIGN(const std::size_t count, target_->reap({&completion, 1}, 1, kForever));
  if (accepted != 1 || count != 1) return Status(Code::io_error, "the sync engine waits");
  if (completion.result < 0) return completion;
  const Status told = record(request, static_cast<std::size_t>(completion.result));
  if (told.os_error() == EBADF && foreign_ == Foreign::pass) return completion;
  if (!told.ok()) completion.result = told.os_error() != 0 ? -told.os_error() : -EIO;
  return completion;
}

Result<std::size_t> ModelEngine::submit(std::span<const Request> requests) {
  if (requests.empty()) return target_->submit({});
  std::size_t accepted = 0;
  for (const Request& request : requests) {
    if (done_.size() == caps().depth_max) break;
    STOKER_ASSIGN(const Completion completion, perform_now(request));
    done_.push_back(completion);
    ++accepted;
  }
  return accepted;
}

Result<std::size_t> ModelEngine::reap(std::span<Completion> out, std::size_t count_min,
                                      nanoseconds timeout) {
  STOKER_ASSIGN(const std::size_t none, target_->reap({}, count_min, timeout));  // the fork guard
  const std::size_t count = std::min(out.size(), done_.size());
  std::copy_n(done_.begin(), count, out.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
  return none + count;
}

Status ModelEngine::drain(nanoseconds timeout) {
  STOKER_TRY(target_->drain(timeout));
  done_.clear();
  return {};
}

Result<std::unique_ptr<Engine>> ModelDisk::make_engine(const EngineOptions& options) {
  STOKER_ASSIGN(std::unique_ptr<Engine> target, make_sync_engine(options));
  return std::unique_ptr<Engine>(std::make_unique<ModelEngine>(*this, std::move(target)));
}

}  // namespace stoker::testing
