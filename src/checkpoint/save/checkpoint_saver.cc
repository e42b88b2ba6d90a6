#include "checkpoint/save/checkpoint_saver.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "checkpoint/save/saver_core.h"

namespace stoker {

Result<std::unique_ptr<CheckpointSaver>> CheckpointSaver::make(SaverOptions options) {
  const auto bad = [](const char* why) { return Status(Code::invalid_argument, why); };
  if (options.directory.empty() && options.store != nullptr)
    options.directory = options.store->path();
  if (options.directory.empty()) return bad("checkpointer: no directory given");
  if (options.has_private_disks && options.store != nullptr)
    return bad("checkpointer: private disks are local directories, not another store");
  if (options.in_flight == 0) return bad("checkpointer: in_flight must be at least 1");
  if (options.late == LatePolicy::replace && options.in_flight < 2)
    return bad("checkpointer: late=replace needs in_flight >= 2, one of them to be replaced");
  while (options.directory.size() > 1 && options.directory.ends_with('/'))
    options.directory.pop_back();
  if (options.coordinator == nullptr) options.coordinator = make_single_coordinator();
  if (options.ops == nullptr) options.ops = &posix_file_ops();
  if (options.copy_threads == 0)
    options.copy_threads = std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
  if (options.copier == nullptr) options.copier = make_host_copier(options.copy_threads);
  auto core = std::make_shared<Core>(std::move(options));
  STOKER_TRY(core->start());
  return std::unique_ptr<CheckpointSaver>(new CheckpointSaver(std::move(core)));
}

CheckpointSaver::CheckpointSaver(std::shared_ptr<Core> core) : core_(std::move(core)) {}

CheckpointSaver::~CheckpointSaver() {
  // The writer's thread does not exist in a forked child and cannot be joined there.
  if (guard_.is_here())
    static_cast<void>(close());
  else if (core_ != nullptr)
    core_->keep(core_);
}

std::shared_ptr<CheckpointSaver::Core> CheckpointSaver::core() const {
  const MutexLock lock(mutex_);
  return core_;
}

void CheckpointSaver::forget_core() {
  const MutexLock lock(mutex_);
  core_ = nullptr;
}

Result<PendingSave> CheckpointSaver::save(SaveRequest request) {
  STOKER_TRY(guard_.check("a checkpointer"));
  const std::shared_ptr<Core> core = this->core();
  if (core == nullptr) return Status(Code::invalid_argument, "this checkpointer was closed");
  return core->save(std::move(request));
}

Status CheckpointSaver::wait(nanoseconds timeout) {
  STOKER_TRY(guard_.check("a checkpointer"));
  const std::shared_ptr<Core> core = this->core();
  return core == nullptr ? Status() : core->wait(deadline_after(timeout));
}

Status CheckpointSaver::close(nanoseconds timeout) {
  STOKER_TRY(guard_.check("a checkpointer"));
  const std::shared_ptr<Core> core = this->core();
  if (core == nullptr) return {};
  const Deadline deadline = deadline_after(timeout);
  const bool is_idle = core->await_idle(deadline);
  Status error = core->take_error();
  forget_core();
  if (is_idle) {
    core->close();
    return error;
  }
  core->keep(core);  // its threads use it
  return error.ok() ? Status(Code::unavailable, "close: a save was still in flight") : error;
}

SaveProgress CheckpointSaver::progress() const {
  if (!guard_.is_here()) return {};
  const std::shared_ptr<Core> core = this->core();
  return core == nullptr ? SaveProgress() : core->progress();
}

}  // namespace stoker
