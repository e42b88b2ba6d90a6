#include "engine_setting.h"

#include <cstdlib>

#include "raise.h"

namespace stoker::python {

EngineKind engine_setting() {
  const char* name = std::getenv("STOKER_ENGINE");
  if (name == nullptr || *name == '\0') return EngineKind::automatic;
  const Result<EngineKind> kind = parse_engine_kind(name);
  if (!kind.ok()) raise_if_failed(kind.status().with_context("STOKER_ENGINE"));
  return *kind;
}

}  // namespace stoker::python
