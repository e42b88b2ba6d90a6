#include "stoker/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "api/border.h"
#include "api/cursor_tree.h"
#include "api/model_files.h"
#include "api/saved_trees.h"
#include "api/tree_json.h"
#include "api/tree_tensors.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/restore/restore_choice.h"
#include "checkpoint/restore/tensor_boxes.h"
#include "checkpoint/restore/tensor_names.h"
#include "formats/plain_name.h"

namespace stoker {

using internal::at_border;
namespace fs = std::filesystem;

/// Thread safety: immutable, except for what is made once.
class Checkpoint::Impl {
 public:
  Impl(CheckpointReader reader, std::string path, bool is_checkpoint)
      : reader_(std::move(reader)),
        path_(std::move(path)),
        is_checkpoint_(is_checkpoint),
        tensors_(reader_.tensors()) {}

  /// Leaves only the tensors with these names.
  void choose(const std::vector<std::pair<std::string, std::size_t>>& names) {
    std::vector<TensorInfo> chosen;
    for (const auto& [name, file] : names) chosen.push_back(*reader_.find(name));
    tensors_ = std::move(chosen);
  }

  const CheckpointReader& reader() const noexcept { return reader_; }
  const CheckpointManifest& manifest() const noexcept { return reader_.manifest(); }
  const std::string& path() const noexcept { return path_; }
  bool is_checkpoint() const noexcept { return is_checkpoint_; }
  const std::vector<TensorInfo>& tensors() const noexcept { return tensors_; }
  const std::shared_ptr<DeviceReadMemory>& memory() const noexcept { return memory_; }

  const TensorInfo* find(std::string_view name) const {
    const auto found = std::ranges::lower_bound(tensors_, name, {}, &TensorInfo::name);
    if (found != tensors_.end() && found->name == name) return &*found;
    if (!is_checkpoint_) return nullptr;
    std::call_once(named_once_, [this] {
      for (const NamedTensor& named : name_tensors(reader_, 0)) {
        const auto stored =
            std::ranges::lower_bound(tensors_, named.tensor->name, {}, &TensorInfo::name);
        named_.emplace(named.name, &*stored);
      }
    });
    const auto named = named_.find(name);
    return named == named_.end() ? nullptr : named->second;
  }

  Result<const TensorInfo*> get(std::string_view name) const {
    const TensorInfo* const found = find(name);
    if (found == nullptr)
      return Status(Code::not_found, path_ + ": there is no tensor " + std::string(name));
    return found;
  }

 private:
  static constexpr std::uint64_t kMemoryBytes = std::uint64_t{128} << 20;

  const CheckpointReader reader_;
  const std::string path_;
  const bool is_checkpoint_;
  std::vector<TensorInfo> tensors_;  // sorted by name
  const std::shared_ptr<DeviceReadMemory> memory_ =
      std::make_shared<DeviceReadMemory>(kMemoryBytes);
  mutable std::once_flag named_once_;
  mutable std::map<std::string, const TensorInfo*, std::less<>> named_;
};

namespace {

/// Returns the path with the name of a step in place of its number: "run/20".
std::string with_step_name(const std::string& path) {
  const std::string last = path.substr(path.rfind('/') + 1);
  std::error_code error;
  const bool is_number = !last.empty() && last.size() <= 19 &&
                         last.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number || fs::exists(fs::symlink_status(path, error))) return path;
  return path.substr(0, path.size() - last.size()) + step_name(std::stoull(last));
}

/// Whether a directory has checkpoints in it, or is to have some.
bool has_checkpoints(const std::string& directory) {
  std::error_code error;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name == kLatestName || name.starts_with("step-")) return true;
  }
  return false;
}

Result<CheckpointReader> open_newest(const std::string& directory,
                                     const CheckpointReader::Options& options) {
  STOKER_ASSIGN(const CheckpointDirectory opened,
                CheckpointDirectory::open(posix_file_ops(), directory));
  std::optional<CheckpointReader> found;
  STOKER_ASSIGN(const RestoreChoice choice,
                choose_checkpoint({.directory = opened, .reader = options},
                                  [&](const CheckpointReader& reader) {
                                    found = reader;
                                    return Status();
                                  }));
  if (!found) return Status(Code::not_found, "no checkpoints in " + directory);
  return *std::move(found);
}

