#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "formats/json/json.h"
#include "plan/quantity_text.h"
#include "stoker/plan.h"

namespace stoker::plan {
namespace {

constexpr std::size_t kLineMax = 90;

/// Columns as wide as their widest cell; the last one is not padded.
std::string columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = "  ";
    for (std::size_t i = 0; i < row.size(); ++i)
      line += fmt::format("{:<{}}", row[i], widths[i] + 2);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

/// "1.3312 GB/s (1.2398 GiB/s)"
std::string value_text(const Value& value) {
  return format_quantity(value.count, value.unit);
}

/// "", "default", "catalogue: h100-sxm, not used"
std::string origin_text(const Given& given) {
  const std::string origin = given.origin == "given" ? "" : given.origin;
  if (given.is_used) return origin;
  return origin.empty() ? "not used" : origin + ", not used";
}

Json value_json(const Value& value) {
  return {{"value", value.count}, {"unit", unit_symbol(value.unit)}};
}

Json plot_json(const Plot& plot) {
  Json lines = Json::array();
  for (const Plot::Line& line : plot.lines) {
    Json points = Json::array();
    for (const auto& [x, y] : line.points) {
      Json point = Json::array();
      point.push_back(x);
      point.push_back(y);
      points.push_back(std::move(point));
    }
    lines.push_back({{"name", line.name}, {"points", std::move(points)}});
  }
  return {{"title", plot.title},
          {"x", {{"name", plot.x_name}, {"unit", unit_symbol(plot.x_unit)}}},
          {"y", {{"name", plot.y_name}, {"unit", unit_symbol(plot.y_unit)}}},
          {"lines", std::move(lines)}};
}

}  // namespace

std::string render_text(const Answer& answer) {
  std::string text = fmt::format("{}\n({})\n\n", answer.question, kUnitsNote);
  for (const std::string& name : answer.results)
    if (const auto step = std::ranges::find(answer.steps, name, &Step::name);
        step != answer.steps.end())
      text += fmt::format("  {} = {}\n", name, value_text(step->value));
  text += answer.results.empty() ? "Given\n" : "\nGiven\n";
  std::vector<std::vector<std::string>> rows;
  for (const Given& given : answer.given)
    rows.push_back({given.name, given.text, origin_text(given)});
  text += columns(rows) + "\nSteps\n";
  for (const Step& step : answer.steps) {
    text += fmt::format("  {} = {}\n", step.name, value_text(step.value));
    if (step.formula != step.numbers) {
      const bool is_long = step.formula.size() + step.numbers.size() > kLineMax;
      text +=
          fmt::format("      = {}{}= {}\n", step.formula, is_long ? "\n      " : " ", step.numbers);
    }
    if (!step.note.empty()) text += fmt::format("      {}\n", step.note);
  }
  if (!answer.table.empty()) text += "\nDesign\n" + columns(answer.table);
  text += "\nWhat binds\n";
  for (const std::string& line : answer.binds) text += fmt::format("  {}\n", line);
  if (!answer.changes.empty()) text += "\nWhat would change it\n";
  for (const std::string& line : answer.changes) text += fmt::format("  {}\n", line);
  std::set<std::string> sources;
  for (const Given& given : answer.given)
    if (!given.source.empty())
      sources.insert(fmt::format("  {}: {}\n", given.origin, given.source));
  if (!sources.empty()) text += fmt::format("\nSources\n{}", fmt::join(sources, ""));
  return text;
}

std::string render_json(const Answer& answer) {
  Json inputs = Json::object();
  for (const Given& given : answer.given) {
    Json one = value_json(given.value);
    if (given.value.unit == Unit::text) one = Json::object();
    one["text"] = given.text;
    one["origin"] = given.origin;
    one["used"] = given.is_used;
    if (!given.source.empty()) one["source"] = given.source;
    inputs[given.name] = std::move(one);
  }
  Json steps = Json::array();
  Json values = Json::object();
  for (const Step& step : answer.steps) {
    values[step.name] = step.value.count;
    Json one = value_json(step.value);
    one["name"] = step.name;
    one["text"] = value_text(step.value);
    one["formula"] = step.formula;
    one["numbers"] = step.numbers;
    one["note"] = step.note;
    steps.push_back(std::move(one));
  }
  Json json = {{"kind", answer.kind},
               {"question", answer.question},
               {"units", kUnitsNote},
               {"inputs", std::move(inputs)},
               {"values", std::move(values)},
               {"steps", std::move(steps)},
               {"results", Json::array_of(answer.results)},
               {"binds", Json::array_of(answer.binds)},
               {"changes", Json::array_of(answer.changes)}};
  if (!answer.table.empty()) {
    Json table = Json::array();
    for (const auto& row : answer.table) table.push_back(Json::array_of(row));
    json["table"] = std::move(table);
  }
  if (answer.plot) json["plot"] = plot_json(*answer.plot);
  return json.dump() + "\n";
}

}  // namespace stoker::plan
