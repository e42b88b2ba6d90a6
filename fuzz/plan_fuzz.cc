// Any text as a quantity, as TOML, as a catalogue and as a workload: none may crash, a refusal is
// one readable line, and the answer of a workload that is accepted has only finite numbers.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "plan/kinds/catalogue.h"
#include "plan/quantity_text.h"
#include "plan/toml.h"
#include "stoker/plan.h"

namespace stoker::plan {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void require_line(const Status& status) {
  require(status.code() == Code::invalid_argument && !status.message().empty());
  for (const char c : status.message())
    require(static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
}

void read_quantity(std::string_view text) {
  for (int unit = 0; unit < static_cast<int>(Unit::text); ++unit) {
    const Result<double> count = parse_quantity(text, static_cast<Unit>(unit));
    if (!count.ok()) {
      require_line(count.status());
      continue;
    }
    require(std::isfinite(*count) && *count >= 0);
    require(!format_quantity(*count, static_cast<Unit>(unit)).empty());
  }
}

void read_workload(std::string_view text) {
  const Result<Answer> answer = compute({.kind = "cluster", .workload = std::string(text)});
  if (!answer.ok()) return require_line(answer.status());
  for (const Step& step : answer->steps) require(std::isfinite(step.value.count));
  require(!render_text(*answer).empty() && !render_json(*answer).empty());
}

}  // namespace
}  // namespace stoker::plan

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stoker::plan;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (size < 64) read_quantity(text);
  const auto tables = parse_toml(text, "fuzz");
  if (!tables.ok()) {
    require_line(tables.status());
    return 0;
  }
  if (const auto devices = parse_catalogue(text, "fuzz"); !devices.ok())
    require_line(devices.status());
  read_workload(text);
  return 0;
}
