#include <fmt/format.h>

#include "plan/kinds/table.h"

namespace stoker::plan {
namespace {

Status compute(const EnduranceInputs& in, Working& work) {
  const BytesPerSecond rate = *in.size * *in.writes;
  const Bytes daily = work.step("written_per_day", "size * writes * day", rate * kDay,
                                "By the host: what TBW counts.");
  const Bytes left =
      work.step("left", "drives * tbw * (1 - used)", *in.drives * *in.tbw * (1 - in.used->of_one));
  const Seconds life = work.step("life", "left / (size * writes)", left / rate,
                                 "Until the rated bytes are written.");
  if (in.capacity)
    work.step("drive_writes_per_day", "written_per_day / (drives * capacity)",
              daily / (*in.drives * *in.capacity));
  if (in.time) {
    const Bytes written = work.step("written", "size * writes * time", rate * *in.time);
    work.step("used_after", "used + written / (drives * tbw)",
              Share{in.used->of_one + written / (*in.drives * *in.tbw)});
    if (in.write_amplification) {
      const Bytes nand = work.step("nand_written", "written * write_amplification",
                                   written * *in.write_amplification,
                                   "By the drive to its flash. TBW is not compared with it.");
      if (in.capacity)
        work.step("cycles", "nand_written / (drives * capacity)",
                  nand / (*in.drives * *in.capacity), "Programs and erases of each cell.");
    }
  }
  work.binds(fmt::format("Endurance: {} a day against {} that are left.", say(daily), say(left)));
  work.change(
      fmt::format("Life grows with the drives that share the writes: {} with twice as many. "
                  "Half the saves, or half their bytes, also double it.",
                  say(2 * life)));
  return {};
}

}  // namespace

const Kind& endurance_kind() {
  static const Kind kind = with_function<EnduranceInputs>(
      {.name = "endurance",
       .question = "How long will my SSDs live?",
       .about =
           "TBW, the rated endurance, counts bytes that the host writes: the maker has allowed "
           "for write amplification, which here only says what the flash itself sees.",
       .examples = {"--size 140GB --writes 48/d --tbw 700TB --capacity 4TB --time 90d "
                    "--write-amplification 1.5",
                    "--size 980GB --writes 2/h --drives 8 --from samsung-pm9d3a-7.68tb"},
       .fields = {field("size", &EnduranceInputs::size, "Bytes that the host writes each time.")
                      .required(),
                  field("writes", &EnduranceInputs::writes, "How often: 48/d, 2/h.").required(),
                  field("tbw", &EnduranceInputs::tbw,
                        "Rated endurance of one drive, in bytes: 700TB.")
                      .required(),
                  field("drives", &EnduranceInputs::drives, "Drives that share the writes evenly.")
                      .otherwise("1")
                      .in(Range::whole),
                  field("capacity", &EnduranceInputs::capacity, "Capacity of one drive."),
                  field("used", &EnduranceInputs::used,
                        "Endurance that is used up now (\"Percentage Used\" of smartctl).")
                      .in(Range::zero_too)
                      .otherwise("0%"),
                  field("time", &EnduranceInputs::time, "Time to look ahead."),
                  field("write_amplification", &EnduranceInputs::write_amplification,
                        "Bytes written to flash for each byte of the host.")
                      .in(Range::above_one)},
       .results = {"written_per_day", "life", "used_after"}},
      endurance);
  return kind;
}

Result<Answer> endurance(const EnduranceInputs& inputs) {
  return answer(endurance_kind(), inputs, compute);
}

}  // namespace stoker::plan
