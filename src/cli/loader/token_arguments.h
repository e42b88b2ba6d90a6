/// \file
/// `--window`, `--pack` and related options: rows of tokens instead of samples.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"
#include "dataset/loader/loader_part.h"

namespace stoker::cli {

/// The arguments as they were typed; same as in Python's stoker.Tokens.
struct TokenArguments {
  std::uint64_t window = 0;  ///< 0: no windows.
  std::uint64_t stride = 0;  ///< 0: same as `window`.
  std::uint64_t extra = 0;
  std::uint64_t pack = 0;  ///< 0: no packs.
};

void add_token_arguments(Command& command, TokenArguments& arguments);

/// The rows that a stream has instead of samples. `tokens` is 0 if there are none.
struct TokenRows {
  std::uint64_t tokens = 0;  ///< Tokens per row.
  std::uint64_t count = 0;   ///< Number of rows.
  bool is_packs = false;
  Dtype dtype = Dtype::int32;  ///< As stored.
};

/// Sets the windows or packs of `part`, if the arguments ask for them. Computes packs now if they
/// are not stored yet. `invalid_argument` for conflicting arguments, and for a dataset that does
/// not consist of tokens.
Result<TokenRows> cut_tokens(const TokenArguments& arguments, LoaderPart& part,
                             const Context& context);

/// "1234 windows of 2048 tokens (uint16)".
std::string describe_rows(const TokenRows& rows);

}  // namespace stoker::cli
