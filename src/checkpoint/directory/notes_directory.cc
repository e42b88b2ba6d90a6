#include "checkpoint/directory/notes_directory.h"

#include <fcntl.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/catalog/notes.h"
#include "checkpoint/manifest/names.h"
#include "io/files/publish.h"
#include "io/files/text_file.h"

namespace stoker {
namespace {

std::string notes_lock_path() {
  return std::string(kNotesName) + "/.lock";
}

/// The step of "step-000000000010.json".
std::optional<std::uint64_t> step_of(std::string_view name) {
  constexpr std::string_view kSuffix = ".json";
  if (!name.ends_with(kSuffix)) return std::nullopt;
  const std::optional<StepName> parsed =
      parse_step_name(name.substr(0, name.size() - kSuffix.size()));
  if (!parsed || parsed->superseded_generation) return std::nullopt;
  return parsed->step;
}

/// Returns `status`, but `corrupt` for `invalid_argument`: `notes` is a link or not a directory,
/// which is no fault of the caller's arguments.
Status notes_status(const Status& status, const CheckpointDirectory& directory) {
  if (status.code() != Code::invalid_argument) return status;
  return Status(Code::corrupt, directory.at(kNotesName).text() +
                                   ": not a directory of notes; move it away, then pin again the "
                                   "checkpoints that must stay");
}

Status make_notes_directory(const CheckpointDirectory& directory) {
  Status made = directory.ops().mkdir(directory.at(kNotesName));
  if (!made.ok() && made.code() != Code::already_exists) return made;
  return directory.ops().fsync_dir(directory.self());
}

}  // namespace

Result<std::vector<std::uint64_t>> CheckpointDirectory::list_notes() const {
  const Result<std::vector<DirectoryName>> names = ops_->list_names(at(kNotesName));
  std::vector<std::uint64_t> steps;
  if (names.status().code() == Code::not_found) return steps;
  if (!names.ok()) return notes_status(names.status(), *this);
  for (const DirectoryName& name : *names)
    if (const std::optional<std::uint64_t> step = step_of(name.name)) steps.push_back(*step);
  return steps;
}

Result<FileInfo> CheckpointDirectory::find_note(std::uint64_t step) const {
  return ops_->info_of(at(note_path(step)));
}

Result<std::string> CheckpointDirectory::read_note(std::uint64_t step) const {
  return read_text_file(*ops_, at(note_path(step)), kNoteBytesMax);
}

std::string CheckpointDirectory::note_path_of(std::uint64_t step) const {
  return at(note_path(step)).text();
}

// Holds the lock from reading to renaming, so that no update is lost. Crash points: those of
// publish_file().
Status CheckpointDirectory::update_note(std::uint64_t step, const NoteChange& change,
                                        const std::function<Status()>& check) const {
  constexpr nanoseconds kTimeout = std::chrono::seconds(10);
  STOKER_TRY(make_notes_directory(*this));
  STOKER_ASSIGN(const NotesLock lock, NotesLock::take(*this, kTimeout));
  Result<std::string> before = read_note(step);
  std::optional<std::string> present;
  if (before.ok())
    present = *std::move(before);
  else if (before.status().code() != Code::not_found)
    return before.status();
  STOKER_ASSIGN(const std::string text, change(present));
  STOKER_TRY(publish_file(*ops_, at(note_path(step)), std::as_bytes(std::span(text))));
  return check();
}

Result<NotesLock> NotesLock::take(const CheckpointDirectory& directory, nanoseconds timeout) {
  constexpr nanoseconds kPause = std::chrono::milliseconds(2);
  FileOps& ops = directory.ops();
  const PathAt path = directory.at(notes_lock_path());
  NotesLock lock;
  Result<UniqueFd> fd = ops.open(path, O_RDWR | O_NONBLOCK);
  if (fd.status().code() == Code::not_found) {
    fd = ops.open(path, O_RDWR | O_CREAT | O_EXCL);
    if (fd.status().code() == Code::already_exists) fd = ops.open(path, O_RDWR | O_NONBLOCK);
  }
  if (!fd.ok()) return notes_status(fd.status(), directory);
  const Deadline deadline = deadline_after(timeout);
  for (;;) {
    const Status status = ops.try_lock(fd->get(), LockMode::exclusive);
    if (status.ok()) {
      lock.fd_ = *std::move(fd);
      return lock;
    }
    if (status.code() != Code::unavailable || Clock::now() >= deadline) return lock;
    std::this_thread::sleep_for(kPause);
  }
}

void sweep_staged_notes(const CheckpointDirectory& directory) {
  FileOps& ops = directory.ops();
  const Result<std::vector<DirectoryName>> names = ops.list_names(directory.at(kNotesName));
  if (!names.ok()) return;
  std::vector<std::string> staged;
  for (const DirectoryName& name : *names) {
    const std::size_t mark = name.name.find(".staged-");
    if (name.kind == FileKind::regular && mark != std::string::npos &&
        step_of(std::string_view(name.name).substr(0, mark)))
      staged.push_back(name.name);
  }
  if (staged.empty()) return;
  // Without the lock another process may be about to publish one of them.
  const Result<NotesLock> lock = NotesLock::take(directory, nanoseconds(0));
  if (!lock.ok() || !lock->is_held()) return;
  for (const std::string& name : staged)
    static_cast<void>(ops.unlink(directory.at(kNotesName) / name));
}

}  // namespace stoker
