#include <filesystem>
#include <utility>

#include "api/border.h"
#include "api/checkpointer_impl.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/directory/checkpoint_directory.h"

namespace stoker {

using internal::at_border;

Result<std::unique_ptr<Checkpointer>> Checkpointer::open(CheckpointerOptions options) {
  return at_border([&]() -> Result<std::unique_ptr<Checkpointer>> {
    if (!options.directory.empty())  // the working directory may change later
      options.directory = std::filesystem::absolute(options.directory).lexically_normal().string();
    while (options.directory.size() > 1 && options.directory.ends_with('/'))
      options.directory.pop_back();
    auto impl = std::make_unique<Impl>(std::move(options));
    STOKER_TRY(impl->check());
    return std::unique_ptr<Checkpointer>(new Checkpointer(std::move(impl)));
  });
}

Checkpointer::Checkpointer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpointer::~Checkpointer() = default;

Result<PendingSave> Checkpointer::save(std::uint64_t step, const Tree& trees,
                                       const SaveOptions& options) {
  return at_border([&] { return impl_->save(step, trees, options); });
}

Result<std::optional<Restored>> Checkpointer::restore(Tree& trees, const RestoreOptions& options) {
  return at_border([&] { return impl_->restore(trees, options); });
}

bool Checkpointer::due(std::uint64_t step, const Due& due) const {
  return impl_->due(step, due);
}

Result<std::vector<std::uint64_t>> Checkpointer::steps() const {
  return at_border([&]() -> Result<std::vector<std::uint64_t>> {
    STOKER_ASSIGN(const std::vector<CatalogStep> found, impl_->list());
    std::vector<std::uint64_t> steps;
    for (auto step = found.rbegin(); step != found.rend(); ++step)
      if (step->is_valid() && !step->is_superseded()) steps.push_back(step->parsed.step);
    return steps;
  });
}

Result<std::optional<std::uint64_t>> Checkpointer::latest() const {
  return at_border([&]() -> Result<std::optional<std::uint64_t>> {
    STOKER_ASSIGN(const std::vector<CatalogStep> found, impl_->list());
    for (const CatalogStep& step : found)
      if (step.is_valid()) return std::optional(step.parsed.step);
    return std::optional<std::uint64_t>();
  });
}

Status Checkpointer::annotate(std::uint64_t step, const std::map<std::string, double>& values) {
  return at_border([&]() -> Status {
    STOKER_ASSIGN(const auto found, impl_->find(step));
    STOKER_ASSIGN(const CheckpointDirectory directory,
                  CheckpointDirectory::open(posix_file_ops(), impl_->directory()));
    return annotate_checkpoint(directory, step, found.first, values, found.second);
  });
}

Status Checkpointer::pin(std::uint64_t step, bool is_pinned) {
  return at_border([&]() -> Status {
    STOKER_ASSIGN(const auto found, impl_->find(step));
    STOKER_ASSIGN(const CheckpointDirectory directory,
                  CheckpointDirectory::open(posix_file_ops(), impl_->directory()));
    return pin_checkpoint(directory, step, found.first, is_pinned, found.second);
  });
}

SaveProgress Checkpointer::progress() const {
  return impl_->progress();
}

Status Checkpointer::wait(std::chrono::nanoseconds timeout) {
  return at_border([&] { return impl_->wait(timeout); });
}

Status Checkpointer::close(std::optional<std::chrono::nanoseconds> timeout) {
  return at_border([&] { return impl_->close(timeout); });
}

}  // namespace stoker
