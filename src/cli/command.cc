#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <type_traits>

#include "cli/help_formatter.h"
#include "cli/home_path.h"
#include "cli/misuse_line.h"

namespace stoker::cli {

/// Replaces CLI11's checks: its conversion accepts "-1" as the largest number, and its
/// PositiveNumber reports ranges up to 10^308.
Check count_from(unsigned least) {
  return {.test = [least](const std::string& text) {
    const bool is_number =
        !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    const bool is_zero = text.find_first_not_of('0') == std::string::npos;
    if (!is_number || (least > 0 && is_zero))
      return "not a whole number from " + std::to_string(least) + " on: " + text;
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() ? std::string() : "the number is too large: " + text;
  }};
}

Check count_between(std::uint32_t least, std::uint32_t most) {
  const CLI::Range range(least, most);
  return {.test = range, .help = range.get_description()};
}

Check one_of(std::vector<std::string> words) {
  const CLI::IsMember member(words);
  return {.test = member, .help = member.get_description(), .words = std::move(words)};
}

Option* Option::required() {
  option_->required();
  return this;
}

Option* Option::check(const Check& check) {
  option_->check(check.test, check.help);
  if (!check.words.empty()) words_ = check.words;
  return this;
}

Option* Option::value_name(std::string_view name) {
  option_->type_name(std::string(name));
  return this;
}

Option* Option::as_path() {
  option_->transform([](const std::string& typed) { return expand_home(typed); });
  is_path_ = true;
  return this;
}

Option* Option::excludes(const Option* other) {
  option_->excludes(other->option_);
  return this;
}

Option* Option::group(const std::string& heading) {
  option_->group(heading);
  return this;
}

Option* Option::delimiter(char separator) {
  option_->delimiter(separator);
  return this;
}

Option* Option::one_value_each() {
  option_->allow_extra_args(false);
  return this;
}

namespace {

/// Returns "stoker bench disk".
std::string command_path(const CLI::App& app) {
  const CLI::App* const parent = app.get_parent();
  return parent == nullptr ? app.get_name() : command_path(*parent) + " " + app.get_name();
}

OptionDescription describe_option(const CLI::Option& option) {
  // "TEXT", "TEXT:{a,b}" or "UINT:UINT in [1 - 4]".
  const std::string type = option.get_type_size() == 0 ? "" : option.get_type_name();
  OptionDescription described{.names = {},
                              .is_argument = option.get_positional(),
                              .is_required = option.get_required(),
                              .is_repeated = option.get_expected_max() > 1,
                              .value = type.substr(type.rfind(':') + 1),
                              .words = {},
                              .help = option.get_description()};
  if (described.is_argument) {
    described.names.push_back(option.get_name(true));
  } else {
    for (const std::string& name : option.get_snames()) described.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) described.names.push_back("--" + name);
  }
  return described;
}

}  // namespace

Command::Command(CLI::App* app) : app_(app) {}
Command::~Command() = default;

Option* Command::keep(CLI::Option* option) {
  return options_.emplace_back(std::make_unique<Option>(option)).get();
}

Command* Command::add_subcommand(const std::string& name, const std::string& description) {
  return subcommands_
      .emplace_back(std::make_unique<Command>(app_->add_subcommand(name, description)))
      .get();
}

void Command::require_subcommand() {
  app_->require_subcommand(1);
}

void Command::footer(const std::string& text) {
  app_->footer(text);
}

template <typename Value>
Option* Command::add_option(const std::string& names, Value& value, const std::string& help) {
  return keep(app_->add_option(names, value, help));
}

Option* Command::add_flag(const std::string& names, bool& value, const std::string& help) {
  return keep(app_->add_flag(names, value, help));
}

template <typename Value>
Option* Command::add_old_name(const std::string& name, const Option* option, Value& value) {
  const auto take = [name, current = option->option_, &value](const Value& typed) {
    if (current->count() != 0) throw CLI::ExcludesError(name, current->get_name());
    if constexpr (std::is_same_v<Value, std::string>)
      if (typed.empty()) throw CLI::ValidationError(name, "is empty");
    value = typed;
  };
  return keep(app_->add_option_function<Value>(name, take)->group(""));
}

