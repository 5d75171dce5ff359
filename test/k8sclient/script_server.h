#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

// A server whose every connection does what the test says, down to the byte.
namespace muster::k8s::fake {

struct KeyPair {
  std::string cert_pem;
  std::string key_pem;
};

// A self-signed certificate for `names` ("DNS:a,IP:127.0.0.1").
inline KeyPair MakeCertificate(const std::string& names) {
  const std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)> key(::EVP_EC_gen("P-256"),
                                                                  &::EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&::X509_free)> cert(::X509_new(), &::X509_free);
  ::X509_set_version(cert.get(), 2);
  ::ASN1_INTEGER_set(::X509_get_serialNumber(cert.get()), 1);
  ::X509_gmtime_adj(::X509_getm_notBefore(cert.get()), -3600);
  ::X509_gmtime_adj(::X509_getm_notAfter(cert.get()), 3600);
  ::X509_set_pubkey(cert.get(), key.get());
  X509_NAME* name = ::X509_get_subject_name(cert.get());
  ::X509_NAME_add_entry_by_txt(
      name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  ::X509_set_issuer_name(cert.get(), name);
  X509_EXTENSION* san =
      ::X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str());
  ::X509_add_ext(cert.get(), san, -1);
  ::X509_EXTENSION_free(san);
  ::X509_sign(cert.get(), key.get(), ::EVP_sha256());
  const auto text = [](auto&& write) {
    const std::unique_ptr<BIO, decltype(&::BIO_free)> bio(::BIO_new(::BIO_s_mem()), &::BIO_free);
    write(bio.get());
    char* data = nullptr;
    const long size = ::BIO_get_mem_data(bio.get(), &data);
    return std::string(data, static_cast<std::size_t>(size));
  };
  return {.cert_pem = text([&](BIO* b) { ::PEM_write_bio_X509(b, cert.get()); }),
          .key_pem = text([&](BIO* b) {
            ::PEM_write_bio_PrivateKey(b, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

class ScriptServer {
 public:
  class Conn {
   public:
    Conn(int fd, SSL* ssl) : fd_(fd), ssl_(ssl) {}
    // Reads one request (head and body); empty when the client closed.
    std::string Request() {
      while (true) {
        if (const std::size_t end = buffer_.find("\r\n\r\n"); end != std::string::npos) {
          std::size_t body = 0;
          if (const std::size_t at = buffer_.find("Content-Length: "); at < end) {
            body = std::stoul(buffer_.substr(at + 16));
          }
          if (buffer_.size() >= end + 4 + body) {
            std::string out = buffer_.substr(0, end + 4 + body);
            buffer_.erase(0, end + 4 + body);
            return out;
          }
        }
        char chunk[4096];
        const long got = ssl_ != nullptr ? ::SSL_read(ssl_, chunk, sizeof(chunk))
                                         : ::recv(fd_, chunk, sizeof(chunk), 0);
        if (got <= 0) {
          return {};
        }
        buffer_.append(chunk, static_cast<std::size_t>(got));
      }
    }
    void Write(const std::string& bytes) {
      if (ssl_ != nullptr) {
        ::SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
      } else {
        ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      }
    }
    void Answer(const std::string& body,
                const std::string& status = "200 OK",
                const std::string& more = {}) {
      Write("HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
            more + "\r\n" + body);
    }
    // Waits until the client hangs up.
    void Hold() {
      while (!Request().empty()) {
      }
    }
    [[nodiscard]] SSL* ssl() const { return ssl_; }

   private:
    int fd_;
    SSL* ssl_;
    std::string buffer_;
  };
  using Script = std::function<void(Conn& conn, int number)>;

  explicit ScriptServer(Script script, const KeyPair* tls = nullptr, int max_tls = 0)
      : script_(std::move(script)) {
    if (tls != nullptr) {
      context_ = ::SSL_CTX_new(::TLS_server_method());
      if (max_tls != 0) {
        ::SSL_CTX_set_min_proto_version(context_, 0);
        ::SSL_CTX_set_max_proto_version(context_, max_tls);
        ::SSL_CTX_set_security_level(context_, 0);
      }
      const std::unique_ptr<BIO, decltype(&::BIO_free)> c(
          ::BIO_new_mem_buf(tls->cert_pem.data(), -1), &::BIO_free);
      X509* cert = ::PEM_read_bio_X509(c.get(), nullptr, nullptr, nullptr);
      ::SSL_CTX_use_certificate(context_, cert);
      ::X509_free(cert);
      const std::unique_ptr<BIO, decltype(&::BIO_free)> k(
          ::BIO_new_mem_buf(tls->key_pem.data(), -1), &::BIO_free);
      EVP_PKEY* key = ::PEM_read_bio_PrivateKey(k.get(), nullptr, nullptr, nullptr);
      ::SSL_CTX_use_PrivateKey(context_, key);
      ::EVP_PKEY_free(key);
      ::SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, [](int, X509_STORE_CTX*) { return 1; });
    }
    listen_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listen_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    ::listen(listen_, 64);
    socklen_t size = sizeof(address);
    ::getsockname(listen_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~ScriptServer() {
    ::shutdown(listen_, SHUT_RDWR);
    acceptor_.join();
    ::close(listen_);
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : open_) {
        ::shutdown(fd, SHUT_RDWR);
      }
    }
    for (std::thread& thread : threads_) {
      thread.join();
    }
    if (context_ != nullptr) {
      ::SSL_CTX_free(context_);
    }
  }
  ScriptServer(const ScriptServer&) = delete;
  ScriptServer& operator=(const ScriptServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] int connections() const { return connections_; }

 private:
  void Accept() {
    while (true) {
      const int fd = ::accept(listen_, nullptr, nullptr);
      if (fd < 0) {
        return;
      }
      const int number = connections_++;
      const std::lock_guard lock(mutex_);
      open_.push_back(fd);
      threads_.emplace_back([this, fd, number] {
        SSL* ssl = nullptr;
        bool greeted = true;
        if (context_ != nullptr) {
          ssl = ::SSL_new(context_);
          ::SSL_set_fd(ssl, fd);
          greeted = ::SSL_accept(ssl) == 1;
        }
        if (greeted) {
          Conn conn(fd, ssl);
          script_(conn, number);
        }
        if (ssl != nullptr) {
          ::SSL_shutdown(ssl);
          ::SSL_free(ssl);
        }
        ::shutdown(fd, SHUT_RDWR);
        const std::lock_guard inner(mutex_);
        std::erase(open_, fd);
        ::close(fd);
      });
    }
  }

  Script script_;
  SSL_CTX* context_ = nullptr;
  int listen_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<int> connections_{0};
  std::mutex mutex_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace muster::k8s::fake
