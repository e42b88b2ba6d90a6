// What holds for every kind of plan, because it is a row of one table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "plan/embedded.h"
#include "plan/kinds/table.h"
#include "stoker/plan.h"

namespace stoker::plan {
namespace {

/// The settings of "--read-rate 5GB/s --gpus 8"; nothing for examples of files.
Request request_of(const Kind& kind, std::string_view example) {
  Request request{.kind = std::string(kind.name)};
  std::vector<std::string> words;
  for (std::string_view rest = example; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    words.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    std::string name = words[i].substr(2);
    std::ranges::replace(name, '-', '_');
    if (name == "from")
      request.devices.push_back(words[i + 1]);
    else if (name != "plot")
      request.settings.push_back({.name = name, .text = words[i + 1]});
  }
  return request;
}

TEST(KindsTest, every_example_of_the_help_has_an_answer_with_results_and_reasons) {
  for (const Kind* kind : kinds()) {
    if (kind->name == "cluster") continue;  // its examples are files: compute_test.cc
    EXPECT_FALSE(kind->examples.empty());
    for (const std::string_view example : kind->examples) {
      const Result<Answer> answer = compute(request_of(*kind, example));
      ASSERT_TRUE(answer.ok()) << kind->name << " " << example << ": " << answer.status().message();
      EXPECT_FALSE(answer->results.empty()) << example;
      EXPECT_FALSE(answer->binds.empty()) << example;
      EXPECT_FALSE(answer->changes.empty()) << example;
      EXPECT_EQ(answer->kind, kind->name);
    }
  }
}

TEST(KindsTest, names_of_fields_and_steps_do_not_clash) {
  for (const Kind* kind : kinds()) {
    std::set<std::string_view> fields;
    for (const Field& field : kind->fields) EXPECT_TRUE(fields.insert(field.name).second);
    for (const std::string_view example : kind->examples) {
      const Result<Answer> answer = compute(request_of(*kind, example));
      if (!answer.ok()) continue;
      std::set<std::string_view> names = fields;
      for (const Step& step : answer->steps)
        EXPECT_TRUE(names.insert(step.name).second) << kind->name << ": " << step.name;
    }
  }
}

/// A request that has an answer, but for this field.
Request request_with(const Kind& kind, const Field& field, std::string_view text) {
  Request request = kind.name == "cluster" ? Request{.kind = "cluster", .settings = {}}
                                           : request_of(kind, kind.examples.front());
  if (kind.name == "cluster") request.workload = example_workload();
  std::erase_if(request.settings,
                [&](const Setting& setting) { return setting.name == field.name; });
  request.settings.push_back({.name = std::string(field.name), .text = std::string(text)});
  return request;
}

std::string why_refused(const Kind& kind, const Field& field, std::string_view text) {
  const Result<Answer> answer = compute(request_with(kind, field, text));
  return answer.ok() ? "" : std::string(answer.status().message());
}

TEST(KindsTest, every_field_refuses_what_is_no_quantity_by_its_name) {
  for (const Kind* kind : kinds()) {
    for (const Field& field : kind->fields) {
      for (const std::string_view text :
           {"-1", "-1s", "nan", "inf", "", " ", "5 parsecs", "12GB/h"})
        EXPECT_TRUE(why_refused(*kind, field, text).starts_with(std::string(field.name) + ": "))
            << kind->name << " " << field.name << " " << text;
    }
  }
}

TEST(KindsTest, every_field_refuses_zero_unless_zero_means_something) {
  constexpr std::string_view kZeros[] = {"0",   "0%",   "0B",     "0B/s",    "0s",
                                         "0/s", "0USD", "0USD/h", "0FLOP/s", "0USD/GB"};
  int refused = 0;
  for (const Kind* kind : kinds()) {
    for (const Field& field : kind->fields) {
      if (field.unit == Unit::text) continue;
      const std::string why =
          why_refused(*kind, field, kZeros[static_cast<std::size_t>(field.unit)]);
      if (field.range == Range::zero_too) {
        EXPECT_EQ(why.find("is zero"), std::string::npos) << kind->name << " " << why;
        continue;
      }
      ++refused;
      EXPECT_EQ(why, std::string(field.name) + ": is zero: it must be larger") << kind->name;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(KindsTest, every_field_with_a_unit_refuses_another_unit_and_says_which) {
  for (const Kind* kind : kinds()) {
    for (const Field& field : kind->fields) {
      if (field.unit == Unit::text) continue;
      const bool is_size = field.unit == Unit::bytes;
      const std::string why = why_refused(*kind, field, is_size ? "1GB/s" : "1GB");
      EXPECT_TRUE(why.starts_with(std::string(field.name) + ": ")) << kind->name << " " << why;
      EXPECT_NE(why.find(is_size ? "is a rate of bytes" : "is a size"), std::string::npos) << why;
      if (field.unit == Unit::number) continue;
      EXPECT_NE(why_refused(*kind, field, "5").find("has no unit"), std::string::npos)
          << kind->name << " " << field.name;
    }
  }
}

TEST(KindsTest, a_name_has_one_unit_in_all_kinds) {
  std::map<std::string_view, Unit> units;
  for (const Kind* kind : kinds())
    for (const Field& field : kind->fields)
      EXPECT_EQ(units.emplace(field.name, field.unit).first->second, field.unit)
          << kind->name << " " << field.name << ": the catalogue has one value for all of them";
}

TEST(KindsTest, an_input_that_no_step_needs_is_marked) {
  for (const Kind* kind : kinds()) {
    for (const std::string_view example : kind->examples) {
      const Result<Answer> answer = compute(request_of(*kind, example));
      if (!answer.ok()) continue;
      for (const Given& given : answer->given)
        EXPECT_TRUE(given.is_used || given.origin != "given") << example << ": " << given.name;
    }
  }
  EnduranceInputs inputs = {
      .size = Bytes{1e9}, .writes = PerSecond{1}, .tbw = Bytes{1e15}, .write_amplification = 1.5};
  const auto is_used = [](const Result<Answer>& answer, std::string_view name) {
    return std::ranges::find(answer->given, name, &Given::name)->is_used;
  };
  EXPECT_FALSE(is_used(endurance(inputs), "write_amplification")) << "without a time";
  EXPECT_TRUE(is_used(endurance(inputs), "tbw"));
  inputs.time = Seconds{1};
  EXPECT_TRUE(is_used(endurance(inputs), "write_amplification"));
  EXPECT_FALSE(is_used(checkpoint({.precision = "fp8", .size = Bytes{1}}), "precision"));
  EXPECT_TRUE(is_used(checkpoint({.parameters = 1, .precision = "fp8"}), "precision"));
}

TEST(KindsTest, there_is_no_half_of_a_gpu_or_a_drive) {
  int found = 0;
  for (const Kind* kind : kinds()) {
    for (const Field& field : kind->fields) {
      static const std::set<std::string_view> kThings = {
          "gpus",    "gpus_per_node", "drives", "links",   "targets",
          "clients", "stripes",       "lanes",  "workers", "processes"};
      if (!kThings.contains(field.name)) continue;
      ++found;
      EXPECT_EQ(field.range, Range::whole) << kind->name << " " << field.name;
    }
  }
  EXPECT_EQ(found, 18);
  EXPECT_EQ(
      std::string(
          stall({.gpus = 0.5, .price = Money{1} / kHour, .stall = Seconds{1}}).status().message()),
      "gpus: is not a whole number");
}

TEST(KindsTest, every_required_field_is_missed_by_its_name) {
  for (const Kind* kind : kinds()) {
    const Result<Answer> answer = compute({.kind = std::string(kind->name)});
    if (kind->fields.front().is_required && kind->devices.empty()) {
      EXPECT_TRUE(answer.status().message().starts_with(std::string(kind->fields.front().name) +
                                                        ": is missing"))
          << answer.status().message();
    }
    EXPECT_EQ(answer.ok(), kind->name == "path") << kind->name;  // that of a PCIe slot
  }
}

TEST(KindsTest, typed_inputs_are_checked_like_texts) {
  const auto why = [](const ReadInputs& inputs) {
    return std::string(read(inputs).status().message());
  };
  ReadInputs good{.gpus = 1, .batch = 1, .sample = Bytes{1}, .step = Seconds{1}};
  EXPECT_TRUE(read(good).ok());
  good.step = Seconds{0};
  EXPECT_EQ(why(good), "step: is zero: it must be larger");
  good.step = Seconds{-1};
  EXPECT_EQ(why(good), "step: is negative");
  good.step = Seconds{std::numeric_limits<double>::quiet_NaN()};
  EXPECT_EQ(why(good), "step: is not a finite number");
  good.step = Seconds{std::numeric_limits<double>::infinity()};
  EXPECT_EQ(why(good), "step: is not a finite number");
  good.step = Seconds{1e-300};
  EXPECT_EQ(why(good), "step: is smaller than 1e-24");
  good.step = std::nullopt;
  EXPECT_TRUE(why(good).starts_with("step: is missing"));
  EXPECT_EQ(
      std::string(
          endurance({.size = Bytes{1}, .writes = PerSecond{1}, .tbw = Bytes{1}, .used = Share{1.5}})
              .status()
              .message()),
      "used: is more than 100%");
}

TEST(KindsTest, the_widest_inputs_have_finite_results_or_a_refusal_that_names_a_field) {
  constexpr std::string_view kSuffixes[] = {"",   "%",   "B",     "B/s",    "s",
                                            "/s", "USD", "USD/s", "FLOP/s", "USD/B"};
  for (const Kind* kind : kinds()) {
    for (const Field& field : kind->fields) {
      if (field.unit == Unit::text) continue;
      for (const std::string_view number : {"1e24", "1e-24", "1e-22"}) {
        const std::string text =
            std::string(number) + std::string(kSuffixes[static_cast<std::size_t>(field.unit)]);
        const Result<Answer> answer = compute(request_with(*kind, field, text));
        if (!answer.ok()) {
          const std::string_view message = answer.status().message();
          const std::string_view name = message.substr(0, message.find_first_of(": "));
          EXPECT_NE(kind->find(name), nullptr) << message;
          continue;
        }
        for (const Step& step : answer->steps)
          EXPECT_TRUE(std::isfinite(step.value.count)) << kind->name << " " << step.name;
      }
    }
  }
}

TEST(KindsTest, contradictions_name_the_field) {
  const auto why = [](const Result<Answer>& answer) {
    return std::string(answer.status().message());
  };
  EXPECT_TRUE(why(checkpoint({.parameters = 1, .size = Bytes{1}})).starts_with("size: "));
  EXPECT_TRUE(why(checkpoint({.parameters = 1, .optimizer = "lion"})).starts_with("optimizer: "));
  EXPECT_TRUE(why(interval({.save = Seconds{1}})).starts_with("mtbf: is missing"));
  EXPECT_TRUE(why(cliff({.size = Bytes{1},
                         .cache = Bytes{1},
                         .fast_rate = BytesPerSecond{1},
                         .drain_rate = BytesPerSecond{1},
                         .slow_rate = BytesPerSecond{2}}))
                  .starts_with("slow_rate: "));
  EXPECT_TRUE(why(compute({.kind = "objects",
                           .settings = {{.name = "dataset", .text = "1KB"},
                                        {.name = "object", .text = "256MiB"}}}))
                  .starts_with("object: is larger than dataset"));
  EXPECT_TRUE(why(stall({.price = Money{1} / kHour,
                         .stall = Seconds{60},
                         .stalls = 4 / Seconds{60},
                         .time = kHour}))
                  .starts_with("stall: 240 stalls of 60 s take longer than"));
  EXPECT_TRUE(why(stall({.price = Money{1} / kHour, .stall = Seconds{1}, .busy_after = Share{1}}))
                  .starts_with("busy: is missing"));
  EXPECT_TRUE(
      why(share({.targets = 2, .target_rate = BytesPerSecond{1}, .clients = 1, .stripes = 3}))
          .starts_with("stripes: "));
}

}  // namespace
}  // namespace stoker::plan
