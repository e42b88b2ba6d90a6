/// \file
/// The fields of a kind of plan: from one list of them come the options of the command, the
/// arguments in Python, the inputs in an answer, and every check.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/quantity_text.h"
#include "stoker/plan.h"

namespace stoker::plan {

/// Which values a field may have. Nothing may be negative.
enum class Range { positive, zero_too, whole, above_one };

/// One field of a struct of inputs, as an untyped pointer.
struct Field {
  std::string_view name;
  std::string_view help;           ///< One sentence.
  std::string_view fallback = {};  ///< The default as text; empty if there is none.
  bool is_required = false;
  Range range = Range::positive;
  std::vector<std::string_view> words = {};  ///< All valid values of a word.
  Unit unit = Unit::number;
  std::function<Status(void* inputs, std::string_view text)> read = {};
  std::function<std::optional<Given>(const void* inputs)> get = {};

  Field&& required() && {
    is_required = true;
    return std::move(*this);
  }
  Field&& otherwise(std::string_view text) && {
    fallback = text;
    return std::move(*this);
  }
  Field&& in(Range wanted) && {
    range = wanted;
    return std::move(*this);
  }
  Field&& of(std::vector<std::string_view> valid) && {
    words = std::move(valid);
    return std::move(*this);
  }
};

template <typename T>
double base_count(const T& value) {
  return count_of(value);
}

template <typename Inputs, typename T>
Field field(std::string_view name, std::optional<T> Inputs::* member, std::string_view help) {
  Field made{.name = name, .help = help, .unit = kUnitOf<T>};
  made.read = [member](void* inputs, std::string_view text) -> Status {
    STOKER_ASSIGN(const double count, parse_quantity(text, kUnitOf<T>));
    (static_cast<Inputs*>(inputs)->*member).emplace(T{count});
    return {};
  };
  made.get = [name, member](const void* inputs) -> std::optional<Given> {
    const std::optional<T>& value = static_cast<const Inputs*>(inputs)->*member;
    if (!value) return std::nullopt;
    const double count = count_of(*value);
    return Given{.name = std::string(name),
                 .text = format_quantity(count, kUnitOf<T>),
                 .value = {count, kUnitOf<T>},
                 .origin = "given",
                 .source = {}};
  };
  return made;
}

template <typename Inputs>
Field field(std::string_view name, std::optional<std::string> Inputs::* member,
            std::string_view help) {
  Field made{.name = name, .help = help, .unit = Unit::text};
  made.read = [member](void* inputs, std::string_view text) -> Status {
    static_cast<Inputs*>(inputs)->*member = std::string(text);
    return {};
  };
  made.get = [name, member](const void* inputs) -> std::optional<Given> {
    const std::optional<std::string>& value = static_cast<const Inputs*>(inputs)->*member;
    if (!value) return std::nullopt;
    return Given{.name = std::string(name),
                 .text = *value,
                 .value = {0, Unit::text},
                 .origin = "given",
                 .source = {}};
  };
  return made;
}

/// Sets the defaults of what is not set, then checks every field. Returns the inputs as they are
/// used, in the order of the fields.
Result<std::vector<Given>> complete(const std::vector<Field>& fields, void* inputs);

}  // namespace stoker::plan
