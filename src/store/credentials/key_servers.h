/// \file
/// Servers and programs that give keys away.
#pragma once

#include <chrono>
#include <string>

#include "store/credentials/credentials.h"

namespace stoker {

/// A role that is assumed with a token from a file (EKS). `region` selects the server of AWS.
Result<FetchedCredentials> fetch_web_identity(const S3CredentialSources& places,
                                              const std::string& region, const HttpOptions& http);

/// A server beside the container. Plain HTTP only to this machine and to the addresses of ECS and
/// EKS: another server would get the token.
Result<FetchedCredentials> fetch_from_container(const S3CredentialSources& places,
                                                const HttpOptions& http);

/// The metadata of the instance, by IMDSv2 alone. Never through a proxy.
Result<FetchedCredentials> fetch_from_metadata(const S3CredentialSources& places,
                                               const HttpOptions& http);

/// Runs a credential_process with /bin/sh and reads what it prints. It is killed after `timeout`.
Result<FetchedCredentials> fetch_from_process(
    const std::string& command, std::chrono::nanoseconds timeout = std::chrono::seconds(60));

}  // namespace stoker
