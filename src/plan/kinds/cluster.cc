#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

/// A tier of the design: what it could do by what it has to do.
struct Tier {
  std::string name, holds, size, rates, devices;
  double headroom = 0;
  std::string binds;  ///< What decides the number of its devices.
  std::string next;   ///< What the next step gives, and costs.
};

/// What the training needs of storage.
struct Load {
  double nodes;
  BytesPerSecond reads;
  Bytes checkpoint;
};

/// The largest of several numbers of devices, and why.
struct Largest {
  double count = 0;
  std::string why;
  void take(double devices, std::string_view reason) {
    if (devices > count) why = reason;
    count = std::max(count, devices);
  }
};

Load add_load(const ClusterInputs& in, Working& work) {
  const double nodes =
      work.step("nodes", "ceil(gpus / gpus_per_node)", round_up(*in.gpus / *in.gpus_per_node));
  const BytesPerSecond reads =
      work.step("reads", "gpus * batch * sample / step",
                *in.gpus * *in.batch * *in.sample / *in.step, "What all GPUs read together.");
  const Bytes checkpoint = work.step("checkpoint", "parameters * bytes_per_parameter",
                                     *in.parameters * *in.bytes_per_parameter);
  return {.nodes = nodes, .reads = reads, .checkpoint = checkpoint};
}

Tier plan_memory(const ClusterInputs& in, const Load& load, Working& work) {
  const Bytes staging =
      work.step("memory_staging", "checkpoint / nodes", load.checkpoint / load.nodes,
                "Of a node: the copy that an asynchronous save writes.");
  const Bytes ahead = work.step("memory_ahead", "depth * batch * decoded * gpus_per_node",
                                *in.depth * *in.batch * *in.decoded * *in.gpus_per_node,
                                "Of a node: batches read ahead.");
  const Bytes needed = work.step("memory_needed", "memory_staging + memory_ahead", staging + ahead);
  const Seconds stall = work.step("stall", "checkpoint / (gpus * link_rate)",
                                  load.checkpoint / (*in.gpus * *in.link_rate));
  work.uses("memory_capacity");  // for the headroom
  return {.name = "memory",
          .holds = "staged save, batches",
          .size = say(needed) + " a node",
          .rates = fmt::format("{} a node", say(*in.gpus_per_node * *in.link_rate)),
          .devices = fmt::format("{} a node", say(*in.memory_capacity)),
          .headroom = *in.memory_capacity / needed,
          .binds = staging > ahead ? "the staged save" : "reading ahead",
          .next = fmt::format("another save in flight: {} a node; a save stops the training for {}",
                              say(staging), say(stall))};
}

Tier plan_cache(const ClusterInputs& in, const Load& load, Working& work) {
  const Bytes size = work.step("cache_size", "(dataset + cache_checkpoints * checkpoint) / nodes",
                               (*in.dataset + *in.cache_checkpoints * load.checkpoint) / load.nodes,
                               "Of a node: the nodes together hold the dataset once, and read each "
                               "other's part.");
  const BytesPerSecond reads =
      work.step("cache_reads", "reads / nodes", load.reads / load.nodes, "Of a node.");
  const BytesPerSecond writes =
      work.step("cache_writes", "checkpoint / nodes / cache_write_time",
                load.checkpoint / load.nodes / *in.cache_write_time, "Of a node, while it saves.");
  Largest drives;
  const auto need = [&](std::string_view name, std::string_view formula, double count,
                        std::string_view why) {
    drives.take(work.step(name, formula, round_up(count)), why);
  };
  need("cache_drives_for_size", "ceil(cache_size / cache_capacity)", size / *in.cache_capacity,
       "capacity");
  need("cache_drives_for_reads", "ceil(cache_reads / cache_read_rate)", reads / *in.cache_read_rate,
       "reads");
  need("cache_drives_for_writes", "ceil(cache_writes / cache_write_rate)",
       writes / *in.cache_write_rate, "writes of a save");
  need("cache_drives_for_life", "ceil(checkpoint / nodes / interval * life / cache_tbw)",
       load.checkpoint / load.nodes / *in.interval * *in.life / *in.cache_tbw, "endurance");
  const double count = work.step("cache_drives", fmt::format("{}", drives.count), drives.count,
                                 "Of a node: the largest of these.");
  const double headroom =
      std::min({count * *in.cache_capacity / size, count * *in.cache_read_rate / reads,
                count * *in.cache_write_rate / writes,
                count / (load.checkpoint / load.nodes / *in.interval * *in.life / *in.cache_tbw)});
  const double all = load.nodes * count;
  Tier tier{.name = "NVMe cache",
            .holds = fmt::format("dataset, {} saves", *in.cache_checkpoints),
            .size = say(count * *in.cache_capacity) + " a node",
            .rates = fmt::format("read {}, write {} a node", say(count * *in.cache_read_rate),
                                 say(count * *in.cache_write_rate)),
            .devices = fmt::format("drives: {:.0f}, {:.0f} a node", all, count),
            .headroom = headroom,
            .binds = drives.why,
            .next = fmt::format("a drive more in each node: {:.0f} drives", load.nodes)};
  if (in.cache_drive_price) {
    work.step("cache_cost", "nodes * cache_drives * cache_drive_price",
              all * *in.cache_drive_price);
    tier.next += fmt::format(", {}", say(load.nodes * *in.cache_drive_price));
  }
  return tier;
}

