muster_fuzz(NAME watch_decoder_fuzz SRCS watch_decoder_fuzz.cc DEPS muster::k8sclient)
muster_fuzz(NAME kubeconfig_fuzz SRCS kubeconfig_fuzz.cc DEPS muster::k8sclient)
muster_fuzz(NAME http_response_fuzz SRCS http_response_fuzz.cc DEPS muster::k8sclient_net)
