#include <fmt/format.h>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

Status compute(const IopsInputs& in, Working& work) {
  const PerSecond requests = work.step("iops", "rate / request", *in.rate / *in.request);
  const double depth = work.step("requests_at_once", "iops * latency", requests * *in.latency,
                                 "Little's law: with fewer requests under way, the device waits.");
  if (in.read_iops)
    work.step("drives", "ceil(iops / read_iops)", round_up(requests / *in.read_iops));
  if (in.files.has_value() != in.metadata_rate.has_value())
    return refuse_field(in.files ? "metadata_rate" : "files",
                        "is missing: files and metadata_rate belong together");
  if (in.files) {
    const Seconds time = work.step("metadata_time", "files * file_operations / metadata_rate",
                                   *in.files * *in.file_operations / *in.metadata_rate,
                                   "An epoch cannot be shorter, whatever the bandwidth.");
    work.binds(fmt::format("Metadata takes {} in each epoch.", say(time)));
  } else {
    work.binds(fmt::format("Latency: {:.5g} requests have to be under way.", depth));
  }
  work.change("Larger requests: twice the bytes of each halve all of these. Shards do that.");
  return {};
}

}  // namespace

const Kind& iops_kind() {
  static const Kind kind = with_function<IopsInputs>(
      {.name = "iops",
       .question = "How many requests, and how much metadata, does the data cost?",
       .about = "Requests a second for a rate, how many must be under way, and the time that the "
                "metadata of single files takes.",
       .examples = {"--rate 1.3312GB/s --request 130KB --latency 100us --read-iops 900000/s",
                    "--rate 1.3312GB/s --request 130KB --files 14e6 --metadata-rate 50000/s"},
       .fields =
           {field("rate", &IopsInputs::rate, "Rate that the training needs (plan read).")
                .required(),
            field("request", &IopsInputs::request, "Bytes of a request.").required(),
            field("latency", &IopsInputs::latency, "Latency of a request.").otherwise("100us"),
            field("read_iops", &IopsInputs::read_iops,
                  "Random reads that one drive performs: 900000/s."),
            field("files", &IopsInputs::files, "Single files that are read in an epoch."),
            field("file_operations", &IopsInputs::file_operations,
                  "Metadata operations for each: open, stat, close.")
                .otherwise("3"),
            field("metadata_rate", &IopsInputs::metadata_rate,
                  "Metadata operations that the servers perform: 50000/s.")},
       .results = {"iops", "requests_at_once", "drives", "metadata_time"}},
      iops);
  return kind;
}

Result<Answer> iops(const IopsInputs& inputs) {
  return answer(iops_kind(), inputs, compute);
}

}  // namespace stoker::plan
