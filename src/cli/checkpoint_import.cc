#include "cli/checkpoint_import.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "checkpoint/checkpointer.h"
#include "checkpoint/names.h"
#include "checkpoint/stoppable_engine.h"
#include "cli/sample_text.h"
#include "cli/work_progress.h"
#include "formats/safetensors.h"
#include "io/mapped_file.h"
#include "stoker/version.h"

namespace stoker::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kMemoryBytes = std::uint64_t{256} << 20;
constexpr std::size_t kLengthBytes = 8;

Status check_kind(const std::string& file) {
  struct stat info{};
  if (::stat(file.c_str(), &info) != 0) return Status::from_errno(errno, "stat", file);
  if (S_ISDIR(info.st_mode))
    return Status(Code::invalid_argument,
                  file +
                      ": a directory. Distributed checkpoints of torch are pickles in part and "
                      "are read by torch alone: load one there and save it with "
                      "stoker.Checkpointer");
  for (const char* const ending : {".pt", ".pth", ".ckpt", ".bin"}) {
    if (file.ends_with(ending))
      return Status(Code::invalid_argument,
                    file +
                        ": a pickle, which stoker does not open. In Python: torch.load(file, "
                        "weights_only=True), then stoker.Checkpointer(DIR).save()");
  }
  if (S_ISREG(info.st_mode)) return {};
  return Status(Code::invalid_argument, file + ": not a regular file");
}

/// Whoever writes checkpoints sweeps `owner-*` and `.trash-*`: not in just any directory.
Status check_directory(const ImportRequest& request) {
  FileOps& ops = posix_file_ops();
  const Result<std::vector<std::string>> names = ops.list(request.directory);
  if (!names.ok()) return names.status().code() == Code::not_found ? Status() : names.status();
  const bool is_ours = std::ranges::any_of(*names, [](const std::string& name) {
    return name == kLockName || parse_step_name(name).has_value();
  });
  if (!is_ours && !names->empty())
    return Status(Code::invalid_argument,
                  request.directory +
                      ": there are files, and no checkpoints among them; name a "
                      "new directory or one with checkpoints");
  const std::string name = step_name(request.step);
  if (std::ranges::find(*names, name) == names->end()) return {};
  return Status(Code::already_exists,
                fmt::format("{}/{}: there is such a checkpoint; choose another --step",
                            request.directory, name));
}

Result<SafetensorsHeader> read_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes)
    return Status(Code::corrupt, fmt::format("{} bytes are no safetensors file", bytes.size()));
  STOKER_ASSIGN(const std::uint64_t header_bytes,
                safetensors_header_bytes(bytes.first(kLengthBytes), bytes.size()));
  return parse_safetensors(bytes.first(header_bytes), bytes.size());
}

/// The word before '=' in a Python call, so nothing else will do.
Status check_tree(const std::string& tree) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const bool is_word =
      !tree.empty() && is_letter(tree.front()) &&
      std::ranges::all_of(tree, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
  if (is_word) return {};
  return Status(Code::invalid_argument,
                "--as " + printable(tree) + ": a name of letters, digits and '_' is needed");
}

/// One tree, a dict of tensors by name, as docs/formats/checkpoint.md writes it.
std::string state_of(const SafetensorsHeader& header, const std::string& tree) {
  const bool is_plain = std::ranges::none_of(
      header.entries, [](const SafetensorsEntry& entry) { return entry.name.starts_with('!'); });
  ordered_json members = is_plain ? ordered_json::object() : ordered_json::array();
  for (const SafetensorsEntry& entry : header.entries) {
    ordered_json leaf = {{"!tensor", tree + "." + entry.name}};
    if (is_plain)
      members[entry.name] = std::move(leaf);
    else
      members.push_back(ordered_json::array({entry.name, std::move(leaf)}));
  }
  if (!is_plain) members = ordered_json{{"!dict", std::move(members)}};
  return to_line({{tree, std::move(members)}});
}

std::string extra_of(const SafetensorsHeader& header, const std::string& file) {
  ordered_json metadata = ordered_json::object();
  for (const auto& [key, value] : header.metadata) metadata[key] = value;
  return to_line({{"imported_from", file.substr(file.rfind('/') + 1)}, {"metadata", metadata}});
}

/// Draws how far the writer is while the caller waits for it.
///
/// Thread safety: none.
class SaveProgress {
 public:
  SaveProgress(const Checkpointer& saver, Context& context)
      : saver_(saver), line_(context, "importing", "bytes"), drawer_([this] { draw(); }) {}
  ~SaveProgress() {
    {
      const MutexLock lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
  }

 private:
  void draw() {
    for (bool is_over = false; !is_over;) {
      const CheckpointerProgress now = saver_.progress();
      if (now.size_bytes != 0)
        line_.show(
            {.done = now.written_bytes, .count = now.size_bytes, .bytes = now.written_bytes});
      const Deadline next = deadline_after(std::chrono::milliseconds(200));
      const MutexLock lock(mutex_);
      while (!is_over_ && Clock::now() < next) changed_.wait_until(mutex_, next);
      is_over = is_over_;
    }
  }

  const Checkpointer& saver_;
  WorkProgress line_;
  Mutex mutex_;
  Condition changed_;
  bool is_over_ STOKER_GUARDED_BY(mutex_) = false;
  std::jthread drawer_;  // last: it uses the members above
};

Result<std::uint64_t> save(const ImportRequest& request, SaveRequest contents, Context& context) {
  STOKER_ASSIGN(const std::unique_ptr<Checkpointer> saver,
                Checkpointer::make({.directory = request.directory,
                                    .memory_bytes = kMemoryBytes,
                                    .tool = std::string("stoker ") + kVersion,
                                    .engine = make_stoppable_writes(context.stop)}));
  const SaveProgress progress(*saver, context);
  const Result<Pending> pending = saver->save(std::move(contents));
  const Status saved = pending.ok() ? pending->wait() : pending.status();
  const Status closed = saver->close();
  const bool is_durable = pending.ok() && pending->is_durable();
  if (!is_durable && context.stop.stop_requested())
    return Status(Code::cancelled, "interrupted; nothing was committed");
  STOKER_TRY(saved);
  STOKER_TRY(closed);
  return pending->generation();
}

}  // namespace

Result<ImportReport> import_safetensors(const ImportRequest& request, Context& context) {
  STOKER_TRY(check_tree(request.tree));
  STOKER_TRY(check_kind(request.file));
  STOKER_TRY(check_directory(request));
  STOKER_ASSIGN(const MappedFile file, MappedFile::open(request.file, MapAdvice::sequential));
  const Result<SafetensorsHeader> header = read_header(file.bytes());
  if (!header.ok()) return header.status().with_context(request.file);
  SaveRequest contents{.step = request.step,
                       .tensors = {},
                       .state_json = state_of(*header, request.tree),
                       .extra_json = extra_of(*header, request.file)};
  ImportReport report{.name = step_name(request.step), .tensor_count = header->entries.size()};
  const std::span<const std::byte> data = file.bytes().subspan(header->data_offset_bytes);
  for (const SafetensorsEntry& entry : header->entries) {
    contents.tensors.push_back({.name = request.tree + "." + entry.name,
                                .type = entry.type,
                                .shape = entry.shape,
                                .data = data.data() + entry.begin_bytes});
    report.size_bytes += entry.end_bytes - entry.begin_bytes;
  }
  STOKER_ASSIGN(report.generation, save(request, std::move(contents), context));
  return report;
}

}  // namespace stoker::cli