Result<CheckpointReader> open_checkpoint(const std::string& given,
                                         const CheckpointReader::Options& options) {
  const std::string path = with_step_name(given);
  const std::string last = path.substr(path.rfind('/') + 1);
  std::error_code error;
  if (last == kLatestName)
    return open_newest(
        fs::path(path).has_parent_path() ? fs::path(path).parent_path().string() : std::string("."),
        options);
  if (fs::is_directory(path, error) && !fs::exists(path + "/" + std::string(kManifestName)) &&
      !parse_step_name(last)) {
    if (!has_checkpoints(path)) return Status(Code::not_found, "no checkpoints in " + path);
    return open_newest(path, options);
  }
  if (is_dataset(posix_file_ops(), path))
    return Status(Code::invalid_argument, path + ": it is a dataset, and not a checkpoint");
  return CheckpointReader::open(posix_file_ops(), path, options);
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& path, const CheckpointOpenOptions& options) {
  return at_border([&]() -> Result<Checkpoint> {
    std::string plain = path;
    while (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
    if (plain.empty()) return Status(Code::invalid_argument, "an empty path names no checkpoint");
    const CheckpointReader::Options reading{.file = {.policy = options.cache},
                                            .thread_count = options.thread_count,
                                            .depth = options.depth};
    STOKER_ASSIGN(const std::optional<internal::ModelFiles> files,
                  internal::find_model_files(plain));
    if (!files) {
      STOKER_ASSIGN(CheckpointReader reader, open_checkpoint(plain, reading));
      std::string directory = reader.directory();
      return Checkpoint(
          std::make_shared<const Impl>(std::move(reader), std::move(directory), true));
    }
    STOKER_ASSIGN(CheckpointReader reader,
                  CheckpointReader::open_plain(posix_file_ops(), files->paths, reading));
    STOKER_TRY(internal::check_index(*files, reader));
    auto impl = std::make_shared<Impl>(std::move(reader), plain, false);
    if (!files->names.empty()) impl->choose(files->names);
    return Checkpoint(std::move(impl));
  });
}

Result<std::vector<ListedCheckpoint>> Checkpoint::list(const std::string& directory) {
  return at_border([&]() -> Result<std::vector<ListedCheckpoint>> {
    STOKER_ASSIGN(const CheckpointDirectory opened,
                  CheckpointDirectory::open(posix_file_ops(), directory));
    STOKER_ASSIGN(const Catalog catalog, list_checkpoints(opened));
    std::vector<ListedCheckpoint> listed;
    for (const CatalogStep& step : catalog.steps)
      listed.push_back({.name = step.name,
                        .step = step.parsed.step,
                        .generation = step.generation,
                        .line = step.is_valid() ? step.summary->line : std::string(),
                        .is_superseded = step.is_superseded(),
                        .problem = step.problem});
    return listed;
  });
}

Checkpoint::Checkpoint(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::Checkpoint(const Checkpoint& other) = default;
Checkpoint::Checkpoint(Checkpoint&& other) noexcept = default;
Checkpoint& Checkpoint::operator=(const Checkpoint& other) = default;
Checkpoint& Checkpoint::operator=(Checkpoint&& other) noexcept = default;
Checkpoint::~Checkpoint() = default;

const std::string& Checkpoint::path() const noexcept {
  return impl_->path();
}

bool Checkpoint::has_checksums() const noexcept {
  return impl_->is_checkpoint();
}

std::span<const TensorInfo> Checkpoint::tensors() const noexcept {
  return impl_->tensors();
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  return impl_->find(name);
}

Status Checkpoint::read(std::span<const ReadTarget> targets,
                        const std::vector<DeviceStream>& streams, std::stop_token stop) const {
  return at_border([&]() -> Status {
    CheckpointReader::ReadOptions options{.stop = std::move(stop)};
    for (const DeviceStream& stream : streams)
      options.devices.streams.emplace_back(stream.device, stream.handle);
    options.devices.memory = impl_->memory();
    std::vector<ReadTarget> stored(targets.begin(), targets.end());
    for (ReadTarget& target : stored) {
      STOKER_ASSIGN(const TensorInfo* const tensor, impl_->get(target.name));
      target.name = tensor->name;
    }
    return impl_->reader().read_all(stored, options);
  });
}

Status Checkpoint::read(std::string_view name, std::span<std::byte> memory) const {
  return at_border([&]() -> Status {
    STOKER_ASSIGN(const TensorInfo* const tensor, impl_->get(name));
    if (memory.size() != tensor->size_bytes)
      return Status(Code::invalid_argument,
                    std::string(name) + ": it has " + std::to_string(tensor->size_bytes) +
                        " bytes, and the memory " + std::to_string(memory.size()));
    return impl_->reader().read({.name = tensor->name, .memory = memory});
  });
}

Status Checkpoint::read(std::string_view name, std::vector<std::uint64_t> offsets,
                        std::vector<std::uint64_t> shape, std::span<std::byte> memory) const {
  return at_border([&]() -> Status {
    STOKER_ASSIGN(const TensorInfo* const tensor, impl_->get(name));
    return impl_->reader().read({.name = tensor->name,
                                 .offsets = std::move(offsets),
                                 .shape = std::move(shape),
                                 .memory = memory});
  });
}

Status Checkpoint::check_type(std::string_view name, TensorType type,
                              std::uint64_t& size_bytes) const {
  return at_border([&]() -> Status {
    STOKER_ASSIGN(const TensorInfo* const tensor, impl_->get(name));
    if (tensor->type != type)
      return Status(Code::invalid_argument, std::string(name) + ": its elements are " +
                                                std::string(tensor_type_name(tensor->type)) +
                                                ", not " + std::string(tensor_type_name(type)));
    size_bytes = tensor->size_bytes;
    return {};
  });
}

Result<Digest128> Checkpoint::digest(std::string_view name) const {
  return at_border([&]() -> Result<Digest128> {
    STOKER_ASSIGN(const TensorInfo* const tensor, impl_->get(name));
    return impl_->reader().digest_of(*tensor);
  });
}

Status Checkpoint::verify(std::stop_token stop) const {
  return at_border([&]() -> Status {
    if (!has_checksums())
      return Status(Code::unsupported, path() + ": safetensors files have no checksums");
    // A few pieces at once, so that several chunks are in flight.
    constexpr std::uint64_t kPieceBytes = std::uint64_t{16} << 20;
    constexpr std::uint64_t kTogetherBytes = 4 * kPieceBytes;
    std::vector<std::vector<std::byte>> memory;
    std::vector<ReadTarget> targets;
    std::uint64_t size_bytes = 0;
    const auto read_them = [&]() -> Status {
      STOKER_TRY(impl_->reader().read_all(targets, {.stop = stop}));
      targets.clear();
      memory.clear();
      size_bytes = 0;
      return {};
    };
    for (const TensorInfo& tensor : tensors()) {
      const auto read_box = [&](const TensorBox& box) -> Status {
        memory.emplace_back(box.size_bytes);
        targets.push_back({.name = tensor.name,
                           .offsets = box.offsets,
                           .shape = box.shape,
                           .memory = memory.back()});
        size_bytes += box.size_bytes;
        return size_bytes < kTogetherBytes ? Status() : read_them();
      };
      STOKER_TRY(for_each_box(tensor.type, tensor.shape, kPieceBytes, read_box));
    }
    return read_them();
  });
}

std::optional<std::uint64_t> Checkpoint::step() const noexcept {
  return impl_->is_checkpoint() ? std::optional(impl_->manifest().step) : std::nullopt;
}

std::uint64_t Checkpoint::generation() const noexcept {
  return impl_->manifest().generation;
}

const std::string& Checkpoint::line() const noexcept {
  return impl_->manifest().line;
}

std::uint32_t Checkpoint::world_size() const noexcept {
  return impl_->manifest().world_size;
}

double Checkpoint::time_s() const noexcept {
  return impl_->manifest().time_s;
}

const std::map<std::string, double>& Checkpoint::reference() const noexcept {
  return impl_->manifest().reference;
}

Result<Tree> Checkpoint::trees(std::uint32_t rank) const {
  return at_border([&]() -> Result<Tree> {
    if (impl_->is_checkpoint() && rank >= world_size())
      return Status(Code::invalid_argument, path() + ": rank " + std::to_string(rank) + " of " +
                                                std::to_string(world_size()));
    return internal::trees_of_rank(impl_->reader(), rank);
  });
}

Result<Tree> Checkpoint::extra() const {
  return at_border(
      [&] { return internal::read_tree(impl_->manifest().extra_json, path() + ": extra"); });
}

Result<std::optional<Cursor>> Checkpoint::cursor() const {
  return at_border([&] {
    return internal::read_cursor_tree(impl_->manifest().cursor_json,
                                      path() + ": the loader's state");
  });
}

}  // namespace stoker
