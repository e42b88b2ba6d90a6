#include "cli/loader/tune_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/shell_quote.h"
#include "cli/line_text.h"
#include "formats/json/json.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr double kMostlyCached = 0.5;

std::string number_or_auto(std::size_t number) {
  return number == 0 ? "auto" : std::to_string(number);
}

std::string count_of(double rate) {
  return format_count(static_cast<std::uint64_t>(rate));
}

std::string quote_for_python(const std::string& text) {
  return Json(text).dump({.is_ascii = true});
}

std::uint64_t batch_size_of(const PlannedRun& plan) {
  return plan.options.cut.global_batch_size / plan.options.cut.world_size;
}

bool is_global(const PlannedRun& plan) {
  return plan.options.cursor.order.shuffle == Shuffle::global;
}

std::string stream_command(const LoaderArguments& arguments, const PlannedRun& plan,
                           const TuneSetting& setting) {
  std::string command = "stoker stream";
  for (const std::string& uri : arguments.dataset.uris) command += " " + shell_quote(uri);
  const auto add = [&command](std::string_view option, const std::string& value) {
    if (!value.empty()) command += fmt::format(" {} {}", option, shell_quote(value));
  };
  add("--format", arguments.dataset.format);
  add("--dtype", arguments.dataset.dtype);
  command += fmt::format(" --batch-size {}", batch_size_of(plan));
  if (!is_global(plan)) command += " --shuffle " + arguments.shuffle;
  if (arguments.seed != 0) command += fmt::format(" --seed {}", arguments.seed);
  add("--tail", arguments.tail);
  if (arguments.world_size != 1)
    command += fmt::format(" --rank {} --world-size {}", arguments.rank, arguments.world_size);
  if (arguments.step_ms != 0) command += fmt::format(" --step-ms {}", arguments.step_ms);
  add("--memory", arguments.memory);
  add("--engine", arguments.engine);
  if (setting.threads != 0) command += fmt::format(" --threads {}", setting.threads);
  if (setting.depth != 0) command += fmt::format(" --depth {}", setting.depth);
  if (setting.policy != CachePolicy::automatic)
    command += fmt::format(" --policy {}", cache_policy_name(setting.policy));
  return command;
}

std::string python_call(const LoaderArguments& arguments, const PlannedRun& plan,
                        const TuneSetting& setting) {
  std::string data;
  for (const std::string& uri : arguments.dataset.uris)
    data += (data.empty() ? "" : ", ") + quote_for_python(uri);
  if (arguments.dataset.uris.size() > 1) data = "[" + data + "]";
  const DatasetArguments& told = arguments.dataset;
  if (!told.format.empty() || !told.dtype.empty()) {
    if (!told.format.empty()) data += ", format=" + quote_for_python(told.format);
    if (!told.dtype.empty()) data += ", dtype=" + quote_for_python(told.dtype);
    data = "stoker.Dataset(" + data + ")";
  }
  std::string call = fmt::format("stoker.Loader({}, batch_size={}", data, batch_size_of(plan));
  if (!is_global(plan))
    call += fmt::format(", shuffle=\"{}\"", shuffle_name(plan.options.cursor.order.shuffle));
  if (arguments.seed != 0) call += fmt::format(", seed={}", arguments.seed);
  if (!arguments.tail.empty()) call += ", tail=" + quote_for_python(arguments.tail);
  if (!arguments.memory.empty()) call += ", memory_bytes=" + quote_for_python(arguments.memory);
  if (setting.threads != 0) call += fmt::format(", threads={}", setting.threads);
  if (setting.depth != 0) call += fmt::format(", depth={}", setting.depth);
  if (setting.policy != CachePolicy::automatic)
    call += fmt::format(", policy=\"{}\"", cache_policy_name(setting.policy));
  return call + ")";
}

std::string render_row(const TuneRow& row) {
  std::string line =
      fmt::format("  {:<12} {:>7} {:>6}", cache_policy_name(row.setting.policy),
                  number_or_auto(row.setting.threads), number_or_auto(row.setting.depth));
  if (row.samples_per_s.empty())
    return line + (row.failure.ok() ? "   no time was left\n"
                                    : fmt::format("   not possible: {}\n", row.failure.message()));
  const double middle = median_of(row.samples_per_s);
  return line + fmt::format("  {:>9}  {:>9}  {:>9}  {:>10}\n", count_of(middle),
                            count_of(std::ranges::min(row.samples_per_s)),
                            count_of(std::ranges::max(row.samples_per_s)),
                            format_rate(static_cast<std::uint64_t>(middle * row.bytes_per_sample)));
}

