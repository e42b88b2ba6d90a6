/// \file
/// A kind of plan: a row of the table that the command, its help, Python, JSON and the tests read.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/fields.h"
#include "plan/working.h"
#include "stoker/plan.h"

namespace stoker::plan {

struct Kind {
  std::string_view name;
  std::string_view question;  ///< "How fast must storage be for my GPUs?"
  std::string_view about;     ///< What the answer has and assumes, in a few lines.
  /// Options that show it, as a shell takes them: the second half of a command line.
  std::vector<std::string_view> examples;
  std::vector<Field> fields;
  /// Catalogue entries that count after those that the user names.
  std::vector<std::string_view> devices = {};
  std::vector<std::string_view> results = {};  ///< Steps that answer the question.
  bool has_plot = false;
  std::function<Result<Answer>(std::span<const Setting>)> run = {};

  const Field* find(std::string_view field_name) const noexcept;
};

/// Completes and checks the inputs, then lets `compute` write the steps.
template <typename Inputs>
Result<Answer> answer(const Kind& kind, Inputs inputs, Status (*compute)(const Inputs&, Working&)) {
  STOKER_ASSIGN(std::vector<Given> given, complete(kind.fields, &inputs));
  Working working(kind.name, kind.question, std::move(given));
  STOKER_TRY(compute(inputs, working));
  return std::move(working).finish(kind.results);
}

/// Reads the settings into the fields, and sets the texts and origins of what they gave.
/// `invalid_argument` names the field.
Status read_settings(const Kind& kind, std::span<const Setting> settings, void* inputs);
void set_origins(std::span<const Setting> settings, Answer& answer);

/// Completes a row: `solve` is the public function of the kind.
template <typename Inputs>
Kind with_function(Kind kind, Result<Answer> (*solve)(const Inputs&)) {
  kind.run = [solve, fields = kind](std::span<const Setting> settings) -> Result<Answer> {
    Inputs inputs;
    STOKER_TRY(read_settings(fields, settings, &inputs));
    STOKER_ASSIGN(Answer answer, solve(inputs));
    set_origins(settings, answer);
    return answer;
  };
  return kind;
}

/// A field that is missing, or that another one excludes.
Status refuse_field(std::string_view field, std::string_view why);

}  // namespace stoker::plan
