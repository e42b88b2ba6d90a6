#include "cli/version_text.h"

#include <fmt/format.h>

#include "base/build_info.h"
#include "cli/engine_choice.h"
#include "formats/json/json.h"

namespace stoker::cli {
namespace {

/// The engine of commands that are not told another one. An invalid STOKER_ENGINE is not an error
/// here: commands that use an engine report it.
EngineChoice engine_in_use() {
  const Result<EngineKind> chosen = choose_engine("");
  if (!chosen.ok() || *chosen == EngineKind::automatic) return probe_engine();
  return {.kind = *chosen, .reason = "STOKER_ENGINE names it"};
}

}  // namespace

std::string version_text() {
  const BuildInfo info = build_info();
  const EngineChoice engine = engine_in_use();
  std::string libraries;
  for (const LibraryVersion& library : info.libraries)
    libraries +=
        fmt::format("{}{} {}", libraries.empty() ? "" : ", ", library.name, library.version);
  return fmt::format(
      "stoker {}\n"
      "revision   {}\n"
      "compiler   {}, {}\n"
      "libraries  {}\n"
      "engine     {} ({})",
      info.version, info.revision, info.compiler, info.platform, libraries,
      engine_kind_name(engine.kind), engine.reason);
}

std::string version_json() {
  const BuildInfo info = build_info();
  const EngineChoice engine = engine_in_use();
  Json libraries = Json::object();
  for (const LibraryVersion& library : info.libraries) libraries[library.name] = library.version;
  Json json = {{"version", info.version},           {"revision", info.revision},
               {"compiler", info.compiler},         {"platform", info.platform},
               {"libraries", std::move(libraries)}, {"engine", engine_kind_name(engine.kind)},
               {"engine_reason", engine.reason}};
  return json.dump();
}

}  // namespace stoker::cli
