#pragma once

#include <boost/asio/io_context.hpp>

#include "k8sclient/io_loop.h"

namespace muster::k8s {

// For files that bring sockets of their own onto the loop. The only way from IoLoop to Boost.
[[nodiscard]] boost::asio::io_context& AsioContext(IoLoop& loop);

}  // namespace muster::k8s
