#include <fmt/format.h>

#include <algorithm>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

Status compute(const TargetsInputs& in, Working& work) {
  if (in.write_size.has_value() != in.write_time.has_value())
    return refuse_field(in.write_size ? "write_time" : "write_size",
                        "is missing: write_size and write_time belong together");
  if (in.write_size && in.write_load)
    return refuse_field("write_load", "is what write_size and write_time say: give one of them");
  std::optional<BytesPerSecond> writes = in.write_load;
  std::string write_name = "write_load";
  if (in.write_size) {
    writes = work.step("writes", "write_size / write_time", *in.write_size / *in.write_time);
    write_name = "writes";
  }
  if (!writes && !in.read_load && !in.stored)
    return refuse_field("read_load",
                        "is missing: give it, or write_load, or write_size and "
                        "write_time, or stored");
  double count = 0;
  std::string largest;
  const auto need = [&](std::string_view name, std::string_view formula, double targets,
                        std::string_view what) {
    work.step(name, formula, targets);
    if (targets > count) largest = what;
    count = std::max(count, targets);
  };
  if (writes)
    need("targets_for_writes", fmt::format("ceil({} / target_rate)", write_name),
         round_up(*writes / *in.target_rate), "writes");
  if (in.read_load && writes)
    need("targets_for_both", fmt::format("ceil(({} + read_load) / target_rate)", write_name),
         round_up((*writes + *in.read_load) / *in.target_rate), "writes and reads at once");
  else if (in.read_load)
    need("targets_for_reads", "ceil(read_load / target_rate)",
         round_up(*in.read_load / *in.target_rate), "reads");
  if (in.stored && in.target_capacity)
    need("targets_for_capacity", "ceil(stored / target_capacity)",
         round_up(*in.stored / *in.target_capacity), "capacity");
  if (in.stored && !in.target_capacity)
    return refuse_field("target_capacity", "is missing: stored needs it");
  const double targets =
      work.step("targets", fmt::format("{}", count), count, "The largest of these.");
  if (in.target_price) work.step("price", "targets * target_price", targets * *in.target_price);
  if (in.dataset && in.read_load)
    work.step("epoch", "dataset / read_load", *in.dataset / *in.read_load,
              "Reading all of it once at the rate that the GPUs need.");
  work.binds(fmt::format("The {}: {:.0f} targets or drives of {}.", largest, targets,
                         say(*in.target_rate)));
  if (in.write_size) {
    work.change(fmt::format("Twice the time for the writes, {}, needs {:.0f} targets for them.",
                            say(2 * *in.write_time), round_up(*writes / 2 / *in.target_rate)));
  }
  work.change(
      "Count the rate that a target keeps up with its redundancy: with 8+2 parity the "
      "drives write 1.25 times as much.");
  return {};
}

}  // namespace

const Kind& targets_kind() {
  static const Kind kind = with_function<TargetsInputs>(
      {.name = "targets",
       .question = "How many storage targets or drives do I need?",
       .about = "A target is what stores a stripe: an OST of Lustre, a drive, a node of a store.",
       .examples = {"--read-load 102.4MB/s --write-size 2TB --write-time 10s --target-rate 4GB/s "
                    "--dataset 20TB",
                    "--read-load 160GB/s --target-rate 7GB/s"},
       .fields = {field("read_load", &TargetsInputs::read_load, "Rate of all reads (plan read)."),
                  field("write_load", &TargetsInputs::write_load, "Rate of all writes."),
                  field("write_size", &TargetsInputs::write_size,
                        "Bytes of a checkpoint, instead."),
                  field("write_time", &TargetsInputs::write_time, "Time in which it is written."),
                  field("target_rate", &TargetsInputs::target_rate, "Rate of one target or drive.")
                      .required(),
                  field("stored", &TargetsInputs::stored, "Bytes to store."),
                  field("target_capacity", &TargetsInputs::target_capacity,
                        "Capacity of one target."),
                  field("dataset", &TargetsInputs::dataset, "Bytes of an epoch, for its time."),
                  field("target_price", &TargetsInputs::target_price, "Price of one target.")},
       .results = {"targets", "price", "epoch"}},
      targets);
  return kind;
}

Result<Answer> targets(const TargetsInputs& inputs) {
  return answer(targets_kind(), inputs, compute);
}

}  // namespace stoker::plan
