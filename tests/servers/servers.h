#pragma once

// The servers that ctest starts for the tests which need them (tests/servers/*.sh), found by the
// files that they write.

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <string>

#include "stoker/store.h"

namespace stoker::testing {

/// Returns the lines NAME=VALUE that a server has written. Ends the program if there are none: then
/// ctest has not started it, or could not.
inline std::map<std::string, std::string> server_values(const std::string& name) {
  const std::string path = std::string(STOKER_TEST_SERVERS) + "/" + name;
  std::ifstream file(path);
  std::map<std::string, std::string> values;
  for (std::string line; std::getline(file, line);) {
    const std::size_t equals = line.find('=');
    values[line.substr(0, equals)] = line.substr(equals + 1);
  }
  if (values.empty()) {
    std::cerr << path << " is missing: run this test with ctest, which starts the server\n";
    std::exit(1);
  }
  return values;
}

/// Options for the bucket of the Ceph cluster.
inline S3Options ceph_options() {
  auto values = server_values("ceph/s3.env");
  S3Options options;
  options.endpoint = values["AWS_ENDPOINT_URL"];
  options.region = values["AWS_REGION"];
  options.credentials.fixed = {.access_key_id = values["AWS_ACCESS_KEY_ID"],
                               .secret_access_key = values["AWS_SECRET_ACCESS_KEY"]};
  return options;
}
inline std::string ceph_bucket() {
  return server_values("ceph/s3.env")["BUCKET"];
}

inline std::string nginx_url() {
  return server_values("nginx/http.env")["URL"];
}
inline std::string nginx_tls_url() {
  return server_values("nginx/http.env")["TLS_URL"];
}
/// The certificate of nginx_tls_url().
inline std::string nginx_ca_file() {
  return server_values("nginx/http.env")["CA_FILE"];
}
/// The directory whose files nginx serves.
inline std::string nginx_root() {
  return std::string(STOKER_TEST_SERVERS) + "/nginx/root";
}

}  // namespace stoker::testing
