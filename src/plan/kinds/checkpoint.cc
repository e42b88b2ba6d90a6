#include <fmt/format.h>

#include <algorithm>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

/// Adds the steps that lead to the size.
Result<Bytes> size_of(const CheckpointInputs& in, Working& work) {
  if (in.size && in.parameters)
    return refuse_field("size", "is what parameters say: give one of them");
  work.uses("size");
  if (in.size) return *in.size;
  if (!in.parameters) return refuse_field("size", "is missing: give it, or parameters");
  if (in.bytes_per_parameter)
    return work.step("checkpoint", "parameters * bytes_per_parameter",
                     *in.parameters * *in.bytes_per_parameter);
  work.uses("precision");
  work.uses("optimizer");
  const double width = *in.precision == "fp32" ? 4 : *in.precision == "fp8" ? 1 : 2;
  const double master = width < 4 && *in.optimizer != "none" ? 4 : 0;
  const double moments = *in.optimizer == "adam" ? 8 : *in.optimizer == "momentum" ? 4 : 0;
  const Bytes weight = work.step("weight", fmt::format("{} * B", width), Bytes{width},
                                 "One parameter in that precision.");
  const Bytes each =
      work.step("each", fmt::format("weight + {} * B + {} * B", master, moments),
                weight + Bytes{master + moments},
                "With the fp32 copy of the optimizer, if the precision is lower, and its moments.");
  work.step("weights_only", "parameters * weight", *in.parameters * weight);
  return work.step("checkpoint", "parameters * each", *in.parameters * each);
}

/// The loss of `interval` of training in each cycle, and what it costs.
Share loss_of(std::string_view kind, Seconds cycle, const CheckpointInputs& in, Working& work) {
  const std::string name = fmt::format("{}_loss", kind);
  const Share loss = work.step(name, fmt::format("1 - interval / {}_cycle", kind),
                               Share{1 - *in.interval / cycle});
  if (in.price)
    work.step(fmt::format("{}_cost_per_day", kind), fmt::format("gpus * price * day * {}", name),
              *in.gpus * *in.price * kDay * loss.of_one);
  return loss;
}

Status compute(const CheckpointInputs& in, Working& work) {
  STOKER_ASSIGN(const Bytes size, size_of(in, work));
  const std::string name = in.size ? "size" : "checkpoint";
  std::optional<Seconds> write;
  if (in.write_rate) {
    const BytesPerSecond rate =
        work.step("storage_rate", "drives * write_rate", *in.drives * *in.write_rate);
    write = work.step("write_time", name + " / storage_rate", size / rate,
                      "Until the checkpoint is durable.");
  }
  if (in.read_rate)
    work.step("restore_time", fmt::format("{} / (drives * read_rate)", name),
              size / (*in.drives * *in.read_rate));
  std::optional<Seconds> stall;
  if (in.link_rate)
    stall = work.step("stall", name + " / (links * link_rate)", size / (*in.links * *in.link_rate),
                      "An asynchronous save copies the state to host memory first.");
  if (!in.interval || !write) {
    work.binds(write ? "Storage: the time of a save is size by rate."
                     : fmt::format("The size: {} for each save.", say(size)));
    work.change(
        write ? "Give an interval to see what saving costs."
              : "Give a write rate, or --from DRIVE, for times. Half the bytes of a parameter "
                "halve all that follows from them.");
    return {};
  }
  const Seconds sync =
      work.step("synchronous_cycle", "interval + write_time", *in.interval + *write);
  const Share sync_loss = loss_of("synchronous", sync, in, work);
  if (!stall) {
    work.binds(fmt::format("Storage: {} of the time go into synchronous saves.", say(sync_loss)));
    work.change("Give --link-rate (and --links) for the loss of an asynchronous save.");
    return {};
  }
  const Seconds async = work.step("asynchronous_cycle", "stall + max(interval, write_time)",
                                  *stall + std::max(*in.interval, *write));
  const Share async_loss = loss_of("asynchronous", async, in, work);
  if (*write > *in.interval) {
    work.binds(
        fmt::format("Storage: a save takes {}, longer than the interval of {}, so the next "
                    "one waits and asynchronous saves lose {} of the time.",
                    say(*write), say(*in.interval), say(async_loss)));
    work.change(fmt::format("Storage of {}, or an interval of {}, would end the waiting.",
                            say(size / *in.interval), say(*write)));
  } else {
    work.binds(
        fmt::format("The links: an asynchronous save stops the training for {}, a "
                    "synchronous one for {}.",
                    say(*stall), say(*write)));
    work.change(
        "Twice the links halve the stall; faster storage only shortens what a failure "
        "can undo.");
  }
  return {};
}

}  // namespace

const Kind& checkpoint_kind() {
  static const Kind kind = with_function<CheckpointInputs>(
      {.name = "checkpoint",
       .question = "How large and slow is my checkpoint, and what does saving cost?",
       .about =
           "Sizes from parameters, times from the drives, and the loss of training time if the "
           "training waits for the write (synchronous) or only for the copy to host memory "
           "(asynchronous).",
       .examples = {"--parameters 70e9",
                    "--parameters 70e9 --drives 8 --write-rate 6.5GB/s --interval 500s --links 8 "
                    "--link-rate 55GB/s",
                    "--size 1400GB --write-rate 2GB/s --interval 500s --links 8 --from h100-sxm "
                    "--gpus 8 --price 3USD/h"},
       .fields =
           {field("parameters", &CheckpointInputs::parameters, "Parameters of the model: 70e9."),
            field("precision", &CheckpointInputs::precision, "Precision of the weights.")
                .of({"fp32", "bf16", "fp16", "fp8"})
                .otherwise("bf16"),
            field("optimizer", &CheckpointInputs::optimizer, "Optimizer whose state is saved.")
                .of({"none", "sgd", "momentum", "adam"})
                .otherwise("adam"),
            field("bytes_per_parameter", &CheckpointInputs::bytes_per_parameter,
                  "Bytes saved for a parameter, instead of precision and optimizer."),
            field("size", &CheckpointInputs::size, "Bytes of the checkpoint, if known."),
            field("drives", &CheckpointInputs::drives, "Drives, or targets, written in parallel.")
                .otherwise("1")
                .in(Range::whole),
            field("write_rate", &CheckpointInputs::write_rate,
                  "Sustained write rate of one drive."),
            field("read_rate", &CheckpointInputs::read_rate, "Read rate of one drive."),
            field("links", &CheckpointInputs::links, "GPUs that copy to host memory in parallel.")
                .otherwise("1")
                .in(Range::whole),
            field("link_rate", &CheckpointInputs::link_rate, "Rate of one GPU to host memory."),
            field("interval", &CheckpointInputs::interval, "Training time between two saves."),
            field("gpus", &CheckpointInputs::gpus, "GPUs that wait.")
                .otherwise("1")
                .in(Range::whole),
            field("price", &CheckpointInputs::price, "Price of a GPU.")},
       .results = {"weights_only", "checkpoint", "write_time", "restore_time", "stall",
                   "synchronous_loss", "synchronous_cost_per_day", "asynchronous_loss",
                   "asynchronous_cost_per_day"}},
      checkpoint);
  return kind;
}

Result<Answer> checkpoint(const CheckpointInputs& inputs) {
  return answer(checkpoint_kind(), inputs, compute);
}

}  // namespace stoker::plan
