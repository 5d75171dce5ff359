#include "k8sclient/tls.h"

#include <array>
#include <optional>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "k8sclient/io_loop_asio.h"

namespace muster::k8s {
namespace asio = boost::asio;
namespace {

using boost::system::error_code;
using Tcp = asio::ip::tcp;
using TlsStream = asio::ssl::stream<Tcp::socket>;

constexpr std::size_t kMaxProxyAnswer = 16UL << 10;

bool ClosedInOrder(const error_code& failed) {
  // Many servers close without TLS's closing word; whether that was the end is for HTTP to judge,
  // which knows lengths.
  return failed == asio::error::eof || failed == asio::ssl::error::stream_truncated;
}

// The stream and what keeps callbacks from outliving their socket.
struct Connection {
  explicit Connection(asio::io_context& context) : tcp(context) {}
  Tcp::socket tcp;  // until TLS takes it over; for good without TLS
  std::optional<TlsStream> tls;
  bool closed = false;
  std::string outgoing;
  Socket::ReadDone on_read;
  Socket::WriteDone on_write;

  Tcp::socket& lowest() { return tls ? tls->next_layer() : tcp; }
  void Close() {
    closed = true;
    on_read = nullptr;
    on_write = nullptr;
    error_code ignored;
    lowest().close(ignored);
  }
};

class AsioSocket final : public Socket {
 public:
  explicit AsioSocket(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)) {}
  ~AsioSocket() override { connection_->Close(); }

  void Read(std::span<char> into, ReadDone done) override {
    connection_->on_read = std::move(done);
    const auto handler = [c = connection_](const error_code& failed, std::size_t bytes) {
      if (c->closed) {
        return;
      }
      ReadDone on_read = std::exchange(c->on_read, nullptr);
      if (failed && !ClosedInOrder(failed)) {
        on_read(std::unexpected(Error::Retry("connection lost: " + failed.message())));
      } else {
        on_read(failed ? 0 : bytes);
      }
    };
    if (connection_->tls) {
      connection_->tls->async_read_some(asio::buffer(into.data(), into.size()), handler);
    } else {
      connection_->tcp.async_read_some(asio::buffer(into.data(), into.size()), handler);
    }
  }

  void Write(std::string bytes, WriteDone done) override {
    connection_->outgoing = std::move(bytes);
    connection_->on_write = std::move(done);
    const auto handler = [c = connection_](const error_code& failed, std::size_t /*bytes*/) {
      if (c->closed) {
        return;
      }
      c->outgoing = std::string();
      WriteDone on_write = std::exchange(c->on_write, nullptr);
      if (failed) {
        on_write(std::unexpected(Error::Retry("connection lost: " + failed.message())));
      } else {
        on_write({});
      }
    };
    if (connection_->tls) {
      asio::async_write(*connection_->tls, asio::buffer(connection_->outgoing), handler);
    } else {
      asio::async_write(connection_->tcp, asio::buffer(connection_->outgoing), handler);
    }
  }

