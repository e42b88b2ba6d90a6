#include "stoker/ranks.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <string>

namespace stoker {
namespace {

/// Sets the variables of launchers to exactly these, and back at the end.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& values) {
    for (const char* const name : kNames) {
      const char* const before = std::getenv(name);
      if (before != nullptr) kept_[name] = before;
      ::unsetenv(name);
    }
    for (const auto& [name, value] : values) ::setenv(name.c_str(), value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const char* const name : kNames) ::unsetenv(name);
    for (const auto& [name, value] : kept_) ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  static constexpr std::array kNames = {"RANK",
                                        "WORLD_SIZE",
                                        "LOCAL_WORLD_SIZE",
                                        "SLURM_PROCID",
                                        "SLURM_NTASKS",
                                        "SLURM_TASKS_PER_NODE",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE"};
  std::map<std::string, std::string> kept_;
};

Result<Ranks> ranks_in(const std::map<std::string, std::string>& values) {
  const Environment environment(values);
  return Ranks::from_environment();
}

TEST(RanksTest, launchers_are_known) {
  EXPECT_EQ(*ranks_in({}), (Ranks{0, 1, 1}));
  EXPECT_EQ(*ranks_in({{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}}),
            (Ranks{3, 8, 4}));
  EXPECT_EQ(
      *ranks_in(
          {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "12"}, {"SLURM_TASKS_PER_NODE", "4(x2),3"}}),
      (Ranks{1, 12, 4}));
  EXPECT_EQ(*ranks_in({{"OMPI_COMM_WORLD_RANK", "1"},
                       {"OMPI_COMM_WORLD_SIZE", "2"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
            (Ranks{1, 2, 2}));
  EXPECT_EQ(*ranks_in({{"SLURM_NTASKS", "12"}}), (Ranks{0, 1, 1}));  // where tasks are started
  EXPECT_EQ(*ranks_in({{"WORLD_SIZE", "1"}}), (Ranks{0, 1, 1}));
}

TEST(RanksTest, what_makes_no_sense_is_refused) {
  for (const std::map<std::string, std::string>& values :
       {std::map<std::string, std::string>{{"RANK", "1"}},
        {{"WORLD_SIZE", "4"}},
        {{"RANK", "4"}, {"WORLD_SIZE", "4"}},
        {{"RANK", "one"}, {"WORLD_SIZE", "4"}},
        {{"RANK", "-1"}, {"WORLD_SIZE", "4"}}})
    EXPECT_EQ(ranks_in(values).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace stoker
