#include "checkpoint/toys/memory_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "checkpoint/manifest/names.h"

namespace stoker::testing {
namespace {

Status always(const MemoryLog::State& /*state*/) {
  return {};
}

}  // namespace

MemoryLock::~MemoryLock() {
  static_cast<void>(store_.log().append_as(token_, {"release", token_}, always));
}

std::optional<std::string> MemoryLock::find_successor() const {
  const Result<MemoryLog::State> state = store_.log().read();
  if (!state.ok() || state->holder == token_) return std::nullopt;
  return state->who;
}

bool MemoryWriter::is_owner() const {
  const Result<MemoryLog::State> state = store_.log().read();
  return state.ok() && state->holder == token_;
}

std::string MemoryWriter::staging_name(std::uint64_t step, std::uint64_t number) const {
  return token_ + "/" + step_name(step) + "-" + std::to_string(number);
}

// 1. Put the manifest beside the data, where nobody looks.  2. Add the commit to the log, if the
// lock is still ours, the name is free or superseded, and no rank has abandoned the save: that one
// put makes it visible. If its answer is lost, nobody knows whether it did.
Status MemoryWriter::commit(const StepCommit& commit, CommitStage& stage) const {
  stage = CommitStage::staged;
  const std::string name = step_name(commit.manifest.step);
  STOKER_TRY(store_.bucket().put(data_key(commit.staging, kManifestName), commit.manifest_text));
  bool is_sent = false;
  const Status added = store_.log().append_as(
      token_, {"commit", name, std::to_string(commit.manifest.generation), commit.staging},
      [&](const MemoryLog::State& state) {
        if (state.abandoned.contains(commit.staging))
          return Status(Code::not_found, commit.staging + ": a rank has abandoned it");
        const auto present = state.visible.find(name);
        if (present == state.visible.end() || present->second.generation == commit.superseded)
          return Status();
        return Status(Code::already_exists, name + " is there");
      },
      &is_sent);
  if (!added.ok()) {
    if (is_sent) stage = CommitStage::visible;
    return added;
  }
  stage = CommitStage::complete;
  static_cast<void>(remove_all("parts/" + commit.staging + "/"));  // else the next writer does
  return {};
}

Status MemoryWriter::remove_all(const std::string& prefix) const {
  STOKER_ASSIGN(const std::vector<std::string> keys, store_.bucket().list(prefix));
  for (const std::string& key : keys) STOKER_TRY(store_.bucket().remove(key));
  return {};
}

void MemoryWriter::discard_staged(const std::string& staging) const {
  const Result<MemoryLog::State> state = store_.log().read();
  if (!state.ok() || state->is_committed(staging)) return;
  static_cast<void>(remove_all("parts/" + staging + "/"));
  static_cast<void>(remove_all(data_key(staging, "")));
}

// 1. "hide": nobody sees it any more.  2. Ask whether it may go.  3. "drop": it does not come back.
// Or "show", if it may not go.
Result<std::optional<std::string>> MemoryWriter::retire(const Retirement& retirement) const {
  const std::string& name = retirement.name;
  std::string staging;
  STOKER_TRY(store_.log().append_as(token_, {"hide", name}, [&](const MemoryLog::State& state) {
    const auto found = state.visible.find(name);
    if (found == state.visible.end()) return Status(Code::not_found, name + " is not there");
    staging = found->second.staging;
    return Status();
  }));
  const Result<MemoryBucket::Object> object = store_.bucket().get(data_key(staging, kManifestName));
  const Result<CheckpointManifest> manifest = object.ok()
                                                  ? parse_checkpoint_manifest(*object->bytes, name)
                                                  : Result<CheckpointManifest>(object.status());
  if (!retirement.may_go(manifest)) {
    STOKER_TRY(store_.log().append_as(token_, {"show", name}, always));
    return std::optional<std::string>();
  }
  STOKER_TRY(store_.log().append_as(token_, {"drop", name}, always));
  return std::optional<std::string>(staging);
}

Status MemoryWriter::remove(std::string_view condemned) const {
  return remove_all(data_key(std::string(condemned), ""));
}

Status MemoryPart::create(std::uint32_t file) {
  bytes_[file].resize(request_.files[file].size_bytes);
  return {};
}

// A copy on the server: it is there for as long as this checkpoint.
Result<std::optional<FileInfo>> MemoryPart::reuse(std::uint32_t file, const ReuseSource& source) {
  const Result<MemoryLog::Step> step = store_.look_up(source.step);
  if (!step.ok()) return std::optional<FileInfo>();
  const std::string from = data_key(step->staging, source.name);
  const Result<MemoryBucket::Object> object = store_.bucket().get(from);
  if (!object.ok() || !source.is_as_committed(info_of(*object))) return std::optional<FileInfo>();
  STOKER_ASSIGN(const bool is_copied, store_.bucket().copy(from, object->version, key_of(file)));
  if (!is_copied) return std::optional<FileInfo>();
  STOKER_ASSIGN(const MemoryBucket::Object copy, store_.bucket().get(key_of(file)));
  return std::optional<FileInfo>(info_of(copy));
}

Result<bool> MemoryPart::submit(const StagedWrite& write) {
  std::memcpy(bytes_[write.file].data() + write.offset_bytes, write.memory.data(),
              write.size_bytes);
  done_.push_back({.tag = write.tag, .result = static_cast<std::int64_t>(write.size_bytes)});
  return true;
}

Result<std::size_t> MemoryPart::reap(std::span<Completion> out, std::size_t /*count_min*/,
                                     nanoseconds /*timeout*/) {
  const std::size_t count = std::min(out.size(), done_.size());
  std::copy_n(done_.begin(), count, out.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

Result<FileInfo> MemoryPart::finish(std::uint32_t file) {
  STOKER_TRY(store_.bucket().put(key_of(file), std::exchange(bytes_[file], {})));
  const Result<MemoryBucket::Object> object = store_.bucket().get(key_of(file));
  return object.ok() ? info_of(*object) : FileInfo();
}

Status MemoryPart::seal(std::uint32_t rank, const std::string& part_manifest) {
  return store_.bucket().put(part_key(request_.staging, rank), part_manifest);
}

}  // namespace stoker::testing
