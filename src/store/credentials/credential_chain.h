/// \file
/// Which of the places of S3CredentialSources the keys of a store come from.
#pragma once

#include <memory>

#include "store/credentials/credentials.h"

namespace stoker {

/// Returns null for anonymous requests. `options` must outlive the source.
std::unique_ptr<CredentialSource> make_credential_source(const S3Options& options);

}  // namespace stoker