 private:
  std::shared_ptr<Connection> connection_;
};

std::string OpenSslReason() {
  const unsigned long code = ::ERR_get_error();
  ::ERR_clear_error();
  if (code == 0) {
    return "unknown";
  }
  const char* reason = ::ERR_reason_error_string(code);
  return reason == nullptr ? "unknown" : reason;
}

// Every certificate of a PEM text becomes an authority.
Status AddAuthorities(SSL_CTX* context, const std::string& pem) {
  ::ERR_clear_error();
  const std::unique_ptr<BIO, decltype(&::BIO_free)> bio(
      ::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &::BIO_free);
  int count = 0;
  while (X509* certificate = ::PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    ::X509_STORE_add_cert(::SSL_CTX_get_cert_store(context), certificate);
    ::X509_free(certificate);
    ++count;
  }
  ::ERR_clear_error();
  if (count == 0) {
    return std::unexpected(Error::Invalid("certificate-authority: no certificate in it"));
  }
  return {};
}

Result<std::shared_ptr<asio::ssl::context>> MakeContext(const TlsConfig& config) {
  auto out = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
  SSL_CTX* context = out->native_handle();
  ::SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // We speak HTTP/1.1; a server that offers both must not choose HTTP/2.
  constexpr std::array<unsigned char, 9> kProtocols{8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  ::SSL_CTX_set_alpn_protos(context, kProtocols.data(), kProtocols.size());
  if (config.ca_pem.empty()) {
    ::SSL_CTX_set_default_verify_paths(context);
  } else {
    MUSTER_RETURN_IF_ERROR(AddAuthorities(context, config.ca_pem));
  }
  // A certificate that was configured is trusted, also if it is not a root: so does every other
  // client of Kubernetes.
  ::X509_VERIFY_PARAM_set_flags(::SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  if (!config.cert_pem.empty()) {
    error_code failed;
    ::ERR_clear_error();
    out->use_certificate_chain(asio::buffer(config.cert_pem), failed);
    if (failed) {
      return std::unexpected(Error::Invalid("client-certificate: " + failed.message()));
    }
    out->use_private_key(asio::buffer(config.key_pem), asio::ssl::context::pem, failed);
    if (failed || ::SSL_CTX_check_private_key(context) != 1) {
      return std::unexpected(
          Error::Invalid("client-key: " + (failed ? failed.message() : OpenSslReason())));
    }
  }
  return out;
}

bool IsAddress(const std::string& host) {
  error_code failed;
  static_cast<void>(asio::ip::make_address(host, failed));
  return !failed;
}

// One attempt to connect, step after step, under one deadline.
struct Dialing : std::enable_shared_from_this<Dialing> {
  Dialing(asio::io_context& context,
          const ConnectionConfig& connection_config,
          std::shared_ptr<asio::ssl::context> tls_context)
      : config(connection_config),
        ssl(std::move(tls_context)),
        resolver(context),
        connection(std::make_shared<Connection>(context)) {}

  const ConnectionConfig& config;
  std::shared_ptr<asio::ssl::context> ssl;
  Tcp::resolver resolver;
  std::shared_ptr<Connection> connection;
  std::unique_ptr<Timers::Timer> deadline;
  Dialer::Done done;
  std::string step;
  std::string greeting;  // to the proxy, then its answer
  std::array<char, 1> byte{};

  [[nodiscard]] bool over() const { return !done; }
  [[nodiscard]] std::string Where() const {
    return config.server.host + ":" + std::to_string(config.server.port);
  }

  void Fail(ErrorCode code, const std::string& what) {
    if (over()) {
      return;
    }
    Dialer::Done call = std::exchange(done, nullptr);
    Abandon();
    call(std::unexpected(Error{.code = code, .message = Where() + ": " + step + ": " + what}));
  }

  void Abandon() {
    done = nullptr;
    deadline.reset();
    resolver.cancel();
    connection->Close();
  }

  void Start() {
    step = "resolve";
    const std::string host = config.proxy ? config.proxy->host : config.server.host;
    const std::uint16_t port = config.proxy ? config.proxy->port : config.server.port;
    resolver.async_resolve(host,
                           std::to_string(port),
                           [self = shared_from_this()](const error_code& failed,
                                                       const Tcp::resolver::results_type& found) {
                             if (self->over()) {
                               return;
                             }
                             if (failed) {
                               self->Fail(ErrorCode::kRetry, failed.message());
                               return;
                             }
                             self->Connect(found);
                           });
  }

  void Connect(const Tcp::resolver::results_type& found) {
    step = config.proxy ? "connect to the proxy" : "connect";
    asio::async_connect(
        connection->tcp,
        found,
        [self = shared_from_this()](const error_code& failed, const Tcp::endpoint&) {
          if (self->over()) {
            return;
          }
          if (failed) {
            self->Fail(ErrorCode::kRetry, failed.message());
            return;
          }
          error_code ignored;
          self->connection->tcp.set_option(Tcp::no_delay(true), ignored);
          self->connection->tcp.set_option(asio::socket_base::keep_alive(true), ignored);
          if (self->config.proxy) {
            self->AskProxy();
          } else {
            self->Greet();
          }
        });
  }

  void AskProxy() {
    step = "ask the proxy";
    const bool v6 = config.server.host.contains(':');
    const std::string where = (v6 ? "[" + config.server.host + "]" : config.server.host) + ":" +
                              std::to_string(config.server.port);
    greeting = "CONNECT " + where + " HTTP/1.1\r\nHost: " + where + "\r\n";
    if (!config.proxy->authorization.empty()) {
      greeting += "Proxy-Authorization: " + config.proxy->authorization + "\r\n";
    }
    greeting += "\r\n";
    asio::async_write(connection->tcp,
                      asio::buffer(greeting),
                      [self = shared_from_this()](const error_code& failed, std::size_t) {
                        if (self->over()) {
                          return;
                        }
                        if (failed) {
                          self->Fail(ErrorCode::kRetry, failed.message());
                          return;
                        }
                        self->greeting.clear();
                        self->ReadProxyAnswer();
                      });
  }

  // Byte by byte, so that nothing of what comes behind the answer is taken away from TLS. It is
  // once a connection, and short.
  void ReadProxyAnswer() {
    connection->tcp.async_read_some(
        asio::buffer(byte), [self = shared_from_this()](const error_code& failed, std::size_t) {
          if (self->over()) {
            return;
          }
          if (failed) {
            self->Fail(ErrorCode::kRetry, failed.message());
            return;
          }
          self->greeting += self->byte[0];
          if (!self->greeting.ends_with("\r\n\r\n")) {
            if (self->greeting.size() > kMaxProxyAnswer) {
              self->Fail(ErrorCode::kRetry, "its answer is too long");
            } else {
              self->ReadProxyAnswer();
            }
            return;
          }
          // "HTTP/1.1 200 …"
          const std::string_view line =
              std::string_view(self->greeting).substr(0, self->greeting.find('\r'));
          if (!line.starts_with("HTTP/1.") ||
              line.substr(std::min<std::size_t>(line.size(), 8), 5) != " 200 ") {
            self->Fail(ErrorCode::kRetry, "it answered: " + std::string(line.substr(0, 100)));
            return;
          }
          self->Greet();
        });
  }

  void Greet() {
    if (!config.server.tls) {
      Finish();
      return;
    }
    step = "TLS";
    connection->tls.emplace(std::move(connection->tcp), *ssl);
    SSL* handle = connection->tls->native_handle();
    const std::string& name =
        config.tls.server_name.empty() ? config.server.host : config.tls.server_name;
    if (!IsAddress(name)) {
      ::SSL_set_tlsext_host_name(handle, name.c_str());
    }
    if (config.tls.insecure_skip_verify) {
      ::SSL_set_verify(handle, SSL_VERIFY_NONE, nullptr);
    } else {
      ::SSL_set_verify(handle, SSL_VERIFY_PEER, nullptr);
      X509_VERIFY_PARAM* param = ::SSL_get0_param(handle);
      ::X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
      const int set = IsAddress(name)
                          ? ::X509_VERIFY_PARAM_set1_ip_asc(param, name.c_str())
                          : ::X509_VERIFY_PARAM_set1_host(param, name.c_str(), name.size());
      if (set != 1) {
        Fail(ErrorCode::kInvalid, "not a server name");
        return;
      }
    }
    connection->tls->async_handshake(
        asio::ssl::stream_base::client, [self = shared_from_this()](const error_code& failed) {
          if (self->over()) {
            return;
          }
          if (!failed) {
            self->Finish();
            return;
          }
          const long verdict = ::SSL_get_verify_result(self->connection->tls->native_handle());
          if (verdict != X509_V_OK) {
            self->Fail(ErrorCode::kDenied,
                       std::string("the server's certificate was refused: ") +
                           ::X509_verify_cert_error_string(verdict));
          } else {
            self->Fail(ErrorCode::kRetry, failed.message());
          }
        });
  }

  void Finish() {
    Dialer::Done call = std::exchange(done, nullptr);
    deadline.reset();
    call(std::make_unique<AsioSocket>(connection));
  }
};

class AsioAttempt final : public Dialer::Attempt {
 public:
  explicit AsioAttempt(std::shared_ptr<Dialing> dialing) : dialing_(std::move(dialing)) {}
  ~AsioAttempt() override {
    if (!dialing_->over()) {
      dialing_->Abandon();
    }
  }

 private:
  std::shared_ptr<Dialing> dialing_;
};

class AsioDialer final : public Dialer {
 public:
  AsioDialer(IoLoop& loop, ConnectionConfig config, std::shared_ptr<asio::ssl::context> ssl)
      : loop_(loop),
        config_(std::make_shared<ConnectionConfig>(std::move(config))),
        ssl_(std::move(ssl)) {}

  std::unique_ptr<Attempt> Dial(Duration limit, Done done) override {
    auto dialing = std::make_shared<Dialing>(AsioContext(loop_), *config_, ssl_);
    dialing->done = std::move(done);
    dialing->deadline = loop_.At(loop_.Now() + limit, [weak = std::weak_ptr<Dialing>(dialing)] {
      if (const std::shared_ptr<Dialing> self = weak.lock()) {
        self->Fail(ErrorCode::kRetry, "time-out");
      }
    });
    dialing->Start();
    return std::make_unique<AsioAttempt>(std::move(dialing));
  }

  Status SetClientCertificate(const std::string& cert_pem, const std::string& key_pem) override {
    TlsConfig tls = config_->tls;
    tls.cert_pem = cert_pem;
    tls.key_pem = key_pem;
    MUSTER_ASSIGN_OR_RETURN(ssl_, MakeContext(tls));
    return {};
  }

 private:
  IoLoop& loop_;
  std::shared_ptr<ConnectionConfig> config_;
  std::shared_ptr<asio::ssl::context> ssl_;
};

}  // namespace

Result<std::unique_ptr<Dialer>> MakeDialer(IoLoop& loop, const ConnectionConfig& config) {
  std::shared_ptr<asio::ssl::context> ssl;
  if (config.server.tls) {
    MUSTER_ASSIGN_OR_RETURN(ssl, MakeContext(config.tls));
  }
  return std::make_unique<AsioDialer>(loop, config, std::move(ssl));
}

}  // namespace muster::k8s
