#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "checkpoint/inspect/verify.h"
#include "checkpoint/manifest/names.h"
#include "cli/checkpoint/arguments.h"
#include "cli/engine_choice.h"
#include "cli/line_text.h"
#include "cli/result_writer.h"
#include "cli/work_progress.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr std::size_t kTensorsNamed = 8;
constexpr const char* kFooter =
    R"(Reads every byte and compares it with the checksums in the manifest: of the newest checkpoint, of
the one that --step names, or with --all of all checkpoints, including superseded ones. Lists every
damage: file, offset, tensors.

Exit status: 0 no damage, 1 damage found, no checkpoint, or one that could not be checked, 2 misused,
130 interrupted.)";

struct Arguments {
  std::string directory;
  std::string step = "latest";
  bool all = false;
  bool json = false;
};

/// Returns "tensors a, b and 3 more"; --json lists all of them.
std::string tensors_text(const CheckpointDamage& damage) {
  if (damage.tensors.empty()) return "";
  std::string text = damage.tensors.size() == 1 ? "; tensor " : "; tensors ";
  for (std::size_t i = 0; i < damage.tensors.size() && i < kTensorsNamed; ++i)
    text += (i == 0 ? "" : ", ") + printable(damage.tensors[i]);
  if (damage.tensors.size() > kTensorsNamed)
    text += fmt::format(" and {} more", damage.tensors.size() - kTensorsNamed);
  return text;
}

std::string damage_text(const CheckpointDamage& damage) {
  std::string text = damage.kind == DamageKind::bad_latest
                         ? fmt::format("latest -> {}", printable(damage.step))
                         : printable(damage.step);
  if (damage.kind != DamageKind::bad_latest && !damage.file.empty())
    text += (text.empty() ? "" : "/") + printable(damage.file);
  if (damage.size_bytes != 0)
    text += fmt::format(": offset {}, {} bytes", damage.offset_bytes, damage.size_bytes);
  return text + fmt::format(": {}: {}{}\n", damage_kind_name(damage.kind), printable(damage.reason),
                            tensors_text(damage));
}

std::string render_text(const CheckpointVerifyReport& report, const std::string& directory) {
  std::string text;
  for (const CheckpointDamage& damage : report.damages) text += damage_text(damage);
  for (const auto& [name, why] : report.unchecked)
    text += fmt::format("{}: not checked: {}\n", printable(name), printable(why.message()));
  std::string end = report.damages.empty() ? "" : counted(report.damages.size(), "damaged piece");
  if (!report.unchecked.empty())
    end += fmt::format("{}{} not checked", end.empty() ? "" : ", ", report.unchecked.size());
  if (report.elsewhere_count > 0)
    text += fmt::format("{}: {} on the disks of other nodes, checked only there\n", directory,
                        counted(report.elsewhere_count, "file"));
  return text + fmt::format("{}: {}, {}: {}\n", directory, counted(report.step_count, "checkpoint"),
                            format_bytes(report.checked_bytes),
                            end.empty() ? "no damage found" : end);
}

std::string render_json(const CheckpointVerifyReport& report, const std::string& directory) {
  Json damages = Json::array();
  for (const CheckpointDamage& damage : report.damages)
    damages.push_back({{"kind", damage_kind_name(damage.kind)},
                       {"step", damage.step},
                       {"file", damage.file},
                       {"offset_bytes", damage.offset_bytes},
                       {"size_bytes", damage.size_bytes},
                       {"tensors", Json::array_of(damage.tensors)},
                       {"reason", damage.reason}});
  Json unchecked = Json::array();
  for (const auto& [name, why] : report.unchecked)
    unchecked.push_back({{"step", name}, {"reason", why.message()}});
  return to_line({{"directory", directory},
                  {"ok", report.damages.empty() && report.unchecked.empty()},
                  {"checkpoints", report.step_count},
                  {"checked_bytes", report.checked_bytes},
                  {"elsewhere_files", report.elsewhere_count},
                  {"damages", std::move(damages)},
                  {"unchecked", std::move(unchecked)}}) +
         "\n";
}

