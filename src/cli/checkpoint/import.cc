#include "cli/checkpoint/import.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <memory>
#include <span>
#include <stop_token>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "checkpoint/staging/stoppable_engine.h"
#include "cli/engine_choice.h"
#include "cli/line_text.h"
#include "cli/work_progress.h"
#include "formats/json/json.h"
#include "io/files/exact_transfer.h"
#include "io/files/file_ops.h"
#include "io/files/regular_file.h"
#include "stoker/safetensors.h"
#include "stoker/version.h"

namespace stoker::cli {
namespace {

constexpr std::uint64_t kMemoryBytes = std::uint64_t{256} << 20;
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kReadThreads = 8;  // they mostly wait for the disk

/// A writer of checkpoints removes leftovers from its directory, so the directory must be empty,
/// new or have checkpoints.
Status check_directory(const ImportRequest& request) {
  FileOps& ops = posix_file_ops();
  struct stat info{};
  if (::stat(request.directory.c_str(), &info) == 0 && !S_ISDIR(info.st_mode))
    return Status(Code::invalid_argument,
                  fmt::format("{}: a file; the directory for the checkpoint comes first, then the "
                              "file to import: stoker checkpoint import {} {} --step {}",
                              request.directory, request.file, request.directory, request.step));
  const Result<std::vector<std::string>> names = ops.list(request.directory);
  if (!names.ok()) return names.status().code() == Code::not_found ? Status() : names.status();
  const bool is_ours = std::ranges::any_of(*names, [](const std::string& name) {
    return name == kLockName || parse_step_name(name).has_value();
  });
  if (!is_ours && !names->empty())
    return Status(Code::invalid_argument, request.directory +
                                              ": has files but no checkpoints; name a "
                                              "new directory or one with checkpoints");
  const std::string name = step_name(request.step);
  if (std::ranges::find(*names, name) == names->end()) return {};
  return Status(Code::already_exists,
                fmt::format("{}/{}: the checkpoint exists already; choose another --step",
                            request.directory, name));
}

/// The file that is imported. Uses read() and not mmap(): if the file is truncated, access to a
/// mapping would kill the process.
///
/// Thread safety: const methods from any thread.
class Source {
 public:
  static Result<std::unique_ptr<Source>> open(const std::string& path) {
    STOKER_ASSIGN(UniqueFd fd, open_regular(posix_file_ops(), path));
    struct stat info{};
    if (::fstat(fd.get(), &info) != 0) return Status::from_errno(errno, "stat", path);
    static_cast<void>(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL));
    return std::make_unique<Source>(path, std::move(fd), static_cast<std::uint64_t>(info.st_size));
  }
  Source(std::string path, UniqueFd fd, std::uint64_t size_bytes)
      : path_(std::move(path)), fd_(std::move(fd)), size_bytes_(size_bytes) {}

  Result<SafetensorsHeader> read_header() const {
    std::vector<std::byte> bytes(kLengthBytes);
    if (size_bytes_ < bytes.size())
      return Status(Code::corrupt, fmt::format("{} bytes are not a safetensors file", size_bytes_));
    STOKER_TRY(read_exactly(fd_.get(), 0, bytes, path_));
    STOKER_ASSIGN(const std::uint64_t header_bytes, safetensors_header_bytes(bytes, size_bytes_));
    bytes.resize(header_bytes);
    STOKER_TRY(read_exactly(fd_.get(), 0, bytes, path_));
    return parse_safetensors(bytes, size_bytes_);
  }

  Status read(std::uint64_t offset_bytes, std::span<std::byte> out) const {
    return read_exactly(fd_.get(), offset_bytes, out, path_);
  }

