// What holds for every kind of plan, because it is a row of one table.
#include <gtest/gtest.h>

#include <set>
#include <string>

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

TEST(KindsTest, every_field_refuses_zero_and_a_wrong_unit_by_its_name) {
  for (const Kind* kind : kinds()) {
    for (const Field& field : kind->fields) {
      const std::string name(field.name);
      const auto why = [&](std::string_view text) {
        Request request{.kind = std::string(kind->name),
                        .settings = {{.name = name, .text = std::string(text)}}};
        const Result<Answer> answer = compute(request);
        EXPECT_FALSE(answer.ok()) << kind->name << " " << name << " " << text;
        return answer.ok() ? "" : std::string(answer.status().message());
      };
      for (const std::string_view text : {"-1s", "nan", "", "5 parsecs", "12GB/h"})
        EXPECT_TRUE(why(text).starts_with(name + ": ") || field.unit == Unit::text) << why(text);
    }
  }
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
  good.step = std::nullopt;
  EXPECT_TRUE(why(good).starts_with("step: is missing"));
  EXPECT_EQ(
      std::string(
          endurance({.size = Bytes{1}, .writes = PerSecond{1}, .tbw = Bytes{1}, .used = Share{1.5}})
              .status()
              .message()),
      "used: is more than 100%");
}

TEST(KindsTest, results_that_leave_the_numbers_are_refused) {
  const Result<Answer> answer = interval({.save = Seconds{1e20}, .mtbf = Seconds{1e-300}});
  ASSERT_FALSE(answer.ok());
  EXPECT_NE(answer.status().message().find("is not a finite number"), std::string::npos)
      << answer.status().message();
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
  EXPECT_TRUE(
      why(share({.targets = 2, .target_rate = BytesPerSecond{1}, .clients = 1, .stripes = 3}))
          .starts_with("stripes: "));
}

}  // namespace
}  // namespace stoker::plan