/// Sets `restore` to the time in which it gives a save back.
Tier plan_filesystem(const ClusterInputs& in, const Load& load, Seconds& restore, Working& work) {
  const Bytes size = work.step("filesystem_size", "filesystem_checkpoints * checkpoint",
                               *in.filesystem_checkpoints * load.checkpoint);
  const BytesPerSecond writes = work.step("filesystem_writes", "checkpoint / filesystem_write_time",
                                          load.checkpoint / *in.filesystem_write_time);
  Largest targets;
  targets.take(
      work.step("filesystem_targets_for_size", "ceil(filesystem_size / filesystem_target_capacity)",
                round_up(size / *in.filesystem_target_capacity)),
      "capacity");
  targets.take(
      work.step("filesystem_targets_for_writes", "ceil(filesystem_writes / filesystem_target_rate)",
                round_up(writes / *in.filesystem_target_rate)),
      "writes of a save");
  const double count = work.step("filesystem_targets", fmt::format("{}", targets.count),
                                 targets.count, "The larger of both.");
  const BytesPerSecond rate = count * *in.filesystem_target_rate;
  restore = work.step("restore_time", "checkpoint / (filesystem_targets * filesystem_target_rate)",
                      load.checkpoint / rate,
                      "If a node and its cache are lost; from the caches otherwise.");
  Tier tier{.name = "filesystem",
            .holds = fmt::format("{} saves", *in.filesystem_checkpoints),
            .size = say(count * *in.filesystem_target_capacity),
            .rates = say(rate),
            .devices = fmt::format("targets: {:.0f}", count),
            .headroom = std::min(count * *in.filesystem_target_capacity / size, rate / writes),
            .binds = targets.why,
            .next = fmt::format("a target more: {}", say(*in.filesystem_target_rate))};
  if (in.filesystem_target_price) {
    work.step("filesystem_cost", "filesystem_targets * filesystem_target_price",
              count * *in.filesystem_target_price);
    tier.next += fmt::format(", {}", say(*in.filesystem_target_price));
  }
  return tier;
}

Tier plan_objects(const ClusterInputs& in, Working& work) {
  const BytesPerSecond rate =
      work.step("objects_reads", "dataset / objects_fill_time", *in.dataset / *in.objects_fill_time,
                "To fill the caches before the first epoch.");
  const double at_once = work.step("objects_requests_at_once",
                                   "ceil(objects_reads / "
                                   "objects_request_rate)",
                                   round_up(rate / *in.objects_request_rate));
  Tier tier{.name = "object store",
            .holds = "dataset",
            .size = say(*in.dataset),
            .rates = "read " + say(rate),
            .devices = fmt::format("requests at once: {:.0f}", at_once),
            .headroom = at_once * *in.objects_request_rate / rate,
            .binds = "filling the caches",
            .next = fmt::format(
                "half the time to fill: {:.0f} requests at once, for the same money", 2 * at_once)};
  if (in.objects_get_price)
    work.step("objects_fill_cost", "ceil(dataset / objects_request) * objects_get_price / 1000",
              round_up(*in.dataset / *in.objects_request) / 1000 * *in.objects_get_price);
  if (in.objects_storage_price)
    tier.devices += fmt::format(
        ", {} a month", say(work.step("objects_cost_per_month", "dataset * objects_storage_price",
                                      *in.dataset * *in.objects_storage_price)));
  return tier;
}