std::string explain_verdict(const TuneReport& report) {
  if (report.best == TuneSetting())
    return report.is_cut_short ? "The time was too short to compare: raise --time.\n"
                               : "Nothing was faster than automatic.\n";
  const PairedVerdict& verdict = report.verdict;
  if (verdict.pairs == 0) return "There was no time to check the fastest: raise --time.\n";
  const TuneSetting& best = report.best;
  std::string text = fmt::format(
      "The fastest (policy {}, threads {}, depth {}) and automatic, again in turns:\n"
      "  {}/s and {}/s in the median; {:+.1f} % in the median of {} pairs, faster in {}: {}.\n",
      cache_policy_name(best.policy), number_or_auto(best.threads), number_or_auto(best.depth),
      count_of(median_of(report.best_again)), count_of(median_of(report.automatic_again)),
      100 * verdict.gain, verdict.pairs, verdict.wins,
      verdict.is_clear    ? "a clear gain"
      : verdict.gain <= 0 ? "no gain; the first result was chance"
                          : "within the noise, or too little to matter");
  if (verdict.pairs < kPairsMin) text += "There was no time for more pairs: raise --time.\n";
  return text;
}

/// Says how cold or warm the figures are.
std::string explain_cache(const TuneReport& report) {
  if (!report.is_cold) {
    const double share = report.rows.front().page_cache_share;
    return share <= kMostlyCached
               ? ""
               : fmt::format(
                     "{:.0f} % of the bytes came from the page cache: this is valid for data that "
                     "are cached. --cold measures data that are not.\n",
                     100 * share);
  }
  return is_warm_after_all(report)
             ? fmt::format(
                   "Up to {:.0f} % of a run came from the page cache anyway: it went "
                   "through a small dataset more than once, or the filesystem is memory (tmpfs). "
                   "These figures are not cold.\n",
                   100 * most_from_page_cache(report))
             : "";
}

Json setting_json(const TuneSetting& setting) {
  Json document = {{"policy", cache_policy_name(setting.policy)}};
  document["threads"] = setting.threads == 0 ? Json("auto") : Json(setting.threads);
  document["depth"] = setting.depth == 0 ? Json("auto") : Json(setting.depth);
  return document;
}

}  // namespace

std::string render_tune_text(const LoaderArguments& arguments, const PlannedRun& plan,
                             const TuneReport& report) {
  std::string text = fmt::format("{}: {}\n  batches of {}, {} short runs in {}\n\n", plan.name,
                                 describe_dataset(*plan.dataset), batch_size_of(plan),
                                 report.run_count, format_duration(report.elapsed));
  text += fmt::format("  {:<12} {:>7} {:>6}  {:>9}  {:>9}  {:>9}  {:>10}\n", "policy", "threads",
                      "depth", "samples/s", "lowest", "highest", "bytes/s");
  for (const TuneRow& row : report.rows) text += render_row(row);
  text += "\n" + explain_verdict(report);
  text += explain_cache(report);
  text += report.recommended == TuneSetting() ? "\nRecommended: leave it automatic.\n"
                                              : "\nRecommended:\n";
  return text + fmt::format("  {}\n  {}\n", stream_command(arguments, plan, report.recommended),
                            python_call(arguments, plan, report.recommended));
}

std::string render_tune_json(const LoaderArguments& arguments, const PlannedRun& plan,
                             const TuneReport& report) {
  Json rows = Json::array();
  for (const TuneRow& row : report.rows) {
    Json document = setting_json(row.setting);
    document["samples_per_s"] = median_of(row.samples_per_s);
    document["runs"] = Json::array_of(row.samples_per_s);
    document["bytes_per_sample"] = row.bytes_per_sample;
    document["page_cache_share"] = row.page_cache_share;
    document["failure"] =
        row.failure.ok() ? Json(nullptr) : Json(std::string(row.failure.message()));
    rows.push_back(std::move(document));
  }
  const PairedVerdict& verdict = report.verdict;
  return to_line({{"dataset", plan.name},
                  {"batch_size", batch_size_of(plan)},
                  {"seconds", std::chrono::duration<double>(report.elapsed).count()},
                  {"runs", report.run_count},
                  {"is_cold", report.is_cold},
                  {"is_cut_short", report.is_cut_short},
                  {"settings", std::move(rows)},
                  {"fastest", setting_json(report.best)},
                  {"comparison",
                   {{"automatic", Json::array_of(report.automatic_again)},
                    {"fastest", Json::array_of(report.best_again)},
                    {"pairs", verdict.pairs},
                    {"wins", verdict.wins},
                    {"gain", verdict.gain},
                    {"is_clear", verdict.is_clear}}},
                  {"recommended", setting_json(report.recommended)},
                  {"command", stream_command(arguments, plan, report.recommended)},
                  {"python", python_call(arguments, plan, report.recommended)}}) +
         "\n";
}

}  // namespace stoker::cli
