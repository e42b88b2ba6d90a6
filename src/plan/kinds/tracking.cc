#include <fmt/format.h>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

Status compute(const TrackingInputs& in, Working& work) {
  const double points = work.step("points", "runs * metrics * steps / every",
                                  *in.runs * *in.metrics * *in.steps / *in.every);
  const Bytes metrics = work.step("metrics_size", "points * point", points * *in.point);
  const Bytes artifacts = work.step("artifacts_size", "runs * artifacts * artifact",
                                    *in.runs * *in.artifacts * *in.artifact);
  const Bytes total = work.step("total", "metrics_size + artifacts_size", metrics + artifacts);
  if (in.time) work.step("points_per_second", "points / time", points / *in.time);
  if (in.storage_price)
    work.step("storage_cost_per_month", "total * storage_price", total * *in.storage_price);
  if (artifacts > metrics) {
    work.binds(fmt::format("Artifacts: {} of {}.", say(artifacts), say(total)));
    work.change("Keep fewer artifacts, or store them where checkpoints are.");
  } else {
    work.binds(fmt::format("Metrics: {} of {}.", say(metrics), say(total)));
    work.change("Log every tenth step: a tenth of the points.");
  }
  return {};
}

}  // namespace

const Kind& tracking_kind() {
  static const Kind kind = with_function<TrackingInputs>(
      {.name = "tracking",
       .question = "How much storage does experiment tracking take?",
       .about = "Metrics as points, and artifacts of each run. A point is a step, a time and a "
                "value: 24 bytes before names, indexes and compression.",
       .examples = {"--runs 1000 --metrics 50 --steps 100000 --every 10 --artifacts 3 --artifact "
                    "2GB"},
       .fields =
           {field("runs", &TrackingInputs::runs, "Runs that are kept.").required(),
            field("metrics", &TrackingInputs::metrics, "Metrics of a run.").required(),
            field("steps", &TrackingInputs::steps, "Steps of a run.").required(),
            field("every", &TrackingInputs::every, "Steps between two points.").otherwise("1"),
            field("point", &TrackingInputs::point, "Bytes of a point.").otherwise("24B"),
            field("artifacts", &TrackingInputs::artifacts, "Artifacts of a run.")
                .otherwise("0")
                .in(Range::zero_too),
            field("artifact", &TrackingInputs::artifact, "Bytes of an artifact.")
                .otherwise("0B")
                .in(Range::zero_too),
            field("time", &TrackingInputs::time, "Time in which the points come."),
            field("storage_price", &TrackingInputs::storage_price,
                  "Price of bytes for a month: 0.023USD/GiB.")},
       .results = {"total", "storage_cost_per_month"}},
      tracking);
  return kind;
}

Result<Answer> tracking(const TrackingInputs& inputs) {
  return answer(tracking_kind(), inputs, compute);
}

}  // namespace stoker::plan
