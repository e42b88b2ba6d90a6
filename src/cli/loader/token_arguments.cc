#include "cli/loader/token_arguments.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "cli/dataset/dataset_arguments.h"

namespace stoker::cli {
namespace {

Status check(const TokenArguments& arguments) {
  if (arguments.pack != 0 &&
      (arguments.window != 0 || arguments.stride != 0 || arguments.extra != 0))
    return Status(Code::invalid_argument,
                  "--pack puts whole documents together: without --window, --stride and --extra");
  if (arguments.window == 0 && (arguments.stride != 0 || arguments.extra != 0))
    return Status(Code::invalid_argument, "--stride and --extra apply to windows: give --window");
  return {};
}

Result<TokenRows> cut_windows(const TokenArguments& arguments, LoaderPart& part) {
  STOKER_ASSIGN(TokenWindows windows,
                TokenWindows::make(*part.dataset, {.window = arguments.window,
                                                   .stride = arguments.stride,
                                                   .extra = arguments.extra}));
  const TokenRows rows{
      .tokens = windows.tokens_per_row(), .count = windows.count(), .dtype = windows.dtype()};
  part.windows = std::make_shared<const TokenWindows>(std::move(windows));
  return rows;
}

Result<TokenRows> cut_packs(const TokenArguments& arguments, LoaderPart& part,
                            const Context& context) {
  STOKER_ASSIGN(TokenBins packs,
                TokenBins::open(part.dataset, {.length = arguments.pack,
                                               .cache_directory = index_cache_directory(),
                                               .in_memory = true,
                                               .stop = context.stop}));
  const TokenRows rows{
      .tokens = packs.length(), .count = packs.count(), .is_packs = true, .dtype = packs.dtype()};
  part.packs = std::make_shared<const TokenBins>(std::move(packs));
  return rows;
}

}  // namespace

void add_token_arguments(Command& command, TokenArguments& arguments) {
  command
      .add_option("--window", arguments.window,
                  "Read token arrays in rows of this many tokens, across documents.")
      ->check(count_from(1));
  command
      .add_option("--stride", arguments.stride,
                  "Tokens from the start of one window to the next (default: --window).")
      ->check(count_from(1));
  command
      .add_option("--extra", arguments.extra,
                  "Extra tokens in each window: 1 for targets shifted by one (default: 0).")
      ->check(count_from(0));
  command
      .add_option(
          "--pack", arguments.pack,
          "Read token arrays in rows of at most this many tokens, packed from whole documents.")
      ->check(count_from(1));
}

Result<TokenRows> cut_tokens(const TokenArguments& arguments, LoaderPart& part,
                             const Context& context) {
  STOKER_TRY(check(arguments));
  if (arguments.window != 0) return cut_windows(arguments, part);
  if (arguments.pack != 0) return cut_packs(arguments, part, context);
  return TokenRows();
}

std::string describe_rows(const TokenRows& rows) {
  return fmt::format("{} {} of {} tokens ({})", rows.count, rows.is_packs ? "packs" : "windows",
                     rows.tokens, dtype_name(rows.dtype));
}

}  // namespace stoker::cli