void Command::on_chosen(std::function<Status()> action) {
  app_->callback([action = std::move(action)] {
    if (Status status = action(); !status.ok()) throw CommandFailed(std::move(status));
  });
}

/// Does not use App::help(), which considers what was parsed and would describe `help` itself.
Result<std::string> Command::help(const std::vector<std::string>& words) const {
  const CLI::App* command = app_;
  std::string name = app_->get_name();
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> found = command->get_subcommands(
        [&](const CLI::App* candidate) { return candidate->get_name() == word; });
    if (found.empty()) return Status(Code::invalid_argument, no_such_command(*command, word));
    command = found.front();
    name.append(" ").append(word);
  }
  return app_->get_formatter()->make_help(command, name, CLI::AppFormatMode::Normal);
}

CommandDescription Command::describe() const {
  CommandDescription described{.name = command_path(*app_),
                               .help = app_->get_description(),
                               .footer = app_->get_footer(),
                               .options = {},
                               .subcommands = {}};
  for (const bool is_argument : {true, false}) {
    for (const CLI::Option* const option : app_->get_options()) {
      if (option->get_positional() != is_argument || option->get_group().empty()) continue;
      described.options.push_back(describe_option(*option));
      const auto ours = std::ranges::find(
          options_, option, [](const auto& kept) -> const CLI::Option* { return kept->option_; });
      if (ours == options_.end()) continue;  // CLI11's own: --help
      described.options.back().words = (*ours)->words_;
      described.options.back().is_path = (*ours)->is_path_;
    }
  }
  for (const std::unique_ptr<Command>& sub : subcommands_)
    described.subcommands.push_back(sub->describe());
  return described;
}

CommandLine::CommandLine(const std::string& name, const std::string& description)
    : app_(std::make_unique<CLI::App>(description, name)),
      top_(std::make_unique<Command>(app_.get())) {
  app_->formatter(std::make_shared<HelpFormatter>());  // before the commands, which inherit it
  app_->require_subcommand(1);
  app_->failure_message([](const CLI::App* command, const CLI::Error& error) {
    return misuse_line(*command, error);
  });
}

CommandLine::~CommandLine() = default;

void CommandLine::add_version(std::function<std::string()> text,
                              std::function<std::string()> json) {
  CLI::Option* const wants_json =
      app_->add_flag("--json")->description("With --version: print one JSON object.");
  CLI::Option* const version = app_->add_flag_callback(
      "--version",
      [text = std::move(text), json = std::move(json), wants_json] {
        throw CLI::CallForVersion(wants_json->count() != 0 ? json() : text(), 0);
      },
      "Print the version, what it was built from and with, and the engine.");
  wants_json->needs(version);
}

void CommandLine::before_chosen(std::function<void()> action) {
  app_->parse_complete_callback(std::move(action));
}

bool CommandLine::run(int argc, const char* const* argv, Context& context) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version arrive here with exit code 0 and still have to be printed.
    return app_->exit(error, context.out, context.err) == 0;
  }
  return true;
}

std::string CommandLine::chosen_name() const {
  return command_name(*app_);
}

bool CommandLine::chosen_has(const std::string& option) const {
  return deepest_command(*app_).get_option_no_throw(option) != nullptr;
}

template Option* Command::add_option(const std::string&, double&, const std::string&);
template Option* Command::add_option(const std::string&, std::optional<std::string>&,
                                     const std::string&);
template Option* Command::add_option(const std::string&, std::optional<std::uint64_t>&,
                                     const std::string&);
template Option* Command::add_option(const std::string&, std::string&, const std::string&);
template Option* Command::add_option(const std::string&, std::uint32_t&, const std::string&);
template Option* Command::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option* Command::add_option(const std::string&, std::vector<std::string>&,
                                     const std::string&);
template Option* Command::add_old_name(const std::string&, const Option*, double&);
template Option* Command::add_old_name(const std::string&, const Option*, std::string&);

}  // namespace stoker::cli
