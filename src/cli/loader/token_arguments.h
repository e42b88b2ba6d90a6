/// \file
/// `--window`, `--pack` and what belongs to them: rows of tokens instead of samples.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"
#include "dataset/loader/loader_part.h"

namespace stoker::cli {

/// As they were typed; as of Python's stoker.Tokens.
struct TokenArguments {
  std::uint64_t window = 0;  ///< 0: no windows.
  std::uint64_t stride = 0;  ///< 0: as `window`.
  std::uint64_t extra = 0;
  std::uint64_t pack = 0;  ///< 0: no packs.
};

void add_token_arguments(Command& command, TokenArguments& arguments);

/// The rows that a stream has in place of samples. `tokens` is 0 if there are none.
struct TokenRows {
  std::uint64_t tokens = 0;  ///< In each row.
  std::uint64_t count = 0;   ///< Of rows.
  bool is_packs = false;
  Dtype dtype = Dtype::int32;  ///< As stored.
};

/// Cuts the dataset of `part`, if it was asked for: sets its windows or packs. Packs are computed
/// now if there are none yet. `invalid_argument` for arguments that do not go together, and for a
/// dataset that is no tokens.
Result<TokenRows> cut_tokens(const TokenArguments& arguments, LoaderPart& part,
                             const Context& context);

/// "1234 windows of 2048 tokens (uint16)".
std::string describe_rows(const TokenRows& rows);

}  // namespace stoker::cli
