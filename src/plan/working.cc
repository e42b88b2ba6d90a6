#include "plan/working.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "plan/quantity_text.h"

namespace stoker::plan {
namespace {

struct Constant {
  std::string_view name;
  std::string_view text;
};
constexpr Constant kConstants[] = {{"day", "86400 s"}, {"month", "30 d"}, {"year", "365 d"},
                                   {"GB", "1 GB"},     {"B", "B"},        {"TFLOP", "1 TFLOP"}};

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// What a name in a formula stands for; the name itself if it is a function.
std::string number_of(std::string_view name, const Answer& answer) {
  for (const Given& given : answer.given)
    if (given.name == name)
      return given.value.unit == Unit::text
                 ? given.text
                 : format_quantity_short(given.value.count, given.value.unit);
  for (const Step& step : answer.steps)
    if (step.name == name) return format_quantity_short(step.value.count, step.value.unit);
  for (const Constant& constant : kConstants)
    if (constant.name == name) return std::string(constant.text);
  return std::string(name);
}

/// Calls `see` with each name in the formula.
std::string with_numbers(std::string_view formula, const Answer& answer,
                         const std::function<void(std::string_view)>& see) {
  std::string text;
  while (!formula.empty()) {
    const auto end = std::ranges::find_if_not(formula, is_name);
    const std::string_view word(formula.begin(), end);
    if (!word.empty()) {
      see(word);
      text += number_of(word, answer);
    }
    formula.remove_prefix(word.size());
    if (formula.empty()) break;
    text += formula.front();
    formula.remove_prefix(1);
  }
  return text;
}

}  // namespace

Working::Working(std::string_view kind, std::string_view question, std::vector<Given> given) {
  answer_.kind = kind;
  answer_.question = question;
  answer_.given = std::move(given);
}

void Working::add(std::string_view name, std::string_view formula, Value value,
                  std::string_view note) {
  answer_.steps.push_back(
      {.name = std::string(name),
       .formula = std::string(formula),
       .numbers = with_numbers(formula, answer_, [this](std::string_view name) { uses(name); }),
       .value = value,
       .note = std::string(note)});
}

Result<Answer> Working::finish(const std::vector<std::string_view>& results) && {
  for (const Step& step : answer_.steps) {
    if (!std::isfinite(step.value.count))
      return Status(Code::invalid_argument,
                    fmt::format("{} = {} = {} is not a finite number: the inputs are too far apart",
                                step.name, step.formula, step.numbers));
  }
  for (Given& given : answer_.given) given.is_used = used_.contains(given.name);
  for (const std::string_view name : results)
    if (std::ranges::find(answer_.steps, name, &Step::name) != answer_.steps.end())
      answer_.results.emplace_back(name);
  return std::move(answer_);
}

double round_up(double quotient) noexcept {
  const double nearest = std::round(quotient);
  return std::abs(quotient - nearest) <= 1e-9 * nearest ? nearest : std::ceil(quotient);
}

}  // namespace stoker::plan
