#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"
#include "plan/kinds/catalogue.h"
#include "plan/kinds/table.h"
#include "raise.h"
#include "stoker/plan.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

nb::str text_of(std::string_view text) {
  return nb::str(text.data(), text.size());
}

nb::dict kind_of(const plan::Kind& kind) {
  nb::list fields;
  for (const plan::Field& field : kind.fields) {
    nb::dict one;
    one["name"] = text_of(field.name);
    one["help"] = text_of(field.help);
    one["default"] = text_of(field.fallback);
    one["required"] = field.is_required;
    fields.append(std::move(one));
  }
  nb::dict all;
  all["name"] = text_of(kind.name);
  all["question"] = text_of(kind.question);
  all["about"] = text_of(kind.about);
  all["fields"] = std::move(fields);
  return all;
}

using Settings = std::vector<std::pair<std::string, std::string>>;

/// JSON, report and, if there is a curve, SVG.
nb::tuple plan_answer(std::string kind, const Settings& settings, std::vector<std::string> devices,
                      std::string catalogue, std::string workload) {
  plan::Request request{.kind = std::move(kind),
                        .devices = std::move(devices),
                        .catalogue = std::move(catalogue),
                        .workload = std::move(workload)};
  for (const auto& [name, text] : settings)
    request.settings.push_back({.name = name, .text = text});
  const plan::Answer answer = value_or_raise(plan::compute(request));
  std::optional<std::string> svg;
  if (answer.plot) svg = value_or_raise(plan::render_svg(answer));
  return nb::make_tuple(plan::render_json(answer), plan::render_text(answer), svg);
}

nb::list plan_devices(const std::string& catalogue) {
  nb::list all;
  for (const plan::Device& device : value_or_raise(plan::all_devices(catalogue))) {
    nb::dict values;
    for (const plan::Setting& setting : device.settings)
      values[nb::str(setting.name.c_str())] = setting.text;
    nb::dict one;
    one["name"] = device.name;
    one["kind"] = device.kind;
    one["source"] = device.source;
    one["values"] = std::move(values);
    all.append(std::move(one));
  }
  return all;
}

}  // namespace

// Nothing here takes long enough to let go of the GIL.
void bind_plan(nb::module_& module) {
  module.def(
      "plan_kinds",
      [] {
        nb::list all;
        for (const plan::Kind* kind : plan::kinds()) all.append(kind_of(*kind));
        return all;
      },
      nb::sig("def plan_kinds() -> list[dict[str, typing.Any]]"),
      "Returns name, question and fields of every kind of plan.");
  module.def(
      "plan_answer", &plan_answer, "kind"_a, "settings"_a, "devices"_a, "catalogue"_a, "workload"_a,
      nb::sig("def plan_answer(kind: str, settings: Sequence[tuple[str, str]], devices: "
              "Sequence[str], catalogue: str, workload: str) -> tuple[str, str, str | None]"),
      "Returns an answer as JSON, as text and, if it has a curve, as SVG.");
  module.def("plan_devices", &plan_devices, "catalogue"_a,
             nb::sig("def plan_devices(catalogue: str) -> list[dict[str, typing.Any]]"),
             "Returns the devices of a catalogue, then Stoker's.");
}

}  // namespace stoker::python
