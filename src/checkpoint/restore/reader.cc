#include "checkpoint/restore/reader.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/directory/step_files.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/manifest/places.h"
#include "checkpoint/restore/tensor_boxes.h"

namespace stoker {

Result<CheckpointReader> CheckpointReader::read_from(const OpenStep& step, const Options& options) {
  CheckpointReader reader;
  reader.options_ = options;
  reader.directory_ = step.path();
  STOKER_ASSIGN(CheckpointManifest manifest, step.read_manifest());
  if (!manifest.places.empty()) {
    STOKER_ASSIGN(const std::vector<std::string> names, step.list_files());
    STOKER_TRY(find_places(manifest, names, step.path()));
  }
  reader.files_ = step.files(manifest.files, options.file);
  STOKER_TRY(reader.files_->open_all());
  reader.manifest_ = std::make_shared<const CheckpointManifest>(std::move(manifest));
  reader.list_tensors();
  return reader;
}

Result<CheckpointReader> CheckpointReader::open(const CheckpointStore& store,
                                                const std::string& name, const Options& options) {
  STOKER_ASSIGN(const std::unique_ptr<OpenStep> step, store.open_step(name));
  STOKER_ASSIGN(CheckpointReader reader, read_from(*step, options));
  const std::optional<StepName> parsed = parse_step_name(name);
  if (parsed && parsed->step != reader.manifest().step)
    return Status(Code::corrupt, step->path() + ": its manifest is that of step " +
                                     std::to_string(reader.manifest().step));
  return reader;
}

Result<CheckpointReader> CheckpointReader::open(FileOps& ops, const std::string& path,
                                                const Options& options) {
  std::string plain = path;
  while (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  const std::string name(PathAt(plain).last());
  if (!parse_step_name(name)) {
    STOKER_ASSIGN(const std::unique_ptr<OpenStep> step, open_step_directory(ops, plain));
    return read_from(*step, options);
  }
  STOKER_ASSIGN(const CheckpointDirectory directory,
                CheckpointDirectory::open(ops, PathAt(plain).parent().text()));
  return open(directory, name, options);
}

void CheckpointReader::list_tensors() {
  std::map<std::string_view, std::vector<std::uint32_t>> by_name;
  for (std::uint32_t i = 0; i < manifest_->tensors.size(); ++i)
    by_name[manifest_->tensors[i].name].push_back(i);
  for (auto& [name, slices] : by_name) {
    const CheckpointTensor& first = manifest_->tensors[slices.front()];
    TensorInfo& info = tensors_.emplace_back();
    info.name = name;
    info.type = first.type;
    info.shape = first.global_shape;
    // Cannot fail: parsing the manifest has checked it.
    info.size_bytes = *tensor_bytes(first.type, first.global_shape);
    if (first.shape == first.global_shape) info.digest = first.digest;
    slices_.push_back(std::move(slices));
  }
}

const TensorInfo* CheckpointReader::find(std::string_view name) const noexcept {
  const auto found = std::ranges::lower_bound(tensors_, name, {}, &TensorInfo::name);
  return found == tensors_.end() || found->name != name ? nullptr : &*found;
}

std::span<const std::uint32_t> CheckpointReader::slices_of(
    const TensorInfo& tensor) const noexcept {
  const TensorInfo* const found = find(tensor.name);
  if (found == nullptr) return {};
  return slices_[static_cast<std::size_t>(found - tensors_.data())];
}

Result<Digest128> CheckpointReader::digest_of(const TensorInfo& tensor) const {
  if (tensor.digest) return *tensor.digest;
  constexpr std::uint64_t kPieceBytes = 4 * kCheckpointChunkBytes;
  Xxh3Stream hash;
  std::vector<std::byte> piece;
  const auto hash_box = [&](const TensorBox& box) -> Status {
    piece.resize(box.size_bytes);
    STOKER_TRY(
        read({.name = tensor.name, .offsets = box.offsets, .shape = box.shape, .memory = piece}));
    hash.update(piece);
    return {};
  };
  STOKER_TRY(for_each_box(tensor.type, tensor.shape, kPieceBytes, hash_box));
  return hash.digest();
}

Status CheckpointReader::read_all(std::span<const ReadTarget> targets,
                                  const ReadOptions& options) const {
  CheckpointRead run(*manifest_, *files_, *verified_, has_checksums_);
  for (const ReadTarget& target : targets) {
    const TensorInfo* tensor = find(target.name);
    if (tensor == nullptr)
      return Status(Code::not_found, directory_ + ": there is no tensor " + target.name);
    STOKER_TRY(run.add(slices_of(*tensor), target).with_context(directory_));
  }
  return run.run({.engine = options_.engine,
                  .thread_count = options_.thread_count,
                  .depth = options_.depth,
                  .stop = options.stop},
                 options.devices, options.read_bytes);
}

}  // namespace stoker
