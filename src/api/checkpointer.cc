#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <utility>

#include "api/border.h"
#include "api/checkpointer_impl.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "io/files/local_path.h"

namespace stoker {

using internal::at_border;
using internal::invalid;

namespace {

/// The shortest text that is read back as the same number.
std::string text_of(double number) {
  std::array<char, 32> text = {};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

bool are_close(double was, double now, double tolerance) {
  if (std::isnan(was) || std::isnan(now)) return std::isnan(was) && std::isnan(now);
  if (was == now) return true;  // infinities, too
  if (std::isinf(was) || std::isinf(now)) return false;
  return std::abs(was - now) <= tolerance * std::max(std::abs(was), std::abs(now));
}

Status compare(const Restored& restored, const std::map<std::string, double>& values,
               double tolerance) {
  std::string differences;
  for (const auto& [name, now] : values) {
    const auto saved = restored.reference.find(name);
    if (saved == restored.reference.end())
      return invalid(name + ": not among the reference values of " + restored.path);
    if (are_close(saved->second, now, tolerance)) continue;
    if (!differences.empty()) differences += ", ";
    differences += name + " was " + text_of(saved->second) + " and is " + text_of(now);
  }
  if (differences.empty()) return {};
  return invalid("step " + std::to_string(restored.step) + " does not match: " + differences);
}

}  // namespace

Result<std::unique_ptr<Checkpointer>> Checkpointer::open(CheckpointerOptions options) {
  return at_border([&]() -> Result<std::unique_ptr<Checkpointer>> {
    STOKER_TRY(check_local_path(options.directory));
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

Status check_reference(const Restored& restored, const std::map<std::string, double>& values,
                       double relative_tolerance) {
  return at_border([&] { return compare(restored, values, relative_tolerance); });
}

}  // namespace stoker
