#include "ravnest/transport/tcp/socket_bio.h"

#include <sys/socket.h>

#include <cerrno>
#include <system_error>

#include "ravnest/net/socket.h"

namespace ravnest::transport::tcp {

BIO_METHOD* SocketBio::method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "ravnest socket");
    if (made == nullptr) return made;
    BIO_meth_set_write(made, [](BIO* bio, const char* data, int size) {
      return static_cast<SocketBio*>(BIO_get_data(bio))->write(bio, data, size);
    });
    BIO_meth_set_read(made, [](BIO* bio, char* into, int size) {
      return static_cast<const SocketBio*>(BIO_get_data(bio))->read(bio, into, size);
    });
    BIO_meth_set_ctrl(made, [](BIO*, int command, long, void*) -> long { return command == BIO_CTRL_FLUSH ? 1 : 0; });
    return made;
  }();
  return method;
}

BIO* SocketBio::make() {
  BIO* bio = method() == nullptr ? nullptr : BIO_new(method());
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  return bio;
}

int SocketBio::write(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  if (unsent() >= kGathered) {
    BIO_set_retry_write(bio);
    return -1;
  }
  gathered_.insert(gathered_.end(), data, data + size);
  return size;
}

int SocketBio::read(BIO* bio, char* into, int size) const {
  BIO_clear_retry_flags(bio);
  const ssize_t got = ::recv(descriptor_, into, static_cast<std::size_t>(size), 0);
  if (got < 0 && would_block(errno)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

Result<bool> SocketBio::flush() {
  while (unsent() > 0) {
    const ssize_t sent = ::send(descriptor_, gathered_.data() + sent_, unsent(), MSG_NOSIGNAL);
    if (sent < 0 && would_block(errno)) return false;
    if (sent < 0) return unavailable(std::generic_category().message(errno));
    sent_ += static_cast<std::size_t>(sent);
  }
  gathered_.clear();
  sent_ = 0;
  return true;
}

}  // namespace ravnest::transport::tcp
