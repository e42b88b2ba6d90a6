#include "cli/toys/toy_command.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/line_text.h"
#include "cli/result_writer.h"
#include "formats/json/json.h"

namespace stoker::cli {
namespace {

struct CountArguments {
  std::vector<std::string> words;
  std::uint64_t letters_max = 100;
  bool json = false;
};

Status run(const CountArguments& arguments, Context& context) {
  ResultWriter out(context);
  for (const std::string& word : arguments.words) {
    if (word.size() > arguments.letters_max)
      return {Code::invalid_argument, fmt::format("{}: it has {} letters", word, word.size())};
    const Json object = {{"word", word}, {"letters", word.size()}};
    STOKER_TRY(
        out.line(arguments.json ? to_line(object) : fmt::format("{} {}", word, word.size())));
  }
  return out.flush();
}

}  // namespace

void add_toy_command(Command& stoker, Context& context) {
  Command* command = stoker.add_subcommand("count", "Count the letters of words.");
  const auto arguments = std::make_shared<CountArguments>();
  command->add_option("WORD", arguments->words, "What to count.")->required();
  command->add_option("--letters-max", arguments->letters_max, "Letters of the longest word.")
      ->check(count_from(1));
  command->add_flag("--json", arguments->json, "Print one JSON object for each word.");
  on_chosen(*command, arguments, context, run);
}

}  // namespace stoker::cli
