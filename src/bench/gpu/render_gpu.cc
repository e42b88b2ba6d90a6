#include "bench/gpu/render_gpu.h"

#include <fmt/format.h>

#include <utility>

#include "formats/json/json.h"
#include "stoker/units.h"

namespace stoker {
namespace {

/// Nothing reads with it: checksums need every chunk in host memory first.
std::string cufile_text(const DirectReads& direct) {
  return std::string(direct.are_real ? "direct reads are real, and not used: "
                                     : "no direct reads: ") +
         direct.reason;
}

std::string link_text(const PcieLink& link) {
  const std::string generation =
      link.generation() != 0 ? fmt::format("PCIe {}.0", link.generation()) : "PCIe";
  return fmt::format("{} x{}, {}", generation, link.width,
                     format_rate(static_cast<std::uint64_t>(link.bytes_per_s())));
}

std::string links_text(const PcieLinks& links) {
  if (!links.now && !links.most) return "unknown (the kernel does not report it)";
  std::string text = link_text(links.now ? *links.now : *links.most);
  if (links.now && links.most && links.now->bytes_per_s() < links.most->bytes_per_s())
    text += fmt::format(" (the device could do {})", link_text(*links.most));
  return text;
}

double theory(const GpuReport& report) {
  return report.links.now    ? report.links.now->bytes_per_s()
         : report.links.most ? report.links.most->bytes_per_s()
                             : 0;
}

Json link_json(const std::optional<PcieLink>& link) {
  if (!link) return nullptr;
  return {{"generation", link->generation()},
          {"gigatransfers_per_s", link->gigatransfers_per_s},
          {"width", link->width},
          {"bytes_per_s", link->bytes_per_s()}};
}

}  // namespace

std::string render_gpu_text(const GpuReport& report) {
  const int version = report.driver_version;
  std::string text =
      fmt::format("device {} ({}), CUDA {}.{}, files in {}, {} threads\nlink: {}\n\n",
                  report.device, report.pci_id, version / 1000, version % 1000 / 10, report.path,
                  report.threads, links_text(report.links));
  text += fmt::format("  {:<32} {:>9} {:>12} {:>9}\n", "", "size", "rate", "of link");
  for (const GpuCase& one : report.cases) {
    const std::string size = format_bytes_decimal(one.bytes);
    if (!one.why.empty()) {
      text += fmt::format("  {:<32} {:>9} left out: {}\n", one.name, size, one.why);
      continue;
    }
    const double rate = one.bytes_per_s();
    const double most = theory(report);
    text += fmt::format("  {:<32} {:>9} {:>12} {:>9}\n", one.name, size,
                        format_rate(static_cast<std::uint64_t>(rate)),
                        most > 0 ? fmt::format("{:.0f} %", 100 * rate / most) : "-");
  }
  return text + fmt::format("  {:<32} {}\n", "cuFile", cufile_text(report.direct));
}

std::string render_gpu_json(const GpuReport& report) {
  Json json = {
      {"device", report.device},
      {"pci_id", report.pci_id},
      {"driver_version", report.driver_version},
      {"path", report.path},
      {"threads", report.threads},
      {"link", link_json(report.links.now)},
      {"link_max", link_json(report.links.most)},
      {"cufile",
       {{"measured", false}, {"direct", report.direct.are_real}, {"why", report.direct.reason}}},
      {"cases", Json::array()}};
  for (const GpuCase& one : report.cases) {
    Json item = {{"name", one.name}, {"bytes", one.bytes}};
    if (one.why.empty()) {
      item["elapsed_ns"] = one.elapsed.count();
      item["bytes_per_s"] = one.bytes_per_s();
    } else {
      item["left_out"] = one.why;
    }
    json["cases"].push_back(std::move(item));
  }
  return json.dump({.indent_spaces = 2}) + "\n";
}

}  // namespace stoker
