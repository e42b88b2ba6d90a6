#include "bench/bench_engine.h"

#include <utility>

namespace stoker {
namespace {

/// A measurement may use a whole core, as fio does.
constexpr nanoseconds kSpin = std::chrono::microseconds(50);

}  // namespace

Result<BenchEngine> make_bench_engine(EngineKind kind, std::uint32_t depth) {
  std::string reason = "asked for";
  if (kind == EngineKind::automatic) {
    EngineChoice choice = probe_engine();
    kind = choice.kind;
    reason = std::move(choice.reason);
  }
  Result<std::unique_ptr<Engine>> engine = make_engine(kind, {.depth = depth, .spin = kSpin});
  if (engine.ok()) return BenchEngine{*std::move(engine), std::move(reason)};
  std::string message = "the engine ";
  message.append(engine_kind_name(kind)).append(" does not work here (");
  message.append(engine.status().message()).append("): use --engine auto or threads");
  return Status(Code::unsupported, std::move(message), engine.status().os_error());
}

}  // namespace stoker
