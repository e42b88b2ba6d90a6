/// \file
/// Writes down a calculation while it is made.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plan/quantity_text.h"
#include "stoker/plan.h"

namespace stoker::plan {

/// Thread safety: none.
class Working {
 public:
  Working(std::string_view kind, std::string_view question, std::vector<Given> given);

  /// Adds a step and returns its value. The formula names fields and earlier steps; "day", "month",
  /// "GB" and "TFLOP" are constants.
  template <typename Q>
  Q step(std::string_view name, std::string_view formula, Q value, std::string_view note = {}) {
    add(name, formula, {count_of(value), kUnitOf<Q>}, note);
    return value;
  }
  /// Says that an input matters which no formula names.
  void uses(std::string_view field) { used_.insert(std::string(field)); }
  void binds(std::string text) { answer_.binds.push_back(std::move(text)); }
  void change(std::string text) { answer_.changes.push_back(std::move(text)); }
  void row(std::vector<std::string> cells) { answer_.table.push_back(std::move(cells)); }
  void plot(Plot plot) { answer_.plot = std::move(plot); }

  /// Returns the answer, with those of `results` that are steps, and with the inputs marked that
  /// nothing uses. `invalid_argument` names the step
  /// that is not a finite number: its inputs are too far apart.
  Result<Answer> finish(const std::vector<std::string_view>& results) &&;

 private:
  void add(std::string_view name, std::string_view formula, Value value, std::string_view note);

  Answer answer_;
  std::set<std::string, std::less<>> used_;  ///< Names in formulas, and what uses() said.
};

/// "1.3312 GB/s", "2,812,500 s (32.552 d)": a quantity in a sentence.
template <typename Q>
std::string say(Q value) {
  const bool is_time = kUnitOf<Q> == Unit::seconds;
  return (is_time ? format_quantity : format_quantity_short)(count_of(value), kUnitOf<Q>);
}

/// Rounds up; a quotient that is whole but for an error of rounding stays.
double round_up(double quotient) noexcept;

}  // namespace stoker::plan