/// Saves against failures, as in interval.cc.
void add_goodput(const ClusterInputs& in, const Load& load, Seconds restore, Working& work) {
  const Seconds mtbf = work.step("between_failures", "gpu_mtbf / gpus", *in.gpu_mtbf / *in.gpus,
                                 "One comes after this.");
  const Seconds stall = load.checkpoint / (*in.gpus * *in.link_rate);
  work.step("young", "sqrt(2 * stall * between_failures)", mtbf * std::sqrt(2 * (stall / mtbf)),
            "The interval that the stall alone would suggest; endurance and the write time forbid "
            "it where it is short.");
  const auto kept = [&](Seconds restart, Seconds write) {
    return *in.interval /
           (mtbf * std::exp((restart + write) / mtbf) * std::expm1((stall + *in.interval) / mtbf));
  };
  const double goodput = kept(*in.restart, *in.cache_write_time);
  work.step("goodput",
            "interval / (between_failures * exp((restart + cache_write_time) / between_failures) * "
            "(exp((stall + interval) / between_failures) - 1))",
            Share{goodput}, "If the caches outlive the failure, and the last save is read there.");
  if (in.price)
    work.step("lost_per_day", "gpus * price * day * (1 - goodput)",
              *in.gpus * *in.price * kDay * (1 - goodput), "Saves, repeated work and restarts.");
  const double without =
      kept(*in.restart + restore, *in.filesystem_write_time + *in.cache_write_time);
  work.step("goodput_without_caches",
            "interval / (between_failures * exp((restart + restore_time + filesystem_write_time + "
            "cache_write_time) / between_failures) * (exp((stall + interval) / between_failures) - "
            "1))",
            Share{without},
            "If each failure takes the cache of a node with it, and the filesystem restores.");
  if (in.price)
    work.step("lost_per_day_without_caches", "gpus * price * day * (1 - goodput_without_caches)",
              *in.gpus * *in.price * kDay * (1 - without));
}

Status compute(const ClusterInputs& in, Working& work) {
  if (*in.filesystem_write_time > *in.interval)
    return refuse_field("filesystem_write_time", "is longer than interval: saves would pile up");
  if (*in.cache_write_time > *in.interval)
    return refuse_field("cache_write_time", "is longer than interval: saves would pile up");
  const Load load = add_load(in, work);
  Seconds restore{0};
  const Tier tiers[] = {plan_memory(in, load, work), plan_cache(in, load, work),
                        plan_filesystem(in, load, restore, work), plan_objects(in, work)};
  add_goodput(in, load, restore, work);
  work.row({"tier", "holds", "size", "rate", "devices", "headroom", "decided by", "next step"});
  for (const Tier& tier : tiers)
    work.row({tier.name, tier.holds, tier.size, tier.rates, tier.devices,
              fmt::format("{:.2f} x", tier.headroom), tier.binds, tier.next});
  // The store grows with its bill: no number of devices binds it.
  const Tier& least =
      *std::min_element(std::begin(tiers), std::end(tiers) - 1,
                        [](const Tier& a, const Tier& b) { return a.headroom < b.headroom; });
  work.binds(least.headroom < 1
                 ? fmt::format("{}: it is too small, it has {:.2f} of what {} needs.", least.name,
                               least.headroom, least.binds)
                 : fmt::format("{}, by {}: it has {:.2f} times what these GPUs need, the least of "
                               "all tiers.",
                               least.name, least.binds, least.headroom));
  for (const Tier& tier : tiers) work.change(fmt::format("{}: {}.", tier.name, tier.next));
  return {};
}

}  // namespace

