#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "plan/quantity_text.h"
#include "stoker/plan.h"

namespace stoker::plan {
namespace {

constexpr double kWidth = 640, kHeight = 360;
constexpr double kLeft = 90, kRight = 20, kTop = 40, kBottom = 50;
constexpr std::array kColours = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd"};

/// Maps values of one axis to places on the page.
struct Axis {
  double low, high;   ///< Of the values, or of their logarithms.
  double begin, end;  ///< On the page.
  bool is_logarithmic = false;

  double place(double value) const {
    const double at = is_logarithmic ? std::log10(value) : value;
    return begin + (at - low) / (high - low) * (end - begin);
  }
};

/// Five or so round values: 1, 2 or 5 times a power of ten apart; powers of ten of a logarithm.
std::vector<double> ticks_of(const Axis& axis) {
  std::vector<double> ticks;
  if (axis.is_logarithmic) {
    for (double power = std::ceil(axis.low); power <= axis.high; ++power)
      ticks.push_back(std::pow(10, power));
    return ticks;
  }
  const double rough = (axis.high - axis.low) / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double step = power * (rough / power < 1.5 ? 1 : rough / power < 3.5 ? 2 : 5);
  for (double at = std::ceil(axis.low / step); at * step <= axis.high; ++at)
    ticks.push_back(at * step);
  return ticks;
}

/// The range of what is drawn. The vertical axis begins at zero.
Axis x_axis(const Plot& plot) {
  double low = INFINITY, high = -INFINITY;
  for (const Plot::Line& line : plot.lines)
    for (const auto& [x, y] : line.points) {
      low = std::min(low, x);
      high = std::max(high, x);
    }
  if (plot.is_x_logarithmic) {
    low = std::log10(low);
    high = std::log10(high);
  }
  return {.low = low,
          .high = high,
          .begin = kLeft,
          .end = kWidth - kRight,
          .is_logarithmic = plot.is_x_logarithmic};
}

Axis y_axis(const Plot& plot) {
  double high = 0;
  for (const Plot::Line& line : plot.lines)
    for (const auto& [x, y] : line.points) high = std::max(high, y);
  if (high <= 0) high = 1;
  return {.low = 0, .high = high * 1.08, .begin = kHeight - kBottom, .end = kTop};
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     text);
}

std::string axes(const Plot& plot, const Axis& x, const Axis& y) {
  std::string svg;
  for (const double tick : ticks_of(x)) {
    const double at = x.place(tick);
    svg +=
        fmt::format("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\" class=\"grid\"/>\n", at, y.begin, y.end);
    svg += text_at(at, y.begin + 18, "middle", format_quantity_short(tick, plot.x_unit));
  }
  for (const double tick : ticks_of(y)) {
    const double at = y.place(tick);
    svg +=
        fmt::format("<path d=\"M{1:.1f} {0:.1f}H{2:.1f}\" class=\"grid\"/>\n", at, x.begin, x.end);
    svg += text_at(x.begin - 6, at + 4, "end", format_quantity_short(tick, plot.y_unit));
  }
  svg += text_at((x.begin + x.end) / 2, kHeight - 12, "middle", plot.x_name);
  svg += text_at(kWidth - 4, kHeight - 4, "end", kUnitsNote);
  svg += text_at(x.begin, kTop - 8, "end", plot.y_name);
  return svg;
}

}  // namespace

Result<std::string> render_svg(const Answer& answer) {
  if (!answer.plot)
    return Status(Code::invalid_argument,
                  fmt::format("plot: {} has no curve to draw for these inputs", answer.kind));
  const Plot& plot = *answer.plot;
  const Axis x = x_axis(plot);
  const Axis y = y_axis(plot);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" "
      "font-size=\"11\">\n<style>.grid{{stroke:#ddd}}.line{{fill:none;stroke-width:2}}</style>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      kWidth, kHeight);
  svg += fmt::format("<text x=\"{}\" y=\"18\" text-anchor=\"middle\" font-size=\"13\">{}</text>\n",
                     kWidth / 2, plot.title);
  svg += axes(plot, x, y);
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    const char* colour = kColours[i % kColours.size()];
    std::string points;
    for (const auto& [at, value] : plot.lines[i].points)
      points +=
          fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", x.place(at), y.place(value));
    svg += fmt::format("<polyline class=\"line\" stroke=\"{}\" points=\"{}\"/>\n", colour, points);
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"{}\">{}</text>\n",
                       kWidth - kRight - 4, kTop + 14 * static_cast<double>(i + 1), colour,
                       plot.lines[i].name);
  }
  // Marks lie close together: their names are listed where nothing is drawn.
  for (std::size_t i = 0; i < plot.marks.size(); ++i) {
    const auto& [at, value] = plot.marks[i].points.front();
    const char* colour = kColours[(i + 1) % kColours.size()];
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", x.place(at),
                       y.place(value), colour);
    svg += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\">{}: {}, {}</text>\n", kWidth / 2 - 40,
                       kHeight - kBottom - 60 + 14 * static_cast<double>(i), colour,
                       plot.marks[i].name, format_quantity_short(at, plot.x_unit),
                       format_quantity_short(value, plot.y_unit));
  }
  return svg + "</svg>\n";
}

}  // namespace stoker::plan
