/// \file
/// What ranks write when they meet: the names of the files and their texts. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/ranks/launcher.h"

namespace stoker {

inline constexpr std::string_view kClaimPrefix = "claim-";
inline constexpr std::string_view kWelcomePrefix = "welcome-";
inline constexpr std::string_view kReadyPrefix = "ready-";
inline constexpr std::string_view kRefusedPrefix = "refused-";

/// "claim-3-<nonce>", and back: rank and nonce.
std::string word_name(std::string_view prefix, std::uint32_t rank, const std::string& nonce);
std::optional<std::pair<std::uint32_t, std::string>> parse_word_name(std::string_view name,
                                                                     std::string_view prefix);

/// One process that says which rank it is.
struct RankClaim {
  std::uint32_t rank = 0;
  std::string nonce;
  std::string host;
  ProcessIdentity process;
  ProcessIdentity launcher;

  /// Both are numbered in one space, and known to have been started by different processes.
  bool is_of_another_job(const RankClaim& other) const;
  /// "pid 123 on node7, started by pid 100"
  std::string who() const;

  /// Always of one length, so that one written over another leaves nothing of it. `beat` is counted
  /// up as a sign of life.
  std::string format(std::uint64_t beat) const;
  /// Nothing for a text that is none; what others have left is no error.
  static std::optional<RankClaim> parse(std::string_view text, std::uint32_t rank,
                                        const std::string& nonce);
};

/// What rank 0 says to all, again whenever it has changed.
struct RankWelcome {
  std::string session;
  std::set<std::string> nonces;      ///< Of all that were heard.
  std::vector<std::string> members;  ///< One of each rank, once all are there.
  std::vector<std::uint32_t> missing;
  std::string failure;  ///< Why there will be no session; empty if nothing is wrong.

  std::string format() const;
  static std::optional<RankWelcome> parse(std::string_view text);
};

/// What a rank that has found two jobs says to all who are there.
struct RankRefusal {
  std::set<std::string> nonces;  ///< Of all that were heard.
  std::string text;

  std::string format() const;
  static std::optional<RankRefusal> parse(std::string_view text);
};

}  // namespace stoker
