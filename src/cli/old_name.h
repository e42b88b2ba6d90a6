#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <type_traits>

namespace stoker::cli {

/// The name that `option` had in an earlier version: it still works, is in no help and in no
/// suggestion, and cannot be given beside the new one.
template <typename Value>
CLI::Option* add_old_name(CLI::App& command, const std::string& name, const CLI::Option* option,
                          Value& value) {
  const auto take = [name, option, &value](const Value& typed) {
    if (option->count() != 0) throw CLI::ExcludesError(name, option->get_name());
    if constexpr (std::is_same_v<Value, std::string>)
      if (typed.empty()) throw CLI::ValidationError(name, "is empty");
    value = typed;
  };
  return command.add_option_function<Value>(name, take)->group("");
}

}  // namespace stoker::cli
