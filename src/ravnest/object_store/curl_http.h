// HTTP by libcurl: HTTPS with the server's certificate always checked, HTTP where a URL says so.
//
// Redirects are not followed: a signature holds for one host. Of the environment libcurl reads nothing: proxies and the
// bundle of certificates come in here.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "ravnest/base/clock.h"
#include "ravnest/object_store/http.h"

namespace ravnest::object_store {

struct CurlOptions {
  std::filesystem::path ca_bundle = {};  // empty: those that the system trusts
  std::string http_proxy = {};           // empty: none
  std::string https_proxy = {};
  std::string no_proxy = {};  // hosts that are reached without, with commas
};

// Keeps connections open for requests to come. `clock` must outlive it. kNotFound where there is no libcurl.
Result<std::unique_ptr<HttpClient>> make_curl_http(CurlOptions options, const Clock& clock);

}  // namespace ravnest::object_store
