#include "bench/cliff/render_cliff.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/disk/bar.h"
#include "formats/json/json.h"
#include "stoker/units.h"

namespace stoker {
namespace {

constexpr std::size_t kSparklineWidth = 64;

std::string rate(double bytes_per_s) {
  return format_rate(static_cast<std::uint64_t>(bytes_per_s));
}

/// Returns the rates of the windows, averaged so that they fit on one screen line.
std::vector<double> rates_for_line(const CliffReport& report) {
  const std::size_t count = report.windows.size();
  const std::size_t step =
      std::max<std::size_t>((count + kSparklineWidth - 1) / kSparklineWidth, 1);
  std::vector<double> rates;
  for (std::size_t at = 0; at < count; at += step) {
    RateWindow total;
    for (std::size_t i = at; i < std::min(at + step, count); ++i) {
      total.bytes += report.windows[i].bytes;
      total.elapsed += report.windows[i].elapsed;
    }
    rates.push_back(total.bytes_per_s());
  }
  return rates;
}

double whole_rate(const CliffReport& report) {
  RateWindow total{.bytes = report.bytes_written()};
  for (const RateWindow& window : report.windows) total.elapsed += window.elapsed;
  return total.bytes_per_s();
}

}  // namespace

std::string render_cliff_text(const CliffReport& report) {
  std::string text =
      fmt::format("{}: {}, engine {}, {} writes, windows of {}\n\n  {}\n\n", report.path,
                  report.filesystem, report.engine, report.io_path,
                  format_bytes(report.window_bytes), format_sparkline(rates_for_line(report)));
  if (!report.cliff) {
    return text + fmt::format(
                      "No cliff in {}: {} from beginning to end. Write more with --bytes "
                      "if the drive's cache may be larger.\n",
                      format_bytes(report.bytes_written()), rate(whole_rate(report)));
  }
  const Cliff& cliff = *report.cliff;
  return text + fmt::format(
                    "A cliff after {}: {} before it, {} after it ({:.0f} % less).\n"
                    "To stay above it, limit writes to {}.\n",
                    format_bytes(cliff.bytes_before), rate(cliff.bytes_per_s_before),
                    rate(cliff.bytes_per_s_after), cliff.drop() * 100,
                    format_rate(cliff.limit_bytes_per_s()));
}

std::string render_cliff_json(const CliffReport& report) {
  Json json = {
      {"path", report.path},
      {"filesystem", report.filesystem},
      {"engine", report.engine},
      {"io_path", report.io_path},
      {"bytes_max", report.bytes_max},
      {"bytes_written", report.bytes_written()},
      {"bytes_per_s", whole_rate(report)},
      {"cliff", nullptr},
      {"window_bytes", report.window_bytes},
      {"windows", Json::array()},
  };
  if (report.cliff) {
    json["cliff"] = {{"bytes_before", report.cliff->bytes_before},
                     {"bytes_per_s_before", report.cliff->bytes_per_s_before},
                     {"bytes_per_s_after", report.cliff->bytes_per_s_after},
                     {"drop", report.cliff->drop()},
                     {"limit_bytes_per_s", report.cliff->limit_bytes_per_s()}};
  }
  for (const RateWindow& window : report.windows)
    json["windows"].push_back({{"bytes", window.bytes},
                               {"elapsed_ns", window.elapsed.count()},
                               {"bytes_per_s", window.bytes_per_s()}});
  return json.dump({.indent_spaces = 2}) + "\n";
}

}  // namespace stoker