 private:
  const std::string path_;
  const UniqueFd fd_;
  const std::uint64_t size_bytes_;
};

/// The tree is a keyword in a Python call, so it must be a valid name.
Status check_tree(const std::string& tree) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const bool is_word =
      !tree.empty() && is_letter(tree.front()) &&
      std::ranges::all_of(tree, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
  // Names that are settings in Python; a Python test compares the two lists.
  constexpr std::array kTaken = {
      "allow",        "assign",        "blocking",  "close_timeout", "deadline",  "dedup",
      "device",       "device_memory", "disks",     "extra",         "finite",    "force",
      "in_flight",    "job",           "keep_best", "keep_every",    "keep_last", "late",
      "loader",       "lock",          "lock_ttl",  "map_location",  "meeting",   "memory_bytes",
      "non_blocking", "only",          "overwrite", "partial",       "path",      "rank",
      "rate_limit",   "reference",     "self",      "stage",         "step",      "streams",
      "strict",       "sync",          "timeout",   "verify",        "wait",      "weights_only",
      "world_size"};
  if (std::ranges::find(kTaken, tree) != kTaken.end())
    return Status(Code::invalid_argument,
                  "--as " + tree + ": in Python that is a setting, and no name for a tree");
  if (is_word) return {};
  return Status(Code::invalid_argument,
                "--as " + printable(tree) + ": a name of letters, digits and '_' is needed");
}

/// Returns the state: one tree, a dict of tensors by name, in the form of
/// docs/formats/checkpoint.md.
std::string state_of(const SafetensorsHeader& header, const std::string& tree) {
  const bool is_plain = std::ranges::none_of(
      header.entries, [](const SafetensorsEntry& entry) { return entry.name.starts_with('!'); });
  Json members = is_plain ? Json::object() : Json::array();
  for (const SafetensorsEntry& entry : header.entries) {
    Json leaf = {{"!tensor", tree + "." + entry.name}};
    if (is_plain) {
      members[entry.name] = std::move(leaf);
      continue;
    }
    Json& pair = members.push_back(Json::array());
    pair.push_back(entry.name);
    pair.push_back(std::move(leaf));
  }
  if (!is_plain) members = Json{{"!dict", std::move(members)}};
  return to_line({{tree, std::move(members)}});
}

std::string extra_of(const SafetensorsHeader& header, const std::string& file) {
  Json metadata = Json::object();
  for (const auto& [key, value] : header.metadata) metadata[key] = value;
  return to_line(
      {{"imported_from", file.substr(file.rfind('/') + 1)}, {"metadata", std::move(metadata)}});
}

/// Shows the progress of the writer while the caller waits for it.
///
/// Thread safety: none.
class ShownSave {
 public:
  ShownSave(const CheckpointSaver& saver, Context& context)
      : saver_(saver), line_(context, "importing", "bytes"), drawer_([this] { draw(); }) {}
  ~ShownSave() {
    {
      const MutexLock lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
  }

 private:
  void draw() {
    for (bool is_over = false; !is_over;) {
      const SaveProgress now = saver_.progress();
      if (now.size_bytes != 0)
        line_.show(
            {.done = now.written_bytes, .count = now.size_bytes, .bytes = now.written_bytes});
      const Deadline next = deadline_after(std::chrono::milliseconds(200));
      const MutexLock lock(mutex_);
      while (!is_over_ && Clock::now() < next) changed_.wait_until(mutex_, next);
      is_over = is_over_;
    }
  }

  const CheckpointSaver& saver_;
  WorkProgress line_;
  Mutex mutex_;
  Condition changed_;
  bool is_over_ STOKER_GUARDED_BY(mutex_) = false;
  std::jthread drawer_;  // last: it uses the members above
};

Result<std::uint64_t> save(const ImportRequest& request, SaveRequest contents, TensorRead read,
                           Context& context) {
  STOKER_ASSIGN(const EngineKind engine, try_engine());
  STOKER_ASSIGN(const std::unique_ptr<CheckpointSaver> saver,
                CheckpointSaver::make({.directory = request.directory,
                                       .memory_bytes = kMemoryBytes,
                                       .copier = make_reading_copier(kReadThreads, std::move(read)),
                                       .tool = std::string("stoker ") + kVersion,
                                       .engine = make_stoppable_writes(context.stop, engine)}));
  const ShownSave progress(*saver, context);
  const Result<PendingSave> pending = saver->save(std::move(contents));
  const Status saved = pending.ok() ? pending->wait() : pending.status();
  const Status closed = saver->close();
  const bool is_durable = pending.ok() && pending->is_durable();
  if (!is_durable && context.stop.stop_requested())
    return Status(Code::cancelled, "interrupted; nothing was committed");
  STOKER_TRY(saved);
  STOKER_TRY(closed);
  return pending->generation();
}

/// Whether the file is a zip archive or a pickle, by its first bytes.
bool begins_like_torch(const std::string& file) {
  const Result<UniqueFd> fd = open_regular(posix_file_ops(), file);
  std::array<char, 4> head{};
  if (!fd.ok() || ::pread(fd->get(), head.data(), head.size(), 0) != std::ssize(head)) return false;
  const std::string_view begin(head.data(), head.size());
  return begin == "PK\x03\x04" || begin.starts_with("\x80\x02");
}

}  // namespace

Result<bool> is_read_by_torch(const std::string& file) {
  struct stat info{};
  if (::stat(file.c_str(), &info) != 0) return Status::from_errno(errno, "stat", file);
  constexpr std::array kEndings = {".pt", ".pth", ".ckpt", ".bin"};
  if (S_ISDIR(info.st_mode) ||
      std::ranges::any_of(kEndings, [&](const char* ending) { return file.ends_with(ending); }))
    return true;
  return S_ISREG(info.st_mode) && begins_like_torch(file);
}

Status check_import(const ImportRequest& request) {
  if (request.tree) STOKER_TRY(check_tree(*request.tree));
  return check_directory(request);
}

Result<ImportReport> import_safetensors(const ImportRequest& request, Context& context) {
  const std::string tree = request.tree.value_or("state");
  STOKER_ASSIGN(const std::unique_ptr<Source> source, Source::open(request.file));
  const Result<SafetensorsHeader> header = source->read_header();
  if (header.status().code() == Code::corrupt && !request.file.ends_with(".safetensors"))
    return Status(Code::corrupt,
                  fmt::format("{}: neither a safetensors file nor one of torch.save(): {}",
                              request.file, header.status().message()));
  if (!header.ok()) return header.status().with_context(request.file);
  SaveRequest contents{.step = request.step,
                       .tensors = {},
                       .state_json = state_of(*header, tree),
                       .extra_json = extra_of(*header, request.file)};
  ImportReport report{.name = step_name(request.step), .tensor_count = header->entries.size()};
  std::unordered_map<std::string, std::uint64_t> begins;  // in the file, by the tensor's name
  for (const SafetensorsEntry& entry : header->entries) {
    const std::string name = tree + "." + entry.name;
    begins[name] = header->data_offset_bytes + entry.begin_bytes;
    contents.tensors.push_back({.name = name, .type = entry.type, .shape = entry.shape});
    report.size_bytes += entry.end_bytes - entry.begin_bytes;
  }
  const auto read = [&](const SaveTensor& tensor, std::uint64_t at, std::span<std::byte> out) {
    return source->read(begins.at(tensor.name) + at, out);
  };
  STOKER_ASSIGN(report.generation, save(request, std::move(contents), read, context));
  return report;
}

}  // namespace stoker::cli