/// Verifies one checkpoint. A broken `latest` link is reported as damage.
Result<CheckpointVerifyReport> verify_one(const Arguments& arguments,
                                          const CheckpointVerifyOptions& options) {
  STOKER_ASSIGN(const CheckpointDirectory directory, open_directory(arguments.directory));
  const bool wants_latest = arguments.step == kLatestName;
  // A run that keeps one checkpoint removes it as soon as there is a newer one: verify that
  // instead.
  constexpr int kAttemptsMax = 1000;
  Result<CheckpointVerifyReport> report = CheckpointVerifyReport();
  for (int attempt = 1;; ++attempt) {
    STOKER_ASSIGN(const Catalog catalog, CatalogReader(directory).list_newest());
    Result<CatalogStep> step = find_step(catalog, arguments.directory, arguments.step);
    if (wants_latest && !step.ok() && !catalog.steps.empty()) step = catalog.steps.front();
    if (!step.ok()) return step.status();
    report = verify_checkpoint(directory, step->name, options);
    if (!wants_latest || !is_gone(report.status()) || attempt == kAttemptsMax) break;
  }
  if (!report.ok() || !wants_latest) return report;
  if (std::optional<CheckpointDamage> damage = check_latest(directory))
    report->damages.push_back(*std::move(damage));
  STOKER_ASSIGN(std::vector<CheckpointDamage> foreign, find_foreign_names(directory));
  std::ranges::move(foreign, std::back_inserter(report->damages));
  return report;
}

Result<CheckpointVerifyReport> verify_all(const std::string& directory,
                                          const CheckpointVerifyOptions& options) {
  STOKER_ASSIGN(const CheckpointDirectory opened, open_directory(directory));
  return verify_checkpoints(opened, options);
}

/// Shows the progress of a verification; called from the reading threads.
///
/// Thread safety: show() may be called from any thread.
class VerifyLine {
 public:
  explicit VerifyLine(Context& context) : line_(context, "verifying", "bytes") {}

  void show(const std::string& step, std::uint64_t done, std::uint64_t count) {
    const MutexLock lock(mutex_);
    if (step != step_) bytes_before_ += std::exchange(bytes_, 0);
    step_ = step;
    bytes_ = std::max(bytes_, done);
    line_.show({.done = bytes_, .count = count, .bytes = bytes_before_ + bytes_, .note = step_});
  }
  void clear() {
    const MutexLock lock(mutex_);
    line_.clear();
  }

 private:
  Mutex mutex_;
  WorkProgress line_ STOKER_GUARDED_BY(mutex_);
  std::string step_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t bytes_ STOKER_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_before_ STOKER_GUARDED_BY(mutex_) = 0;  // of the finished steps
};

Status run(const Arguments& arguments, Context& context) {
  STOKER_ASSIGN(const EngineKind engine, try_engine());
  VerifyLine progress(context);
  const CheckpointVerifyOptions options{
      .reader = {.engine = make_engine_factory(engine)},
      .stop = context.stop,
      .progress = [&progress](const std::string& step, std::uint64_t done, std::uint64_t count) {
        progress.show(step, done, count);
      }};
  Result<CheckpointVerifyReport> report =
      arguments.all ? verify_all(arguments.directory, options) : verify_one(arguments, options);
  progress.clear();
  if (!report.ok()) return report.status();
  if (report->step_count == 0 && report->damages.empty())
    return no_checkpoints(arguments.directory);
  if (!report->damages.empty() || !report->unchecked.empty()) context.exit_code = kExitFailed;
  return write_out(context, arguments.json ? render_json(*report, arguments.directory)
                                           : render_text(*report, arguments.directory));
}

}  // namespace

void add_checkpoint_verify_command(Command& checkpoint, Context& context) {
  Command* const command =
      checkpoint.add_subcommand("verify", "Check every byte, and list what is damaged.");
  const auto arguments = std::make_shared<Arguments>();
  add_directory_argument(*command, arguments->directory);
  Option* const step = command->add_option("--step", arguments->step, kStepHelp);
  command->add_flag("--all", arguments->all, "Check all checkpoints in DIR.")->excludes(step);
  command->add_flag("--json", arguments->json, "Print one JSON object.");
  command->footer(kFooter);
  command->on_chosen([arguments, &context] { return run(*arguments, context); });
}

}  // namespace stoker::cli
