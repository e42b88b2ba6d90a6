#include <fmt/format.h>

#include <memory>

#include "cli/line_text.h"
#include "cli/plan/command.h"
#include "cli/result_writer.h"
#include "formats/json/json.h"
#include "plan/kinds/catalogue.h"
#include "plan/quantity_text.h"
#include "stoker/plan.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(A key of a device is an option of a plan: --from NAME fills those that are not given.
docs/planning.md says how to write a catalogue of your own.

Examples:
  stoker plan devices
  stoker plan devices --print > mine.toml
  stoker plan devices --catalogue mine.toml --json)";

struct Typed {
  std::optional<std::string> catalogue;
  bool print = false;
  bool json = false;
};

std::string render_device(const plan::Device& device) {
  std::string text = fmt::format("{} ({})\n ", printable(device.name), printable(device.kind));
  for (const plan::Setting& setting : device.settings)
    text += fmt::format(" {} {}", setting.name, printable(setting.text));
  return text + fmt::format("\n  source: {}", printable(device.source));
}

std::string render_device_json(const plan::Device& device) {
  Json values = Json::object();
  for (const plan::Setting& setting : device.settings) values[setting.name] = setting.text;
  const Json json = {{"name", device.name},
                     {"kind", device.kind},
                     {"source", device.source},
                     {"units", plan::kUnitsNote},
                     {"values", std::move(values)}};
  return json.dump();
}

Status run(const Typed& typed, Context& context) {
  if (typed.print) return write_out(context, plan::device_catalogue());
  STOKER_ASSIGN(const std::string catalogue, read_named_file("--catalogue", typed.catalogue));
  STOKER_ASSIGN(const std::vector<plan::Device> devices, plan::all_devices(catalogue));
  ResultWriter out(context);
  if (!typed.json) STOKER_TRY(out.line(fmt::format("({})", plan::kUnitsNote)));
  for (const plan::Device& device : devices)
    STOKER_TRY(out.line(typed.json ? render_device_json(device) : render_device(device)));
  return out.flush();
}

}  // namespace

void add_plan_devices_command(Command& parent, Context& context) {
  const auto typed = std::make_shared<Typed>();
  Command* command = parent.add_subcommand("devices", "List the catalogue of devices.");
  command
      ->add_option("--catalogue", typed->catalogue,
                   "File with devices of your own: they precede Stoker's of the same name.")
      ->as_path();
  command->add_flag("--print", typed->print, "Print Stoker's catalogue as a file.");
  command->add_flag("--json", typed->json, "Print one JSON object for each device.");
  command->footer(kFooter);
  on_chosen(*command, typed, context, run);
}

}  // namespace stoker::cli
