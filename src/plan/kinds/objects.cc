#include <fmt/format.h>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

Status compute(const ObjectsInputs& in, Working& work) {
  if (*in.object > *in.dataset)
    return refuse_field("object", "is larger than dataset, of which it is a part");
  if (*in.request > *in.object)
    return refuse_field("request", "is larger than object: a request reads a part of one object");
  const double objects =
      work.step("objects", "ceil(dataset / object)", round_up(*in.dataset / *in.object));
  const double gets = work.step("gets", "epochs * objects * ceil(object / request)",
                                *in.epochs * objects * round_up(*in.object / *in.request));
  if (in.rate) {
    const PerSecond often = work.step("gets_per_second", "rate / object * ceil(object / request)",
                                      *in.rate / *in.object * round_up(*in.object / *in.request),
                                      "The last request of an object reads what is left of it.");
    work.step("requests_at_once", "ceil(rate / request_rate)",
              round_up(*in.rate / *in.request_rate),
              "One request gives no more than request_rate; connections are added for the rest.");
    const double prefixes =
        work.step("prefixes", "ceil(gets_per_second / prefix_gets)",
                  round_up(often / *in.prefix_gets), "Over which the keys are spread.");
    work.binds(prefixes > 1
                   ? fmt::format("Requests: {} are more than one prefix serves.", say(often))
                   : "Connections: one prefix serves these requests.");
  } else {
    work.binds("Money: give a rate for requests and connections.");
  }
  const Money reading =
      work.step("get_cost", "gets * get_price / 1000", gets / 1000 * *in.get_price);
  work.step("put_cost", "objects * put_price / 1000", objects / 1000 * *in.put_price,
            "Once, objects of one part each.");
  work.step("storage_cost_per_month", "dataset * storage_price", *in.dataset * *in.storage_price);
  work.step("transfer_cost", "epochs * dataset * transfer_price",
            *in.epochs * *in.dataset * *in.transfer_price,
            "For what leaves the region; nothing inside it.");
  work.change(
      fmt::format("Requests of twice the size halve the requests and {}; single samples as "
                  "objects multiply them.",
                  say(reading)));
  return {};
}

}  // namespace

const Kind& objects_kind() {
  static const Kind kind = with_function<ObjectsInputs>(
      {.name = "objects",
       .question = "What do S3 requests allow, and cost?",
       .about = "Reading a dataset of objects in ranges: requests, connections, prefixes, money. "
                "Prices and limits are those of the catalogue (aws-s3-standard) unless given.",
       .examples = {"--dataset 20TB --object 256MiB --rate 10GB/s --epochs 3",
                    "--dataset 20TB --object 110KB --request 110KB --rate 1.3GB/s"},
       .fields =
           {field("dataset", &ObjectsInputs::dataset, "Bytes of the dataset.").required(),
            field("object", &ObjectsInputs::object, "Bytes of an object: a shard.").required(),
            field("request", &ObjectsInputs::request, "Bytes of a ranged read.").otherwise("8MiB"),
            field("rate", &ObjectsInputs::rate, "Rate that the training needs."),
            field("epochs", &ObjectsInputs::epochs, "How many times all of it is read.")
                .otherwise("1"),
            field("request_rate", &ObjectsInputs::request_rate, "Rate of one request.").required(),
            field("prefix_gets", &ObjectsInputs::prefix_gets,
                  "Reads that one prefix of keys serves: 5500/s.")
                .required(),
            field("get_price", &ObjectsInputs::get_price, "Price of 1,000 reads.")
                .required()
                .in(Range::zero_too),
            field("put_price", &ObjectsInputs::put_price, "Price of 1,000 writes.")
                .required()
                .in(Range::zero_too),
            field("storage_price", &ObjectsInputs::storage_price,
                  "Price of bytes for a month: 0.023USD/GiB.")
                .required()
                .in(Range::zero_too),
            field("transfer_price", &ObjectsInputs::transfer_price,
                  "Price of bytes that leave the region: 0.09USD/GiB.")
                .in(Range::zero_too)
                .otherwise("0USD/GB")},
       .devices = {"aws-s3-standard"},
       .results = {"requests_at_once", "prefixes", "get_cost", "storage_cost_per_month"}},
      objects);
  return kind;
}

Result<Answer> objects(const ObjectsInputs& inputs) {
  return answer(objects_kind(), inputs, compute);
}

}  // namespace stoker::plan
