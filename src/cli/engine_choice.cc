#include "cli/engine_choice.h"

#include <cstdlib>

namespace stoker::cli {
namespace {

constexpr const char* kEngineVariable = "STOKER_ENGINE";

}  // namespace

Result<EngineKind> choose_engine(const std::string& flag) {
  if (!flag.empty()) {
    Result<EngineKind> kind = parse_engine_kind(flag);
    return kind.ok() ? kind : kind.status().with_context("--engine");
  }
  const char* setting = std::getenv(kEngineVariable);
  if (setting == nullptr || *setting == '\0') return EngineKind::automatic;
  Result<EngineKind> kind = parse_engine_kind(setting);
  return kind.ok() ? kind : kind.status().with_context(kEngineVariable);
}

Result<EngineKind> try_engine() {
  STOKER_ASSIGN(const EngineKind kind, choose_engine(""));
  if (kind == EngineKind::automatic) return kind;
  const Result<std::unique_ptr<Engine>> engine = make_engine(kind, {.depth = 1});
  if (engine.ok()) return kind;
  std::string message = std::string(kEngineVariable).append("=").append(engine_kind_name(kind));
  message.append(" does not work here (").append(engine.status().message());
  return Status(Code::unsupported, message + "): use auto or threads", engine.status().os_error());
}

}  // namespace stoker::cli
