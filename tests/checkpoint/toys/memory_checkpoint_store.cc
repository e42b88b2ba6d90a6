#include "checkpoint/toys/memory_checkpoint_store.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/token.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/toys/memory_writer.h"

namespace stoker::testing {
namespace {

constexpr std::string_view kNotesPrefix = "notes/";

std::string note_key(std::uint64_t step) {
  return std::string(kNotesPrefix) + std::to_string(step);
}

/// "a/b" of "data/a/b/c"
std::string staging_of(const std::string& key) {
  const std::size_t begin = key.find('/') + 1;
  return key.substr(begin, key.rfind('/') - begin);
}

class MemoryStep final : public OpenStep {
 public:
  MemoryStep(std::shared_ptr<MemoryBucket> bucket, std::string path, std::string staging)
      : bucket_(std::move(bucket)), path_(std::move(path)), staging_(std::move(staging)) {}

  const std::string& path() const noexcept override { return path_; }
  Result<CheckpointManifest> read_manifest() const override {
    STOKER_ASSIGN(const MemoryBucket::Object object,
                  bucket_->get(data_key(staging_, kManifestName)));
    return parse_checkpoint_manifest(*object.bytes, path_);
  }
  Result<std::vector<std::string>> list_files() const override {
    STOKER_ASSIGN(std::vector<std::string> keys, bucket_->list(data_key(staging_, "")));
    for (std::string& key : keys) key = key.substr(data_key(staging_, "").size());
    return keys;
  }
  Result<FileInfo> find_file(std::string_view name) const override {
    STOKER_ASSIGN(const MemoryBucket::Object object, bucket_->get(data_key(staging_, name)));
    return info_of(object);
  }
  std::shared_ptr<StoredFiles> files(const std::vector<CheckpointFile>& files,
                                     const File::Options& options) const override;

 private:
  const std::shared_ptr<MemoryBucket> bucket_;
  const std::string path_;
  const std::string staging_;
};

/// Kept in memory once open_all() was called, as files are that are open.
class MemoryFiles final : public StoredFiles {
 public:
  MemoryFiles(std::shared_ptr<MemoryBucket> bucket, std::string staging,
              std::vector<CheckpointFile> files)
      : bucket_(std::move(bucket)), staging_(std::move(staging)), files_(std::move(files)) {}

  Status open_all() override {
    for (std::uint32_t i = 0; i < files_.size(); ++i) {
      STOKER_ASSIGN(const MemoryBucket::Object object, bucket_->get(key_of(i)));
      if (object.bytes->size() != files_[i].size_bytes)
        return Status(Code::corrupt, key_of(i) + ": the object has another size");
      kept_.push_back(object);
    }
    return {};
  }
  Status read(std::span<const ChunkRead> reads, ChunkHandler& handler,
              const ChunkReadOptions& options) override {
    for (std::size_t i = 0; i < reads.size(); ++i) {
      if (options.stop.stop_requested()) return Status(Code::cancelled, "read: stopped");
      const ChunkRead& read = reads[i];
      const Result<MemoryBucket::Object> object =
          read.file < kept_.size() ? kept_[read.file] : bucket_->get(key_of(read.file));
      if (!object.ok()) {
        STOKER_TRY(handler.chunk_failed(i, object.status()));
        continue;
      }
      const auto bytes = std::as_bytes(std::span(*object->bytes));
      STOKER_TRY(handler.chunk_read(i, bytes.subspan(read.offset_bytes, read.size_bytes)));
    }
    return {};
  }
  std::string path_of(std::uint32_t index) const override { return key_of(index); }

 private:
  std::string key_of(std::uint32_t index) const { return data_key(staging_, files_[index].name); }

