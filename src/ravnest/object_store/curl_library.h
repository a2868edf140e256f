// libcurl's C functions, found at run time: what is built does not depend on it, and neither does the wheel.
//
// Any libcurl from 7.42 on will do; Debian calls its package libcurl4. Types and numbers are those of its header.
#pragma once

#include <curl/curl.h>

#include <string>

#include "ravnest/base/status.h"

namespace ravnest::object_store {

// Each named as in C without the leading `curl_`. The library stays loaded for as long as the process.
struct CurlLibrary {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_perform) easy_perform = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_reset) easy_reset = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
};

inline constexpr const char* kCurlName = "libcurl.so.4";

// Loaded and ready for use. kNotFound where there is none, with the package to install; kUnsupported where it is none.
// Safe from any thread.
Result<CurlLibrary> load_curl(const std::string& name = kCurlName);

}  // namespace ravnest::object_store
