#include <fmt/format.h>

#include <algorithm>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

/// The rate at which a byte is written, over the bytes written before it.
Plot plot_of(const CliffInputs& in, Bytes full, std::optional<BytesPerSecond> limit) {
  const double size = in.size->count();
  const double edge = std::min(full.count(), size);
  Plot plot{.title = "Rate over bytes written at once",
            .x_name = "written",
            .y_name = "rate",
            .x_unit = Unit::bytes,
            .y_unit = Unit::bytes_per_second};
  plot.lines.push_back(
      {"without a limit", {{0, in.fast_rate->count()}, {edge, in.fast_rate->count()}}});
  if (edge < size) {
    plot.lines[0].points.emplace_back(edge, in.slow_rate->count());
    plot.lines[0].points.emplace_back(size, in.slow_rate->count());
  }
  if (limit)
    plot.lines.push_back({"with the limit", {{0, limit->count()}, {size, limit->count()}}});
  return plot;
}

Status compute(const CliffInputs& in, Working& work) {
  if (*in.slow_rate > *in.fast_rate)
    return refuse_field("slow_rate",
                        "is larger than fast_rate: behind the cliff a drive is slower");
  if (*in.drain_rate >= *in.fast_rate) {
    work.uses("drain_rate");
    const Seconds time = work.step("time", "size / fast_rate", *in.size / *in.fast_rate);
    work.binds(
        fmt::format("Nothing: the cache drains as fast as it fills; {} for all.", say(time)));
    work.change("Only a faster drive.");
    return {};
  }
  const Seconds full =
      work.step("full_after", "cache / (fast_rate - drain_rate)",
                *in.cache / (*in.fast_rate - *in.drain_rate), "The cache drains while it fills.");
  const Bytes edge = work.step("full_at", "fast_rate * full_after", *in.fast_rate * full,
                               "Bytes written at full speed: more than the cache has.");
  work.step("refill", "cache / drain_rate", *in.cache / *in.drain_rate,
            "Without writes, until a full cache is empty again.");
  if (*in.size <= edge) {
    work.step("time", "size / fast_rate", *in.size / *in.fast_rate);
    work.binds(fmt::format("Nothing: {} are written before the cache is full, at {}.",
                           say(*in.size), say(*in.fast_rate)));
    work.change(fmt::format("Writes of more than {} at once would meet the cliff.", say(edge)));
    work.plot(plot_of(in, edge, std::nullopt));
    return {};
  }
  const Seconds time = work.step("time", "full_after + (size - full_at) / slow_rate",
                                 full + (*in.size - edge) / *in.slow_rate);
  work.step("average", "size / time", *in.size / time);
  // The cache is full exactly when the last byte arrives: (limit - drain) * size / limit = cache.
  const BytesPerSecond limit = work.step("limit", "drain_rate * size / (size - cache)",
                                         *in.drain_rate * (*in.size / (*in.size - *in.cache)),
                                         "The fastest rate that never fills the cache.");
  const Seconds limited = work.step("limited_time", "size / limit", *in.size / limit);
  work.binds(fmt::format("The cache of {}: it is full after {}.", say(*in.cache), say(full)));
  work.change(limited < time
                  ? fmt::format("Limit the writes to {}: {} instead of {}.", say(limit),
                                say(limited), say(time))
                  : fmt::format("A limit does not help: behind the cliff the drive writes {}, "
                                "which is faster.",
                                say(*in.slow_rate)));
  work.change("Drives that share the write divide its size: each has a cache of its own.");
  work.plot(plot_of(in, edge, limit));
  return {};
}

}  // namespace

const Kind& cliff_kind() {
  static const Kind kind = with_function<CliffInputs>(
      {.name = "cliff",
       .question = "Which rate avoids the write cliff?",
       .about = "A drive writes into a fast cache (SLC) that drains into slow flash at the same "
                "time. `stoker bench cliff` measures the cache and the rates.",
       .examples = {"--size 140GB --cache 50GB --fast-rate 3GB/s --drain-rate 600MB/s --slow-rate "
                    "300MB/s",
                    "--size 140GB --cache 50GB --fast-rate 3GB/s --drain-rate 600MB/s --slow-rate "
                    "300MB/s --plot cliff.svg"},
       .fields =
           {field("size", &CliffInputs::size, "Bytes written at once.").required(),
            field("cache", &CliffInputs::cache, "Bytes that the cache takes.").required(),
            field("fast_rate", &CliffInputs::fast_rate, "Rate into the cache.").required(),
            field("drain_rate", &CliffInputs::drain_rate,
                  "Rate at which the cache drains while it is written to, and alone.")
                .required(),
            field("slow_rate", &CliffInputs::slow_rate, "Rate when the cache is full.").required()},
       .results = {"limit", "limited_time", "time", "refill"},
       .has_plot = true},
      cliff);
  return kind;
}

Result<Answer> cliff(const CliffInputs& inputs) {
  return answer(cliff_kind(), inputs, compute);
}

}  // namespace stoker::plan