const Kind& cluster_kind() {
  using In = ClusterInputs;
  static const Kind kind = with_function<In>(
      {.name = "cluster",
       .question = "Which tiers of storage do N GPUs need?",
       .about =
           "Memory, an NVMe cache in each node, a shared filesystem and an object store: sizes, "
           "rates, devices, which tier binds, what the next step costs.",
       .examples = {"--example > workload.toml", "workload.toml"},
       .fields =
           {field("gpus", &In::gpus, "GPUs of the job.").required().in(Range::whole),
            field("gpus_per_node", &In::gpus_per_node, "GPUs of a node.")
                .otherwise("8")
                .in(Range::whole),
            field("batch", &In::batch, "Samples that each GPU takes in a step.").required(),
            field("sample", &In::sample, "Bytes of a sample as it is stored.").required(),
            field("decoded", &In::decoded, "Bytes of a sample in memory.").required(),
            field("step", &In::step, "Time of a training step.").required(),
            field("depth", &In::depth, "Batches read ahead for each GPU.").otherwise("4"),
            field("dataset", &In::dataset, "Bytes of the dataset.").required(),
            field("parameters", &In::parameters, "Parameters of the model.").required(),
            field("bytes_per_parameter", &In::bytes_per_parameter, "Bytes saved for each of them.")
                .otherwise("14B"),
            field("interval", &In::interval, "Training time between two saves.").otherwise("30min"),
            field("gpu_mtbf", &In::gpu_mtbf, "Mean time between failures that one GPU causes.")
                .otherwise("50000h"),
            field("restart", &In::restart, "Time from a failure until training continues.")
                .otherwise("5min"),
            field("life", &In::life, "Time for which the drives must live.").otherwise("1826d"),
            field("link_rate", &In::link_rate, "Rate of one GPU to host memory.").required(),
            field("price", &In::price, "Price of a GPU."),
            field("memory_capacity", &In::memory_capacity, "Memory of a node.").required(),
            field("cache_read_rate", &In::cache_read_rate, "Read rate of a drive.").required(),
            field("cache_write_rate", &In::cache_write_rate, "Write rate of a drive.").required(),
            field("cache_capacity", &In::cache_capacity, "Capacity of a drive.").required(),
            field("cache_tbw", &In::cache_tbw, "Endurance of a drive, in bytes.").required(),
            field("cache_checkpoints", &In::cache_checkpoints, "Saves that the cache keeps.")
                .otherwise("2"),
            field("cache_write_time", &In::cache_write_time, "Time in which a save is written.")
                .otherwise("60s"),
            field("cache_drive_price", &In::cache_drive_price, "Price of a drive."),
            field("filesystem_target_rate", &In::filesystem_target_rate, "Rate of a target.")
                .required(),
            field("filesystem_target_capacity", &In::filesystem_target_capacity,
                  "Capacity of a target.")
                .required(),
            field("filesystem_checkpoints", &In::filesystem_checkpoints, "Saves that it keeps.")
                .otherwise("20"),
            field("filesystem_write_time", &In::filesystem_write_time,
                  "Time in which a save is copied to it.")
                .otherwise("10min"),
            field("filesystem_target_price", &In::filesystem_target_price, "Price of a target."),
            field("objects_fill_time", &In::objects_fill_time,
                  "Time in which the caches are filled.")
                .otherwise("4h"),
            field("objects_request", &In::objects_request, "Bytes of a ranged read.")
                .otherwise("8MiB"),
            field("objects_request_rate", &In::objects_request_rate, "Rate of one request.")
                .required(),
            field("objects_storage_price", &In::objects_storage_price,
                  "Price of bytes for a month: 0.023USD/GiB."),
            field("objects_get_price", &In::objects_get_price, "Price of 1,000 reads.")},
       .results = {"reads", "checkpoint", "cache_drives", "filesystem_targets", "goodput",
                   "goodput_without_caches"}},
      cluster);
  return kind;
}

Result<Answer> cluster(const ClusterInputs& inputs) {
  return answer(cluster_kind(), inputs, compute);
}

}  // namespace stoker::plan
