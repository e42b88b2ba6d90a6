#include "plan/kind.h"

#include <fmt/format.h>

#include <algorithm>

namespace stoker::plan {

const Field* Kind::find(std::string_view field_name) const noexcept {
  const auto found = std::ranges::find(fields, field_name, &Field::name);
  return found == fields.end() ? nullptr : &*found;
}

Status read_settings(const Kind& kind, std::span<const Setting> settings, void* inputs) {
  for (const Setting& setting : settings) {
    const Field* field = kind.find(setting.name);
    if (field == nullptr) {
      std::vector<std::string_view> names;
      for (const Field& known : kind.fields) names.push_back(known.name);
      return refuse_field(quotable(setting.name), fmt::format("{} has no such field; it has {}",
                                                              kind.name, fmt::join(names, ", ")));
    }
    const Status status = field->read(inputs, setting.text);
    if (!status.ok() && setting.origin != "given")
      return status.with_context(fmt::format("{} ({})", field->name, setting.origin));
    STOKER_TRY(status.with_context(field->name));
  }
  return {};
}

void set_origins(std::span<const Setting> settings, Answer& answer) {
  for (Given& given : answer.given) {
    const auto setting = std::ranges::find(settings, given.name, &Setting::name);
    if (setting == settings.end()) continue;
    given.text = setting->text;
    given.origin = setting->origin;
    given.source = setting->source;
  }
}

Status refuse_field(std::string_view field, std::string_view why) {
  return {Code::invalid_argument, fmt::format("{}: {}", field, why)};
}

}  // namespace stoker::plan
