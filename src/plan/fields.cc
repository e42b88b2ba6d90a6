#include "plan/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace stoker::plan {
namespace {

/// More than any cluster has of anything, and less; products of a few stay finite.
constexpr double kCountMax = 1e24, kCountMin = 1e-24;

std::string why_invalid(const Field& field, const Given& given) {
  if (field.unit == Unit::text) {
    if (std::ranges::find(field.words, given.text) != field.words.end()) return "";
    return fmt::format("\"{}\" is not one of {}", quotable(given.text),
                       fmt::join(field.words, ", "));
  }
  const double count = given.value.count;
  if (!std::isfinite(count)) return "is not a finite number";
  if (count < 0) return "is negative";
  if (count == 0 && field.range != Range::zero_too) return "is zero: it must be larger";
  if (count != 0 && count < kCountMin) return fmt::format("is smaller than {:g}", kCountMin);
  if (count > kCountMax) return fmt::format("is larger than {:g}", kCountMax);
  if (field.unit == Unit::share && count > 1) return "is more than 100%";
  if (field.range == Range::whole && count != std::floor(count)) return "is not a whole number";
  if (field.range == Range::above_one && count < 1) return "is less than 1";
  return "";
}

}  // namespace

Result<std::vector<Given>> complete(const std::vector<Field>& fields, void* inputs) {
  std::vector<Given> all;
  for (const Field& field : fields) {
    std::optional<Given> given = field.get(inputs);
    const auto refuse = [&field](std::string_view why) {
      return Status(Code::invalid_argument, fmt::format("{}: {}", field.name, why));
    };
    if (!given && !field.fallback.empty()) {
      STOKER_TRY(field.read(inputs, field.fallback).with_context(field.name));
      given = field.get(inputs);
      given->text = field.fallback;
      given->origin = "default";
    }
    if (!given && field.is_required)
      return refuse(fmt::format("is missing: {} Give {}", field.help, unit_example(field.unit)));
    if (!given) continue;
    if (const std::string why = why_invalid(field, *given); !why.empty()) return refuse(why);
    all.push_back(*std::move(given));
  }
  return all;
}

}  // namespace stoker::plan
