/// \file
/// Keys as text: files of AWS, and the answers of the servers that give keys away. Pure and
/// bounded. Messages never repeat what was read: it may be a secret.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "store/credentials/credentials.h"

namespace stoker {

using IniSection = std::map<std::string, std::string, std::less<>>;
using IniFile = std::map<std::string, IniSection, std::less<>>;

/// Reads "[section]" and "name = value"; names in lower case. Lines that begin with "#" or ";" are
/// comments, indented ones belong to the value before and are skipped. `corrupt`, with the number
/// of the line, for anything else, and for more than 1 MiB.
Result<IniFile> parse_ini(std::string_view text);

/// Reads {"AccessKeyId", "SecretAccessKey", "SessionToken" or "Token", "Expiration"}, the form of
/// credential_process, containers and instance metadata.
Result<FetchedCredentials> parse_json_keys(std::string_view text);

/// Reads the answer to AssumeRoleWithWebIdentity.
Result<FetchedCredentials> parse_sts_keys(std::string_view text);

}  // namespace stoker
