#include "bench/disk/render_disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/disk/bar.h"
#include "bench/disk/disk_verdict.h"
#include "formats/json/json.h"
#include "stoker/units.h"

namespace stoker {
namespace {

constexpr std::size_t kBarWidth = 20;
constexpr std::size_t kWideColumns = 112;   // the longest line with a bar
constexpr std::size_t kNarrowColumns = 80;  // the longest line without one
constexpr std::size_t kIndent = 4;          // of continuation lines

/// The presentation of one kind of case.
struct Section {
  CaseKind kind;
  std::string_view title;
  bool per_block;           ///< Bars compare only results with the same block size.
  std::string_view counts;  ///< The unit of the count that bars show; empty: bytes.

  double value_of(const DiskResult& result) const {
    return counts.empty() ? result.bytes_per_s : result.iops;
  }
};
constexpr std::array kSections = {
    Section{CaseKind::seq_write, "sequential write, durable (fdatasync counted)", false, ""},
    Section{CaseKind::seq_read, "sequential read", false, ""},
    Section{CaseKind::rand_read, "random read", true, "IOPS"},
    Section{CaseKind::fsync, "append and fsync (p50 and p99 are those of fsync)", false,
            "fsyncs/s"},
    Section{CaseKind::fdatasync, "append and fdatasync", false, "fdatasyncs/s"},
    Section{CaseKind::small_create, "create small files (not synced)", false, "files/s"},
    Section{CaseKind::small_read, "read small files", false, "files/s"},
};

std::uint64_t rounded(double value) {
  return value > 0 ? static_cast<std::uint64_t>(value) : 0;
}

std::string latency_of(std::uint64_t count_ns) {
  return format_duration(nanoseconds(static_cast<std::int64_t>(count_ns)));
}

/// Returns the largest value among the results that share a scale.
double top_value(const DiskReport& report, const Section& section, std::uint32_t block_bytes) {
  double top = 0;
  for (const DiskResult& result : report.results) {
    if (result.kind != section.kind) continue;
    if (section.per_block && result.block_bytes != block_bytes) continue;
    top = std::max(top, section.value_of(result));
  }
  return top;
}

std::string render_line(const DiskResult& result, const Section& section, double top) {
  std::string line =
      fmt::format("  {:>8}  depth {:<4} {:<11} {:<4}  ", format_bytes(result.block_bytes),
                  result.depth, result.policy.name(), cache_state_name(result.cache));
  if (!result.skipped.empty()) return line + "skipped: " + result.skipped + "\n";
  line += format_bar(top > 0 ? section.value_of(result) / top : 0, kBarWidth);
  line += fmt::format(" {:>10}", format_rate(rounded(result.bytes_per_s)));
  if (!section.counts.empty())
    line += fmt::format("  {:>6} {}", format_count(rounded(result.iops)), section.counts);
  line +=
      fmt::format("  p50 {:>7}  p99 {:>7}", latency_of(result.p50_ns), latency_of(result.p99_ns));
  if (!result.note.empty()) line += "  (" + result.note + ")";
  return line + "\n";
}

/// Wraps `text` at spaces to lines of at most kNarrowColumns; all but the first are indented.
std::string wrap(std::string_view text, std::string line = {}) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const bool is_first = line.find_first_not_of(' ') == std::string::npos;
    if (!is_first && line.size() + 1 + end > kNarrowColumns) {
      lines += line + "\n";
      line.assign(kIndent, ' ');
    } else if (!is_first) {
      line += ' ';
    }
    line += text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines + line + "\n";
}

std::string render_narrow_line(const DiskResult& result, const Section& section) {
  std::string line =
      fmt::format("  {:>8} x{:<4} {:<11} {:<4}", format_bytes(result.block_bytes), result.depth,
                  result.policy.name(), cache_state_name(result.cache));
  if (!result.skipped.empty()) return wrap("skipped: " + result.skipped, line + " ");
  const std::string value =
      section.counts.empty()
          ? format_rate(rounded(result.bytes_per_s))
          : fmt::format("{} {}", format_count(rounded(result.iops)), section.counts);
  line += fmt::format("  {:>18}  p50 {:>7}  p99 {:>7}\n", value, latency_of(result.p50_ns),
                      latency_of(result.p99_ns));
  if (!result.note.empty()) line += wrap("(" + result.note + ")", std::string(kIndent, ' '));
  return line;
}

/// Returns the results of one kind, sorted by block size, then by depth, then in the order they
/// ran.
std::vector<const DiskResult*> results_of(const DiskReport& report, CaseKind kind) {
  std::vector<const DiskResult*> found;
  for (const DiskResult& result : report.results)
    if (result.kind == kind) found.push_back(&result);
  std::stable_sort(found.begin(), found.end(), [](const DiskResult* a, const DiskResult* b) {
    return std::pair(a->block_bytes, a->depth) < std::pair(b->block_bytes, b->depth);
  });
  if (kind == CaseKind::seq_read || kind == CaseKind::small_read)  // cold before warm instead
    std::stable_sort(found.begin(), found.end(), [](const DiskResult* a, const DiskResult* b) {
      return std::pair(a->cache, a->block_bytes) < std::pair(b->cache, b->block_bytes);
    });
  return found;
}

Json json_of(const DiskResult& result) {
  Json json = {
      {"name", case_kind_name(result.kind)},
      {"engine", result.engine},
      {"policy", result.policy.name()},
      {"block_bytes", result.block_bytes},
      {"depth", result.depth},
      {"cache", cache_state_name(result.cache)},
      {"resident_before", nullptr},
  };
  if (result.resident_before) json["resident_before"] = *result.resident_before;
  if (!result.skipped.empty()) {
    json["skipped"] = result.skipped;
    return json;
  }
  json["io_path"] = result.io_path;
  json["bytes"] = result.bytes;
  json["count"] = result.count;
  json["elapsed_ns"] = result.elapsed_ns;
  json["bytes_per_s"] = result.bytes_per_s;
  json["iops"] = result.iops;
  json["p50_ns"] = result.p50_ns;
  json["p99_ns"] = result.p99_ns;
  json["max_ns"] = result.max_ns;
  if (result.kind == CaseKind::small_create || result.kind == CaseKind::small_read)
    json["files_per_s"] = result.iops;
  if (!result.note.empty()) json["note"] = result.note;
  return json;
}

}  // namespace

