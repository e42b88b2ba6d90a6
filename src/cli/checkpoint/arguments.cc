#include "cli/checkpoint/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <system_error>

#include "base/shell_quote.h"
#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/staging/stoppable_engine.h"
#include "cli/engine_choice.h"
#include "cli/line_text.h"

namespace stoker::cli {
namespace {

/// Returns the directory name for the typed text; empty if it is not a checkpoint's name or number.
std::string name_from(const std::string& typed) {
  if (parse_step_name(typed)) return typed;
  std::uint64_t step = 0;
  const char* const end = typed.data() + typed.size();
  const auto [stopped_at, error] = std::from_chars(typed.data(), end, step);
  return error == std::errc() && stopped_at == end ? step_name(step) : "";
}

Result<CatalogStep> find_latest(const Catalog& catalog, const std::string& directory) {
  // The link may be outdated or broken: the manifests say which checkpoint is newest. But a damaged
  // one that the link points to may be the newest, and must not be skipped silently.
  const CatalogStep* const linked = catalog.find(catalog.latest);
  if (linked != nullptr && !linked->is_valid()) return *linked;
  if (const CatalogStep* const step = catalog.newest()) return *step;
  return Status(Code::not_found, directory + ": no checkpoint that could be read");
}

}  // namespace

void add_directory_argument(Command& command, std::string& directory) {
  command.add_option("DIR", directory, "Directory of the checkpoints.")->as_path()->required();
}

Result<CheckpointDirectory> open_directory(const std::string& directory) {
  Result<CheckpointDirectory> opened = CheckpointDirectory::open(posix_file_ops(), directory);
  if (opened.status().code() == Code::not_found) return no_checkpoints(directory);
  return opened;
}

Status no_checkpoints(const std::string& directory) {
  std::string_view why;
  if (is_dataset(posix_file_ops(), directory))
    why = ": it is a dataset; `stoker ls` shows what is in it";
  else if (posix_file_ops().kind_of(directory + "/manifest.json").ok())
    why =
        ": it is a checkpoint itself; give the directory above it, and its step where one is "
        "asked for";
  else if (posix_file_ops().kind_of(directory).status().code() == Code::not_found)
    why = ": there is no such directory";
  return Status(Code::not_found, fmt::format("no checkpoints in {}{}", directory, why));
}

Result<CatalogStep> find_step(const Catalog& catalog, const std::string& directory,
                              const std::string& typed) {
  if (typed.empty())
    return Status(Code::invalid_argument,
                  "an empty text names no checkpoint; give a step's number, or `latest`");
  if (catalog.steps.empty()) return no_checkpoints(directory);
  if (typed == kLatestName) return find_latest(catalog, directory);
  const std::string name = name_from(typed);
  if (name.empty())
    return Status(Code::invalid_argument,
                  fmt::format("{}: a checkpoint is a step's number, `latest` or a name like {}",
                              printable(typed), step_name(1000)));
  if (const CatalogStep* const step = catalog.find(name)) return *step;
  return Status(Code::not_found,
                fmt::format("{}/{}: no such checkpoint; {}; `stoker checkpoint ls {}` lists them",
                            directory, name, tell_others(catalog, name), shell_quote(directory)));
}

Result<CatalogStep> find_step(const std::string& directory, const std::string& typed) {
  STOKER_ASSIGN(const CheckpointDirectory opened, open_directory(directory));
  STOKER_ASSIGN(const Catalog catalog, CatalogReader(opened).list_newest());
  return find_step(catalog, directory, typed);
}

Result<CheckpointReader> open_step(const std::string& directory, const std::string& typed,
                                   const Context& context) {
  STOKER_ASSIGN(const EngineKind engine, try_engine());
  STOKER_ASSIGN(const CheckpointDirectory opened, open_directory(directory));
  const bool is_latest = typed == kLatestName;
  // A run that keeps one checkpoint removes it as soon as there is a newer one: open that instead.
  constexpr int kAttemptsMax = 1000;
  for (int attempt = 1;; ++attempt) {
    STOKER_ASSIGN(const CatalogStep step, find_step(directory, typed));
    Result<CheckpointReader> reader = CheckpointReader::open(
        opened, step.name, {.engine = make_stoppable_reads(context.stop, engine)});
    if (reader.ok() || !is_latest || !is_gone(reader.status()) || attempt == kAttemptsMax)
      return reader;
  }
}

CheckpointNote note_of(const AllNotes& notes, const CatalogStep& step) {
  const CheckpointNote* const found = notes.find(step.parsed.step, step.generation);
  CheckpointNote note = found == nullptr ? CheckpointNote() : *found;
  if (step.is_valid() && !note.is_about(step.summary->line)) note.values.clear();
  return note;
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string values_text(const std::map<std::string, double>& values) {
  std::string text;
  for (const auto& [name, value] : values)
    text += fmt::format("{}{}={:.6g}", text.empty() ? "" : " ", printable(name), value);
  return text;
}

Json number_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json values_json(const std::map<std::string, double>& values) {
  Json object = Json::object();
  for (const auto& [name, value] : values) object[name] = number_json(value);
  return object;
}

}  // namespace stoker::cli