  const std::shared_ptr<MemoryBucket> bucket_;
  const std::string staging_;
  const std::vector<CheckpointFile> files_;
  std::vector<MemoryBucket::Object> kept_;
};

std::shared_ptr<StoredFiles> MemoryStep::files(const std::vector<CheckpointFile>& files,
                                               const File::Options& /*options*/) const {
  return std::make_shared<MemoryFiles>(bucket_, staging_, files);
}

}  // namespace

std::string data_key(const std::string& staging, std::string_view file) {
  return "data/" + staging + "/" + std::string(file);
}

std::string part_key(const std::string& staging, std::uint32_t rank) {
  return "parts/" + staging + "/" + part_name(rank);
}

FileInfo info_of(const MemoryBucket::Object& object) {
  return {.kind = FileKind::regular,
          .inode = object.version,
          .link_count = 1,
          .size_bytes = object.bytes->size()};
}

std::shared_ptr<const CheckpointStore> MemoryCheckpointStore::share() const {
  return std::make_shared<const MemoryCheckpointStore>(*this);
}

Result<std::uint64_t> MemoryCheckpointStore::free_bytes() const {
  return Status(Code::unsupported, "a bucket has no end");
}

Result<MemoryLog::Step> MemoryCheckpointStore::look_up(std::string_view name) const {
  STOKER_ASSIGN(const MemoryLog::State state, log_->read());
  const auto found = state.visible.find(std::string(name));
  if (found != state.visible.end()) return found->second;
  return Status(Code::not_found, path_ + "/" + std::string(name) + ": not there");
}

Result<std::vector<StoredStep>> MemoryCheckpointStore::list_steps() const {
  STOKER_ASSIGN(const MemoryLog::State state, log_->read());
  std::vector<StoredStep> steps;
  for (const auto& [name, step] : state.visible) steps.push_back({.name = name, .id = step.id});
  return steps;
}

Result<StoredStep> MemoryCheckpointStore::find_step(std::string_view name) const {
  STOKER_ASSIGN(const MemoryLog::Step step, look_up(name));
  return StoredStep{.name = std::string(name), .id = step.id};
}

Result<FileInfo> MemoryCheckpointStore::find_manifest(std::string_view step) const {
  STOKER_ASSIGN(const MemoryLog::Step found, look_up(step));
  STOKER_ASSIGN(const MemoryBucket::Object object,
                bucket_->get(data_key(found.staging, kManifestName)));
  return info_of(object);
}

Result<CheckpointManifest> MemoryCheckpointStore::read_manifest(std::string_view step) const {
  STOKER_ASSIGN(const std::unique_ptr<OpenStep> open, open_step(step));
  return open->read_manifest();
}

Result<std::unique_ptr<OpenStep>> MemoryCheckpointStore::open_step(std::string_view name) const {
  STOKER_ASSIGN(const MemoryLog::Step step, look_up(name));
  return std::unique_ptr<OpenStep>(
      std::make_unique<MemoryStep>(bucket_, path_ + "/" + std::string(name), step.staging));
}

Result<std::vector<ForeignName>> MemoryCheckpointStore::find_foreign_names() const {
  return std::vector<ForeignName>();
}

Result<std::vector<std::uint64_t>> MemoryCheckpointStore::list_notes() const {
  STOKER_ASSIGN(const std::vector<std::string> keys, bucket_->list(std::string(kNotesPrefix)));
  std::vector<std::uint64_t> steps;
  for (const std::string& key : keys) steps.push_back(std::stoull(key.substr(kNotesPrefix.size())));
  std::ranges::sort(steps);
  return steps;
}

Result<FileInfo> MemoryCheckpointStore::find_note(std::uint64_t step) const {
  STOKER_ASSIGN(const MemoryBucket::Object object, bucket_->get(note_key(step)));
  return info_of(object);
}

Result<std::string> MemoryCheckpointStore::read_note(std::uint64_t step) const {
  STOKER_ASSIGN(const MemoryBucket::Object object, bucket_->get(note_key(step)));
  return *object.bytes;
}

Status MemoryCheckpointStore::update_note(std::uint64_t step, const NoteChange& change,
                                          const std::function<Status()>& check) const {
  for (;;) {  // ends: each time somebody else has changed it
    const Result<MemoryBucket::Object> before = bucket_->get(note_key(step));
    if (!before.ok() && before.status().code() != Code::not_found) return before.status();
    std::optional<std::string> present;
    if (before.ok()) present = *before->bytes;
    STOKER_ASSIGN(const std::string text, change(present));
    STOKER_ASSIGN(const bool is_put,
                  before.ok() ? bucket_->put_if_version(note_key(step), before->version, text)
                              : bucket_->put_if_absent(note_key(step), text));
    if (is_put) return check();
  }
}

std::string MemoryCheckpointStore::note_path_of(std::uint64_t step) const {
  return path_ + "/" + note_key(step);
}

// Whoever holds the lock is watched until the ttl has passed without a sign of life, of which there
// are none here. Then the next entry of the log is a lock of ours, unless somebody was faster.
Result<std::unique_ptr<StoreLock>> MemoryCheckpointStore::lock(const LockOptions& options) const {
  const auto now = [&] { return options.now ? options.now() : Clock::now(); };
  const Deadline deadline = deadline_after(options.timeout, now());
  const std::string token = make_token();
  const std::string who =
      "job " + options.job + " on " + (options.machine ? options.machine->host : "this machine");
  for (;;) {
    STOKER_ASSIGN(const MemoryLog::State seen, log_->read());
    const Deadline dead_at = deadline_after(options.ttl, now());
    while (!seen.holder.empty() && now() < dead_at) {
      STOKER_ASSIGN(const MemoryLog::State again, log_->read());
      if (again.next != seen.next) break;
      if (now() >= deadline)
        return Status(Code::unavailable,
                      "lock " + path_ + ": another writer holds it: " + seen.who);
      const nanoseconds wait = std::min(options.ttl / 8, time_left(deadline, now()));
      if (options.pause)
        options.pause(wait);
      else
        std::this_thread::yield();
    }
    const auto is_as_seen = [&](const MemoryLog::State& state) {
      return state.next == seen.next ? Status() : Status(Code::cancelled, "look again");
    };
    const Status taken = log_->append({"lock", token, who}, is_as_seen);
    if (taken.code() == Code::cancelled) continue;
    STOKER_TRY(taken);
    STOKER_TRY(sweep(token));
    return std::unique_ptr<StoreLock>(std::make_unique<MemoryLock>(*this, token));
  }
}

// What a dead writer has put out of sight is given back: retention decides anew. What it has staged
// and not committed, or dropped and not removed, goes. Keys are listed before the log is read: if
// the lock is still ours then, none of them is of a writer after us.
Status MemoryCheckpointStore::sweep(const std::string& token) const {
  const auto always = [](const MemoryLog::State&) { return Status(); };
  STOKER_ASSIGN(const MemoryLog::State before, log_->read());
  for (const auto& [name, step] : before.hidden)
    STOKER_TRY(log_->append_as(token, {"show", name}, always));
  STOKER_ASSIGN(std::vector<std::string> keys, bucket_->list("data/"));
  STOKER_ASSIGN(const std::vector<std::string> parts, bucket_->list("parts/"));
  STOKER_ASSIGN(const MemoryLog::State state, log_->read());
  if (state.holder != token) return Status(Code::unavailable, path_ + ": " + state.who);
  std::erase_if(keys, [&](const std::string& key) { return state.is_committed(staging_of(key)); });
  for (const std::string& key : keys) STOKER_TRY(bucket_->remove(key));
  for (const std::string& key : parts) STOKER_TRY(bucket_->remove(key));
  return {};
}

std::unique_ptr<CheckpointWriter> MemoryCheckpointStore::make_writer(const StoreLock& lock) const {
  return std::make_unique<MemoryWriter>(*this, lock.token());
}

std::unique_ptr<StagedPart> MemoryCheckpointStore::make_part(StageRequest request) const {
  return std::make_unique<MemoryPart>(*this, std::move(request));
}

Result<CheckpointPart> MemoryCheckpointStore::read_part(const std::string& staging,
                                                        std::uint32_t rank) const {
  const std::string key = part_key(staging, rank);
  STOKER_ASSIGN(const MemoryBucket::Object object, bucket_->get(key));
  return parse_checkpoint_part(*object.bytes, key);
}

Abandoned MemoryCheckpointStore::abandon(const std::string& staging) const {
  const Result<std::vector<std::string>> parts = bucket_->list("parts/" + staging + "/");
  if (!parts.ok()) return Abandoned::unknown;
  const Status told = log_->append({"abandon", staging}, [&](const MemoryLog::State& state) {
    return parts->empty() || state.is_committed(staging) ? Status(Code::not_found, staging)
                                                         : Status();
  });
  if (told.ok()) return Abandoned::done;
  return told.code() == Code::not_found ? Abandoned::not_there : Abandoned::unknown;
}

bool MemoryCheckpointStore::is_abandoned(const std::string& staging) const {
  const Result<MemoryLog::State> state = log_->read();
  return state.ok() && state->abandoned.contains(staging);
}

}  // namespace stoker::testing
