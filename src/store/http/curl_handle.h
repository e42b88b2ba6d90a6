/// \file
/// libcurl's handle for one request, and how it is set up.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <string>

#include "stoker/store.h"
#include "store/http/http_answer.h"
#include "store/http/http_call.h"

namespace stoker {

struct FreeCurl {
  void operator()(CURL* easy) const noexcept { curl_easy_cleanup(easy); }
  void operator()(curl_slist* list) const noexcept { curl_slist_free_all(list); }
};
using CurlHandle = std::unique_ptr<CURL, FreeCurl>;
using CurlHeaders = std::unique_ptr<curl_slist, FreeCurl>;

/// Initializes libcurl, once per process.
void start_libcurl();

/// Makes the list of headers for a request; libcurl borrows it.
CurlHeaders make_headers(const HttpRequest& request);

/// Sets a new or reset handle up for one attempt, whose answer goes to `answer`. False if libcurl
/// refuses something. Everything but the options' strings is borrowed until the handle is reset.
bool set_up(CURL* easy, const HttpOptions& options, const std::string& ca_file,
            const HttpRequest& request, const CurlHeaders& headers, HttpAnswer& answer,
            std::uint64_t expected_bytes);

/// What a failure of the transport means, with what libcurl says of it, if anything. `is_sent` is
/// set if the server may have seen the request.
Verdict judge_transport(CURLcode code, std::string_view detail, bool& is_sent);

/// Returns the certificates that the system trusts, as a file, or "" to leave it to libcurl, which
/// knows only the place of the system that it was built on.
std::string find_ca_file();

}  // namespace stoker