std::string render_disk_table(const DiskReport& report, std::size_t columns) {
  const bool is_narrow = columns != 0 && columns < kWideColumns;
  std::string text =
      fmt::format("{}: {}, file of {}, engine {}{}, Linux {}", report.path, report.filesystem,
                  format_bytes(report.size_bytes), report.engine,
                  report.registered_buffers ? " with registered buffers" : "", report.kernel);
  text = is_narrow ? wrap(text) + "4 KiB x32 means blocks of 4 KiB, 32 in flight\n" : text + "\n";
  for (const Section& section : kSections) {
    const std::vector<const DiskResult*> results = results_of(report, section.kind);
    if (results.empty()) continue;
    text += fmt::format("\n{}\n", section.title);
    for (const DiskResult* result : results)
      text += is_narrow
                  ? render_narrow_line(*result, section)
                  : render_line(*result, section, top_value(report, section, result->block_bytes));
  }
  const std::vector<std::string> verdict = disk_verdict(report);
  if (!verdict.empty()) text += "\nverdict\n";
  for (const std::string& line : verdict) text += "  " + line + "\n";
  return text;
}

std::string render_disk_json(const DiskReport& report) {
  Json json = {
      {"path", report.path},
      {"filesystem", report.filesystem},
      {"kernel", report.kernel},
      {"size_bytes", report.size_bytes},
      {"engine", report.engine},
      {"engine_reason", report.engine_reason},
      {"registered_buffers", report.registered_buffers},
      {"registered_buffers_reason", report.registered_buffers_reason},
      {"buffer_pages", report.buffer_pages},
      {"time_per_case_ns", report.time_per_case_ns},
      {"results", Json::array()},
  };
  for (const DiskResult& result : report.results) json["results"].push_back(json_of(result));
  return json.dump({.indent_spaces = 2}) + "\n";
}

}  // namespace stoker
