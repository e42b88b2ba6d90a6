#include "bench/checkpoint/render_checkpoint.h"

#include <fmt/format.h>

#include "formats/json/json.h"
#include "stoker/units.h"

namespace stoker {
namespace {

std::string row(const std::string& what, nanoseconds elapsed, std::uint64_t bytes,
                const std::string& note) {
  std::string line = fmt::format("  {:<24} {:>10} {:>12}  {}", what, format_duration(elapsed),
                                 format_rate(bytes_per_second(bytes, elapsed)), note);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

Json to_json(const SaveSample& sample, std::uint64_t bytes) {
  return {{"blocked_ns", sample.blocked.count()},
          {"blocked_bytes_per_s", bytes_per_second(bytes, sample.blocked)},
          {"durable_ns", sample.durable.count()},
          {"durable_bytes_per_s", bytes_per_second(bytes, sample.durable)}};
}

Json to_json(const RestoreSample& sample, std::uint64_t bytes) {
  return {{"cache", cache_state_name(sample.state)},
          {"note", sample.note},
          {"elapsed_ns", sample.elapsed.count()},
          {"bytes_per_s", bytes_per_second(bytes, sample.elapsed)}};
}

std::string plural(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

std::string render_checkpoint_text(const CheckpointReport& report) {
  const std::uint64_t bytes = report.size_bytes;
  std::string text =
      fmt::format("{}: {}, {} in {}, {}\n\n", report.path, report.filesystem, format_bytes(bytes),
                  plural(report.tensor_count, "tensor"), plural(report.saves.size(), "save"));
  text += row("save, first, blocked", report.saves.front().blocked, bytes,
              "memory for staging included");
  text += row("save, first, durable", report.saves.front().durable, bytes, "");
  if (report.saves.size() > 1) {
    text += row("save, blocked", report.median_blocked(), bytes, "median of the others");
    text += row("save, durable", report.median_durable(), bytes, "median of the others");
  }
  text += row("restore, cold", report.cold.elapsed, bytes, report.cold.note);
  text += row("restore, warm", report.warm.elapsed, bytes, report.warm.note);
  return text;
}

std::string render_checkpoint_json(const CheckpointReport& report) {
  const std::uint64_t bytes = report.size_bytes;
  Json saves = Json::array();
  for (const SaveSample& sample : report.saves) saves.push_back(to_json(sample, bytes));
  const Json json = {
      {"path", report.path},
      {"filesystem", report.filesystem},
      {"size_bytes", bytes},
      {"tensors", report.tensor_count},
      {"saves", std::move(saves)},
      {"median",
       to_json({.blocked = report.median_blocked(), .durable = report.median_durable()}, bytes)},
      {"restore_cold", to_json(report.cold, bytes)},
      {"restore_warm", to_json(report.warm, bytes)},
  };
  return json.dump({.indent_spaces = 2}) + "\n";
}

}  // namespace stoker
