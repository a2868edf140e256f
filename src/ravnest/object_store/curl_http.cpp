#include "ravnest/object_store/curl_http.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <utility>
#include <vector>

#include "ravnest/base/mutex.h"
#include "ravnest/base/printable.h"
#include "ravnest/object_store/curl_library.h"

namespace ravnest::object_store {
namespace {

// A list of a thousand keys of a thousand bytes, each byte written as three.
constexpr std::size_t kMostBodyBytes = std::size_t{8} << 20;
constexpr std::size_t kMostHeaderBytes = std::size_t{256} << 10;
constexpr long kBuffer = 512L << 10;

// A connection that breaks while OpenSSL writes to it would end the process.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;
  ~NoBrokenPipe() {
    const timespec at_once{};
    if (!was_pending_) ::sigtimedwait(&pipe_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

// One request on its way: what libcurl's callbacks see.
struct Exchange {
  const HttpRequest& request;
  const Clock& clock;
  HttpAnswer answer = {};
  std::size_t sent = 0;
  std::size_t header_bytes = 0;
  TimePoint last_byte = {};
  curl_off_t bytes_moved = -1;
  bool cancelled = false;
  bool stalled = false;
  bool too_long = false;
};

bool is_success(const HttpAnswer& answer) { return answer.status >= 200 && answer.status < 300; }

std::size_t on_header(char* line, std::size_t one, std::size_t size, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  std::string_view text(line, one * size);
  exchange.header_bytes += text.size();
  if (exchange.header_bytes > kMostHeaderBytes) {
    exchange.too_long = true;
    return 0;
  }
  while (!text.empty() && (text.back() == '\r' || text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (text.starts_with("HTTP/")) {  // of a proxy, or "100 Continue", and then of the answer itself
    exchange.answer = {};
    const std::size_t space = text.find(' ');
    if (space != std::string_view::npos) {
      for (const char digit : text.substr(space + 1, 3)) {
        if (digit >= '0' && digit <= '9') exchange.answer.status = 10 * exchange.answer.status + (digit - '0');
      }
    }
    return one * size;
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return one * size;
  Header header{std::string(text.substr(0, colon)), {}};
  std::ranges::transform(header.name, header.name.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
  });
  std::string_view value = text.substr(colon + 1);
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
  header.value = std::string(value);
  exchange.answer.headers.push_back(std::move(header));
  return one * size;
}

std::size_t on_bytes(char* bytes, std::size_t one, std::size_t size, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::string_view some(bytes, one * size);
  if (exchange.request.take && is_success(exchange.answer)) {
    if (exchange.request.take(as_byte_span(some))) return some.size();
    exchange.cancelled = true;
    return 0;
  }
  if (exchange.answer.body.size() + some.size() > kMostBodyBytes) {
    exchange.too_long = true;
    return 0;
  }
  exchange.answer.body += some;
  return some.size();
}

std::size_t on_send(char* room, std::size_t one, std::size_t size, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const ByteSpan rest = exchange.request.body.subspan(exchange.sent);
  const std::size_t some = std::min(rest.size(), one * size);
  std::copy_n(reinterpret_cast<const char*>(rest.data()), some, room);
  exchange.sent += some;
  return some;
}

// A connection that was kept open may turn out to be closed: libcurl takes another, and begins anew.
int on_seek(void* user, curl_off_t offset, int origin) {
  auto& exchange = *static_cast<Exchange*>(user);
  if (origin != SEEK_SET || offset < 0 || static_cast<std::size_t>(offset) > exchange.request.body.size())
    return CURL_SEEKFUNC_FAIL;
  exchange.sent = static_cast<std::size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int on_progress(void* user, curl_off_t /*to_receive*/, curl_off_t received, curl_off_t /*to_send*/, curl_off_t sent) {
  auto& exchange = *static_cast<Exchange*>(user);
  const TimePoint now = exchange.clock.now();
  if (received + sent != exchange.bytes_moved) {
    exchange.bytes_moved = received + sent;
    exchange.last_byte = now;
  }
  exchange.stalled = now - exchange.last_byte > exchange.request.stall;
  if (exchange.request.go_on && !exchange.request.go_on(static_cast<std::uint64_t>(sent))) exchange.cancelled = true;
  return exchange.stalled || exchange.cancelled ? 1 : 0;
}

bool can_be_tried_again(CURLcode failure) {
  switch (failure) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_NOT_BUILT_IN:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR: return false;
    default: return true;
  }
}

class CurlHttp final : public HttpClient {
 public:
  CurlHttp(CurlLibrary library, CurlOptions options, const Clock& clock)
      : library_(library), options_(std::move(options)), clock_(clock) {}
  ~CurlHttp() override {
    for (CURL* handle : idle_) library_.easy_cleanup(handle);
  }

  Result<HttpAnswer> send(const HttpRequest& request) override {
    CURL* handle = taken();
    if (handle == nullptr) return unavailable("libcurl makes no handle: there is no memory left");
    auto answer = perform(handle, request);
    const MutexLock lock(mutex_);
    idle_.push_back(handle);
    return answer;
  }

 private:
  // With the connections that it has kept.
  CURL* taken() {
    {
      const MutexLock lock(mutex_);
      if (!idle_.empty()) {
        CURL* handle = idle_.back();
        idle_.pop_back();
        return handle;
      }
    }
    return library_.easy_init();
  }

  template <class Value>
  void set(CURL* handle, CURLoption option, Value value) const {
    library_.easy_setopt(handle, option, value);
  }

  void set_method(CURL* handle, const HttpRequest& request, Exchange& exchange) const {
    if (request.method == "HEAD") {
      set(handle, CURLOPT_NOBODY, 1L);
    } else if (request.method == "PUT" || request.method == "POST") {
      set(handle, CURLOPT_UPLOAD, 1L);
      set(handle, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      set(handle, CURLOPT_READFUNCTION, on_send);
      set(handle, CURLOPT_READDATA, &exchange);
      set(handle, CURLOPT_SEEKFUNCTION, on_seek);
      set(handle, CURLOPT_SEEKDATA, &exchange);
    }
    if (request.method != "GET" && request.method != "HEAD") set(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }

  void set_ways(CURL* handle, const HttpRequest& request) const {
    // Keys of S3 may have "..", which libcurl would take for a way up.
    set(handle, CURLOPT_PATH_AS_IS, 1L);
    set(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(handle, CURLOPT_NOSIGNAL, 1L);
    set(handle, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    set(handle, CURLOPT_SSL_VERIFYPEER, 1L);
    set(handle, CURLOPT_SSL_VERIFYHOST, 2L);
    if (!options_.ca_bundle.empty()) set(handle, CURLOPT_CAINFO, options_.ca_bundle.c_str());
    const bool https = request.url.starts_with("https:");
    const std::string& proxy = https ? options_.https_proxy : options_.http_proxy;
    set(handle, CURLOPT_PROXY, request.through_proxy ? proxy.c_str() : "");
    set(handle, CURLOPT_NOPROXY, options_.no_proxy.c_str());
    set(handle, CURLOPT_BUFFERSIZE, kBuffer);
    set(handle, CURLOPT_UPLOAD_BUFFERSIZE, kBuffer);
    const auto stall_ms = std::chrono::duration_cast<std::chrono::milliseconds>(request.stall).count();
    set(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(std::max<std::int64_t>(stall_ms, 1)));
  }

  void set_callbacks(CURL* handle, Exchange& exchange) const {
    set(handle, CURLOPT_HEADERFUNCTION, on_header);
    set(handle, CURLOPT_HEADERDATA, &exchange);
    set(handle, CURLOPT_WRITEFUNCTION, on_bytes);
    set(handle, CURLOPT_WRITEDATA, &exchange);
    set(handle, CURLOPT_NOPROGRESS, 0L);
    set(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
    set(handle, CURLOPT_XFERINFODATA, &exchange);
  }

  Result<HttpAnswer> perform(CURL* handle, const HttpRequest& request) const {
    Exchange exchange{request, clock_};
    exchange.last_byte = clock_.now();
    library_.easy_reset(handle);
    std::array<char, CURL_ERROR_SIZE> reason{};
    set(handle, CURLOPT_ERRORBUFFER, reason.data());
    set(handle, CURLOPT_URL, request.url.c_str());
    set_method(handle, request, exchange);
    set_ways(handle, request);
    set_callbacks(handle, exchange);
    // Without it libcurl waits a second for servers that do not know "Expect: 100-continue".
    curl_slist* headers = library_.slist_append(nullptr, "Expect:");
    for (const Header& header : request.headers) {
      const std::string line = header.value.empty() ? header.name + ";" : text(header.name, ": ", header.value);
      headers = library_.slist_append(headers, line.c_str());
    }
    set(handle, CURLOPT_HTTPHEADER, headers);
    CURLcode outcome = CURLE_OK;
    {
      const NoBrokenPipe no_broken_pipe;
      outcome = library_.easy_perform(handle);
    }
    library_.slist_free_all(headers);
    if (exchange.cancelled) return cancelled("the transfer was ended");
    if (exchange.too_long) return corrupt("the answer of ", place(request), " is longer than any that is asked for");
    if (outcome != CURLE_OK) return failure(outcome, reason.data(), request, exchange);
    return std::move(exchange.answer);
  }

  Status failure(CURLcode outcome, const char* reason, const HttpRequest& request, const Exchange& exchange) const {
    if (exchange.stalled) {
      return deadline(place(request), " sent nothing for ",
                      std::chrono::duration_cast<std::chrono::seconds>(request.stall).count(), " s");
    }
    std::string words = reason[0] == '\0' ? library_.easy_strerror(outcome) : printable_reason(reason);
    while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) words.pop_back();
    if (outcome == CURLE_PEER_FAILED_VERIFICATION) {
      return invalid("the certificate of ", place(request), " is not to be trusted: ", words,
                     "; where it is signed by an authority of your own, AWS_CA_BUNDLE names the file with that one");
    }
    if (outcome == CURLE_SSL_CACERT_BADFILE) {
      return invalid("the authorities' certificates cannot be read",
                     options_.ca_bundle.empty() ? "" : " from AWS_CA_BUNDLE", ": ", words);
    }
    return {can_be_tried_again(outcome) ? Code::kUnavailable : Code::kInvalid,
            text("the connection to ", place(request), " failed: ", words)};
  }

  // "https://HOST:PORT".
  static std::string place(const HttpRequest& request) {
    const std::size_t host = request.url.find("://");
    const std::size_t end = host == std::string::npos ? host : request.url.find_first_of("/?", host + 3);
    return printable(std::string_view(request.url).substr(0, end));
  }

  const CurlLibrary library_;
  const CurlOptions options_;
  const Clock& clock_;
  Mutex mutex_;
  std::vector<CURL*> idle_ RAVNEST_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<HttpClient>> make_curl_http(CurlOptions options, const Clock& clock) {
  auto library = load_curl();
  if (!library.ok()) return library.status();
  return std::unique_ptr<HttpClient>(std::make_unique<CurlHttp>(*library, std::move(options), clock));
}

}  // namespace ravnest::object_store
